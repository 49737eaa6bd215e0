// A plain file and a disk tier of the same size in the same folder, and the same work on both.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "block/block_key.h"
#include "contract/result.h"
#include "machine/file_ring.h"
#include "machine/file_system.h"
#include "machine/mapping.h"
#include "tier/disk/disk_tier.h"

namespace rhizome::bench {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint32_t kImageTokens = 64;

// Image number `number`, `bytes` long: a wire image with an identity, one chain. Filled once; what differs is its head.
class DiskImages {
 public:
  explicit DiskImages(uint64_t bytes);

  // Valid until the next call.
  std::span<const std::byte> image(uint32_t number);
  BlockKey key(uint32_t number);
  // Whether `bytes` are the image's.
  bool is_right(uint32_t number, std::span<const std::byte> bytes);

 private:
  std::vector<Token> tokens_of(uint32_t number) const;

  const uint64_t bytes_;
  std::vector<std::byte> raw_;
  std::vector<std::byte> image_;
  std::vector<BlockKey> keys_;
};

// A preallocated file that was written once, so that no write of it is the first one, with a ring over it.
class PlainFile {
 public:
  static Result<PlainFile> create(const std::string& path, uint64_t bytes, std::span<std::byte> memory);

  File& file() { return *file_; }
  bool is_direct() const { return file_->is_direct(); }
  // All of them, at most `at_once` under way.
  Status run(std::span<const RingOperation> operations, size_t at_once);

 private:
  std::unique_ptr<File> file_;
  std::unique_ptr<FileRing> ring_;
};

// Requests to a tier, all of them, at most `at_once` under way. Completions go to `done`.
Status run_requests(DiskTier& tier, std::span<const TierRequest> requests, size_t at_once,
                    std::vector<TierCompletion>& done);

}  // namespace rhizome::bench

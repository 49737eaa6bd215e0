// A plain file and a disk tier of the same size in the same folder, and the same work on both.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
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

// Places to read into, each for one read at a time.
class ReadPlaces {
 public:
  ReadPlaces(std::span<std::byte> memory, size_t place_bytes);

  size_t count() const { return free_.size() + taken_.size(); }
  // For the read `tag`, until it is given back.
  std::span<std::byte> take(uint64_t tag);
  void give_back(uint64_t tag);

 private:
  std::deque<std::span<std::byte>> free_;
  std::unordered_map<uint64_t, std::span<std::byte>> taken_;
};

// A preallocated file that was written once, so that no write of it is the first one, with a ring over it.
class PlainFile {
 public:
  static Result<PlainFile> create(const std::string& path, uint64_t bytes, std::span<std::byte> memory);
  // Files that are there already, for reading. Of an operation, `file` is which of them.
  static Result<PlainFile> open(const std::vector<std::string>& paths, std::span<std::byte> memory);

  File& file(size_t number = 0) { return *files_[number]; }
  bool is_direct() const { return files_.front()->is_direct(); }
  // All of them, at most `at_once` under way. With `places`, each reads as many bytes as it has into one of those.
  Status run(std::span<const RingOperation> operations, size_t at_once, ReadPlaces* places = nullptr);

 private:
  std::vector<std::unique_ptr<File>> files_;
  std::unique_ptr<FileRing> ring_;
};

// Requests to a tier, all of them, at most `at_once` under way. Completions go to `done`. With `places`, all are reads,
// each into one of those.
Status run_requests(DiskTier& tier, std::span<const TierRequest> requests, size_t at_once,
                    std::vector<TierCompletion>& done, ReadPlaces* places = nullptr);

}  // namespace rhizome::bench

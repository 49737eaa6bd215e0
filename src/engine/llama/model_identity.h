// Which weights a loaded model has: a digest over the contents of its files, computed once in the
// background and remembered beside the cache. Until it is known the model is not cacheable.
//
// The memory of a digest is good only while the file is the same: device, inode, size, mtime and ctime
// are compared, and they must be equal before and after hashing.
//
// Thread-safety: state() and digest() may be called from any thread; the rest belongs to the maker.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "block/sha256.h"
#include "contract/result.h"
#include "engine/llama/llama_api.h"
#include "machine/thread.h"

namespace rhizome {

// The digest of one file. `memory_directory` keeps what was learnt ("" keeps nothing). `stop` is polled;
// kCancelled when it said so, kAborted when the file changed meanwhile.
Result<Digest> digest_file(const std::string& path, const std::string& memory_directory,
                           const std::function<bool()>& stop);

// All files of a model whose first file is `path` ("...-00001-of-00003.gguf" has two more).
std::vector<std::string> split_files(const std::string& path);

// What was given to the loader beside the files and changes what the model computes, canonically.
std::string overrides_encoding(const llama_model_params& params);

class ModelIdentity {
 public:
  enum class State : uint8_t { kHashing, kKnown, kUnknown };

  // Starts hashing `files` in a thread of its own. No files: the weights cannot be known.
  ModelIdentity(std::vector<std::string> files, std::string overrides, const std::string& memory_directory);
  // For weights whose digest is known already.
  ModelIdentity(std::string name, const Digest& digest, std::string overrides);
  ~ModelIdentity();
  ModelIdentity(const ModelIdentity&) = delete;
  ModelIdentity& operator=(const ModelIdentity&) = delete;

  State state() const { return state_.load(std::memory_order_acquire); }  // pairs with the store in hash()
  // Only when state() is kKnown.
  const Digest& digest() const { return digest_; }
  const std::string& name() const { return name_; }
  const std::string& overrides() const { return overrides_; }

 private:
  void hash(const std::vector<std::string>& files, const std::string& memory_directory, const std::stop_token& stop);

  std::string name_;
  std::string overrides_;
  Digest digest_{};
  std::atomic<State> state_;
  Thread thread_;  // last: it uses the others
};

}  // namespace rhizome

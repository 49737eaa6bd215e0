#include "engine/llama/model_identity.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "machine/clock.h"
#include "machine/files.h"
#include "machine/units.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr size_t kChunkBytes = 1U << 20;
constexpr uint64_t kMemoryBytesMax = 4096;

std::string memory_path(const std::string& directory, const FileStamp& stamp) {
  return directory + "/" + std::to_string(stamp.device) + "-" + std::to_string(stamp.inode) + ".sha256";
}

std::string memory_text(const FileStamp& stamp, const Digest& digest) {
  return "rhizome weights 1\n" + std::to_string(stamp.size) + " " + std::to_string(stamp.mtime_ns) + " " +
         std::to_string(stamp.ctime_ns) + " " + hex(digest) + "\n";
}

std::optional<Digest> parse_hex(std::string_view text) {
  Digest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    unsigned value = 0;
    const char* begin = text.data() + 2 * i;
    const auto parsed = std::from_chars(begin, begin + 2, value, 16);
    if (parsed.ec != std::errc{} || parsed.ptr != begin + 2) return std::nullopt;
    digest[i] = static_cast<std::byte>(value);
  }
  return digest;
}

// What is remembered for exactly this state of the file.
std::optional<Digest> recall(const std::string& directory, const FileStamp& stamp) {
  const auto text = read_text_file(memory_path(directory, stamp), kMemoryBytesMax);
  if (!text || text->size() < 2 * sizeof(Digest) + 1) return std::nullopt;
  const auto digest =
      parse_hex(std::string_view(*text).substr(text->size() - 1 - 2 * sizeof(Digest), 2 * sizeof(Digest)));
  if (!digest || memory_text(stamp, *digest) != *text) return std::nullopt;
  return digest;
}

template <class T>
void append_plain(std::string& out, const T& value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void append_framed(std::string& out, std::string_view text) {
  append_plain(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

Result<Digest> digest_file(const std::string& path, const std::string& memory_directory,
                           const std::function<bool()>& stop) {
  const auto before = stamp_file(path);
  if (!before) return fail(before.error());
  // What others may write to is not believed, and nothing is put there.
  const bool remembers = !memory_directory.empty() && make_private_directory(memory_directory).has_value();
  if (remembers) {
    if (const auto known = recall(memory_directory, *before)) return *known;
  }
  Sha256 hash;
  bool stopped = false;
  const auto read = for_each_chunk(path, kChunkBytes, [&](std::span<const std::byte> chunk) {
    stopped = stop();
    if (!stopped) hash.update(chunk);
    return !stopped;
  });
  if (!read) return fail(read.error());
  if (stopped) return fail(Code::kCancelled, "hashing was stopped");
  const Digest digest = hash.finish();
  const auto after = stamp_file(path);
  if (!after || *after != *before) return fail(Code::kAborted, "the file changed while it was hashed");
  if (remembers) {
    // Without the memory the next start hashes again: not worth an error.
    (void)write_file_atomically(memory_path(memory_directory, *before), std::string_view(memory_text(*before, digest)));
  }
  return digest;
}

std::vector<std::string> split_files(const std::string& path) {
  // llama.cpp names the files of a split model PREFIX-00001-of-00003.gguf.
  constexpr std::string_view kSuffix = ".gguf";
  constexpr size_t kTailLength = sizeof("-00001-of-00003.gguf") - 1;
  const std::vector<std::string> alone{path};
  if (path.size() <= kTailLength || !path.ends_with(kSuffix)) return alone;
  const std::string prefix = path.substr(0, path.size() - kTailLength);
  const std::string tail = path.substr(prefix.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return alone;
  int count = 0;
  const char* digits = tail.data() + 10;
  if (std::from_chars(digits, digits + 5, count).ptr != digits + 5 || count < 1) return alone;
  std::vector<std::string> files;
  for (int i = 1; i <= count; ++i) {
    const std::string number = std::to_string(i);
    files.push_back(prefix + "-" + std::string(5 - std::min<size_t>(number.size(), 5), '0') + number + tail.substr(6));
  }
  return files;
}

std::string overrides_encoding(const llama_model_params& params) {
  std::string out;
  append_plain(out, static_cast<uint8_t>(params.load_mtp));
  append_plain(out, static_cast<uint8_t>(params.split_mode == LLAMA_SPLIT_MODE_TENSOR));
  for (const auto* entry = params.kv_overrides; entry != nullptr && entry->key[0] != 0; ++entry) {
    append_framed(out, std::string_view(entry->key, strnlen(entry->key, sizeof entry->key)));
    append_plain(out, static_cast<uint32_t>(entry->tag));
    switch (entry->tag) {
      case LLAMA_KV_OVERRIDE_TYPE_INT:
        append_plain(out, entry->val_i64);
        break;
      case LLAMA_KV_OVERRIDE_TYPE_FLOAT:
        append_plain(out, entry->val_f64);
        break;
      case LLAMA_KV_OVERRIDE_TYPE_BOOL:
        append_plain(out, static_cast<uint8_t>(entry->val_bool));
        break;
      case LLAMA_KV_OVERRIDE_TYPE_STR:
        append_framed(out, std::string_view(entry->val_str, strnlen(entry->val_str, sizeof entry->val_str)));
        break;
    }
  }
  return out;
}

ModelIdentity::ModelIdentity(std::vector<std::string> files, std::string overrides, const std::string& memory_directory)
    : name_(files.empty() ? "a model without a file" : base_name(files.front())),
      overrides_(std::move(overrides)),
      state_(files.empty() ? State::kUnknown : State::kHashing) {
  if (files.empty()) return;
  auto thread = start_thread("rz-weights", [this, files = std::move(files), memory_directory](
                                               const std::stop_token& stop) { hash(files, memory_directory, stop); });
  if (!thread) {
    state_.store(State::kUnknown, std::memory_order_release);
    return;
  }
  thread_ = std::move(*thread);
}

ModelIdentity::ModelIdentity(std::string name, const Digest& digest, std::string overrides)
    : name_(std::move(name)), overrides_(std::move(overrides)), digest_(digest), state_(State::kKnown) {}

ModelIdentity::~ModelIdentity() = default;

void ModelIdentity::hash(const std::vector<std::string>& files, const std::string& memory_directory,
                         const std::stop_token& stop) {
  const uint64_t begin_ns = monotonic_now_ns();
  Sha256 all;
  for (const std::string& file : files) {
    const auto digest = digest_file(file, memory_directory, [&stop] { return stop.stop_requested(); });
    if (!digest) {
      if (digest.error().code != Code::kCancelled) {
        log_warning("{}: weights are not known, nothing is cached: {}", name_, digest.error().reason);
      }
      state_.store(State::kUnknown, std::memory_order_release);
      return;
    }
    all.update(*digest);
  }
  digest_ = all.finish();
  log_debug("{}: weights known after {}", name_, format_duration(monotonic_now_ns() - begin_ns));
  state_.store(State::kKnown, std::memory_order_release);  // pairs with the load in state()
}

}  // namespace rhizome

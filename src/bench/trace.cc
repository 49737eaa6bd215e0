#include "bench/trace.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "bench/zstd_text.h"
#include "machine/files.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kTraceBytesMax = uint64_t{1} << 30;
constexpr std::array<std::string_view, 2> kBundled = {"conversation", "synthetic"};

struct PathEnd {
  uint32_t parent;
  uint64_t hash_id;
  friend bool operator==(const PathEnd&, const PathEnd&) = default;
};

struct PathEndHash {
  size_t operator()(const PathEnd& end) const {
    uint64_t mixed = (end.hash_id ^ (uint64_t{end.parent} << 32)) * 0x9e3779b97f4a7c15ULL;
    return mixed ^ (mixed >> 29);
  }
};

// What of one line is used.
struct Line {
  std::vector<uint64_t> hash_ids;
  uint64_t input_tokens = 0;
};

// Nothing when the line is none of a trace.
std::optional<Line> parse_line(std::string_view text) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto length = object.find("input_length");
  const auto ids = object.find("hash_ids");
  if (length == object.end() || !length->is_number_unsigned()) return std::nullopt;
  if (ids == object.end() || !ids->is_array()) return std::nullopt;
  Line line;
  line.input_tokens = length->get<uint64_t>();
  for (const nlohmann::json& id : *ids) {
    if (!id.is_number_unsigned()) return std::nullopt;
    line.hash_ids.push_back(id.get<uint64_t>());
  }
  return line;
}

class TraceBuilder {
 public:
  void add(const Line& line) {
    Request request;
    request.input_tokens = line.input_tokens;
    uint32_t parent = Trace::kNoBlock;
    for (const uint64_t id : line.hash_ids) {
      const auto [found, is_new] = known_.try_emplace({parent, id}, trace_.distinct());
      if (is_new) {
        trace_.parent.push_back(parent);
        trace_.hash_id.push_back(id);
      }
      parent = found->second;
      request.blocks.push_back(parent);
    }
    trace_.block_uses += request.blocks.size();
    trace_.input_tokens += request.input_tokens;
    trace_.longest = std::max(trace_.longest, static_cast<uint32_t>(request.blocks.size()));
    trace_.requests.push_back(std::move(request));
  }

  Trace take() { return std::move(trace_); }

 private:
  Trace trace_;
  std::unordered_map<PathEnd, uint32_t, PathEndHash> known_;
};

}  // namespace

Result<Trace> parse_trace(std::string_view text, std::string& wrong) {
  TraceBuilder builder;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::optional<Line> parsed = parse_line(line);
    if (!parsed) {
      wrong = "line " + std::to_string(number) +
              " is no request of a trace: it must be a JSON object with \"input_length\" and \"hash_ids\"";
      return fail(Code::kInvalidArgument, "not a trace");
    }
    builder.add(*parsed);
  }
  Trace trace = builder.take();
  if (trace.block_uses == 0) {
    wrong = trace.requests.empty() ? "it holds no requests" : "its requests have no blocks";
    return fail(Code::kInvalidArgument, "an empty trace");
  }
  return trace;
}

Result<Trace> load_trace(const std::string& path, std::string& wrong) {
  const std::string named = "the trace '" + path + "'";
  const Result<std::vector<std::byte>> bytes = read_file(path, kTraceBytesMax);
  if (!bytes) {
    wrong = named + (bytes.error().code == Code::kNotFound ? std::string(" does not exist")
                                                           : std::string(": ") + bytes.error().reason);
    return fail(bytes.error());
  }
  std::string text;
  if (is_zstd(*bytes)) {
    Result<std::string> unpacked = unpack_zstd(*bytes, kTraceBytesMax);
    if (!unpacked) {
      wrong = named + ": " + unpacked.error().reason;
      return fail(unpacked.error());
    }
    text = std::move(*unpacked);
  } else {
    text.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  Result<Trace> trace = parse_trace(text, wrong);
  if (!trace) wrong = named + ": " + wrong;
  return trace;
}

std::string bundled_trace(const std::string& program, std::string_view name) {
  if (std::ranges::find(kBundled, name) == kBundled.end()) return "";
  const std::filesystem::path prefix = std::filesystem::path(program).parent_path().parent_path();
  return (prefix / "share/rhizome/traces" / (std::string(name) + ".jsonl.zst")).string();
}

}  // namespace rhizome::bench

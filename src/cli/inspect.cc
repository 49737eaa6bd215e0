#include "cli/inspect.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "block/identity.h"
#include "block/little_endian.h"
#include "cli/command_text.h"
#include "cli/complaint.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/segment_survey.h"
#include "codec/image.h"
#include "machine/files.h"
#include "machine/units.h"
#include "telemetry/log.h"
#include "tier/disk/segment_entries.h"
#include "tier/disk/segment_header.h"

namespace rhizome {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFaultsShown = 20;
constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;

std::string mebibytes(uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// What was found, in both forms, and whether all of it verifies.
struct Finding {
  std::string text;
  Json json;
  bool verifies = true;
};

std::string_view base_name(std::string_view path) {
  while (path.ends_with('/'))
    path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// --- segments ---

std::string segment_text(std::string_view name, const SegmentSurvey& survey) {
  std::string text(name);
  text += "  ";
  text += segment_condition_name(survey.condition);
  if (survey.condition == SegmentCondition::kOtherVersion)
    text += " " + std::to_string(survey.header.version) + ": left alone";
  if (survey.header.generation > 0 && survey.condition != SegmentCondition::kOtherVersion)
    text += ", generation " + std::to_string(survey.header.generation);
  if (survey.images > 0) {
    text += ": " + format_count(survey.images, "image") + ", " + mebibytes(survey.image_bytes) + ", " +
            std::to_string(survey.identities) + " with an identity";
  }
  if (!survey.note.empty()) text += " (" + survey.note + ")";
  text += "\n";
  if (!survey.fault.empty()) text += "  " + survey.fault + "\n";
  for (size_t i = 0; i < std::min(survey.faults.size(), kFaultsShown); ++i) {
    const RecordFault& fault = survey.faults[i];
    text += "  at " + std::to_string(fault.offset) + ", key " + fault.key + ": " + fault.why + "\n";
  }
  if (survey.faults.size() > kFaultsShown)
    text += "  and " + std::to_string(survey.faults.size() - kFaultsShown) + " more (--json lists all)\n";
  return text;
}

// `number`: the one in its name. A header that was never written says none.
Json segment_json(std::string_view name, std::optional<uint32_t> number, const SegmentSurvey& survey) {
  Json faults = Json::array();
  for (const RecordFault& fault : survey.faults)
    faults.push_back({{"offset", fault.offset}, {"key", fault.key}, {"why", fault.why}});
  return {{"name", name},
          {"condition", segment_condition_name(survey.condition)},
          {"version", survey.header.version},
          {"segment", survey.header.generation > 0 ? Json(survey.header.segment)
                      : number                     ? Json(*number)
                                                   : Json()},
          {"generation", survey.header.generation},
          {"segment_bytes", survey.header.segment_bytes},
          {"images", survey.images},
          {"image_bytes", survey.image_bytes},
          {"identities", survey.identities},
          {"keyspaces", survey.keyspaces},
          {"records_end", survey.data_end},
          {"note", survey.note},
          {"fault", survey.fault},
          {"faults", std::move(faults)}};
}

Finding look_at_segment(const std::string& path, std::optional<uint32_t> number) {
  const std::string name(base_name(path));
  const auto unreadable = [&](const Error& error) {
    return Finding{.text = name + "  cannot be read: " + error.reason + "\n",
                   .json = {{"name", name}, {"condition", "unreadable"}, {"fault", error.reason}},
                   .verifies = false};
  };
  const Result<std::unique_ptr<File>> file = real_file_system().open(path, OpenMode::kRead);
  if (!file) return unreadable(file.error());
  const Result<SegmentSurvey> survey = survey_segment(**file, number);
  if (!survey) return unreadable(survey.error());
  return {
      .text = segment_text(name, *survey), .json = segment_json(name, number, *survey), .verifies = survey->verifies()};
}

// --- a directory ---

Finding look_at_directory(const std::string& path, const std::vector<std::string>& names) {
  const bool is_live = real_file_system().is_locked(path);
  Finding all;
  Json segments = Json::array();
  std::string text;
  uint64_t images = 0;
  uint64_t not_right = 0;
  uint64_t others = 0;
  for (const std::string& name : names) {
    const std::optional<uint32_t> number = segment_number(name);
    if (!number) {
      others += name != "lock";
      continue;
    }
    Finding one = look_at_segment(path + "/" + name, number);
    images += one.json.value("images", uint64_t{0});
    not_right += !one.verifies;
    all.verifies = all.verifies && one.verifies;
    text += one.text;
    segments.push_back(std::move(one.json));
  }
  all.text = path + ": " + format_count(segments.size(), "segment") + ", " + format_count(images, "image") +
             (is_live ? "; a living process has it open, and may write while this reads" : "") + "\n";
  if (segments.empty()) {
    all.text += "there is no segment of a disk tier in it";
    // Whoever gives the --cache-dir itself means what lies in there.
    const bool has_blocks = std::find(names.begin(), names.end(), "blocks") != names.end();
    all.text += has_blocks ? "; a cache's segments are in " + path + "/blocks\n" : "\n";
  }
  if (others > 0) all.text += format_count(others, "file") + " of other names\n";
  all.text += text;
  if (not_right > 0) {
    all.text += format_count(not_right, "segment") + " with faults\n";
  } else if (!segments.empty()) {
    all.text += "everything verifies\n";
  }
  all.json = {{"path", path},     {"kind", "directory"},      {"live", is_live},
              {"images", images}, {"verifies", all.verifies}, {"segments", std::move(segments)}};
  return all;
}

// --- an image ---

std::string_view codec_word(Codec codec) {
  switch (codec) {
    case Codec::kRaw:
      return "raw";
    case Codec::kE3:
      return "E3";
    case Codec::kRans:
      return "E-rANS";
    case Codec::kZstdPlanes:
      return "zstd planes";
  }
  return "unknown";
}

std::string_view element_word(ElementType type) {
  switch (type) {
    case ElementType::kBf16:
      return "bf16";
    case ElementType::kF16:
      return "f16";
    case ElementType::kF32:
      return "f32";
    case ElementType::kF8E4M3:
      return "f8e4m3";
    case ElementType::kF8E5M2:
      return "f8e5m2";
    case ElementType::kI8:
      return "i8";
    case ElementType::kOpaque:
      return "opaque";
  }
  return "unknown";
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(byte));
    text += two;
  }
  return text;
}

// What the image itself can tell to be wrong with it; "" where nothing is.
std::string image_fault(const ImageHeader& header, std::span<const std::byte> image) {
  const Status length = check_encoded_length(header, image.size() - kImageHeaderBytes);
  if (!length) return length.error().reason;
  // A seal vouches for the bytes, to whoever has its key.
  if (header.is_sealed() || header.has(image_flag::kNoDigest)) return "";
  return image_digest(image) == header.digest ? "" : "the SHA-256 of the image differs";
}

void add_identity(std::span<const std::byte> image, Finding& finding) {
  // Its own name of a key is all that is there of it: the whole one follows from parent and tokens.
  const size_t at = kImageHeaderBytes;
  if (image.size() < identity_end(image) || identity_end(image) == 0) return;
  constexpr size_t kPositionAt = 64;
  constexpr size_t kCountAt = 68;
  constexpr size_t kTokensAt = 72;
  const uint32_t position = load_little<uint32_t>(image.data() + at + kPositionAt);
  const uint32_t count = load_little<uint32_t>(image.data() + at + kCountAt);
  if (identity_bytes(count) > image.size() - at) return;
  std::vector<Token> tokens(count);
  const std::span<const std::byte> token_bytes = image.subspan(at + kTokensAt, count * sizeof(Token));
  std::copy(token_bytes.begin(), token_bytes.end(), std::as_writable_bytes(std::span(tokens)).begin());
  const BlockKey parent = identity_parent(image.subspan(at));
  const KeyName found = key_name(next_key(parent, tokens));
  const bool is_right = hex_of(found) == finding.json["key"].get<std::string>();
  finding.json["position"] = position;
  finding.json["tokens"] = count;
  finding.json["parent"] = parent.name();
  finding.text += "identity: " + format_count(count, "token") + " from position " + std::to_string(position) +
                  ", parent " + parent.name() + "\n";
  if (is_right || !finding.verifies) return;
  finding.verifies = false;
  finding.json["fault"] = "the key is not that of the parent and the tokens";
  finding.text += "  the key is not that of the parent and the tokens\n";
}

Finding look_at_image(const std::string& path) {
  Finding finding;
  const auto wrong = [&](const char* why) {
    finding.verifies = false;
    finding.json = {{"path", path}, {"kind", "image"}, {"verifies", false}, {"fault", why}};
    finding.text = path + ": an image of a block: " + why + "\n";
    return finding;
  };
  const Result<std::vector<std::byte>> image = read_file(path, kImageBytesMax);
  if (!image) return wrong(image.error().reason);
  const Result<ImageHeader> header = parse_image_header(*image);
  if (!header) return wrong(header.error().reason);
  const BlockGeometry& geometry = header->geometry;
  const std::string fault = image_fault(*header, *image);
  finding.verifies = fault.empty();
  const bool has_digest = !header->is_sealed() && !header->has(image_flag::kNoDigest);
  finding.json = {{"path", path},
                  {"kind", "image"},
                  {"codec", codec_word(header->codec)},
                  {"element_type", element_word(geometry.element_type)},
                  {"layers", geometry.layers_count},
                  {"block_tokens", geometry.tokens_count},
                  {"kv_heads", geometry.kv_heads_count},
                  {"key_width", geometry.key_width},
                  {"value_width", geometry.value_width},
                  {"raw_bytes", geometry.raw_bytes()},
                  {"image_bytes", image->size()},
                  {"key", hex_of(header->key)},
                  {"keyspace", hex_of(header->keyspace)},
                  {"sealed", header->is_sealed()},
                  {"partial", header->has(image_flag::kPartial)},
                  {"lossy", header->has(image_flag::kLossy)},
                  {"digest", has_digest},
                  {"fault", fault}};
  finding.text = path + ": an image of a block, codec " + std::string(codec_word(header->codec)) + "\n";
  finding.text += "shape: " + std::string(element_word(geometry.element_type)) + ", " +
                  format_count(geometry.tokens_count, "token") + ", " + format_count(geometry.layers_count, "layer") +
                  ", " + format_count(geometry.kv_heads_count, "head") + " of " + std::to_string(geometry.key_width) +
                  " and " + std::to_string(geometry.value_width) + "\n";
  finding.text += "bytes: " + std::to_string(geometry.raw_bytes()) + " raw, " + std::to_string(image->size()) +
                  " in the image\nkey: " + hex_of(header->key) + ", keyspace " + hex_of(header->keyspace) + "\n";
  if (!fault.empty()) finding.text += "  " + fault + "\n";
  if (header->is_sealed()) {
    finding.text += "sealed: what is in it can be checked by whoever has the key\n";
  } else {
    add_identity(*image, finding);
    if (!has_digest) finding.text += "it carries no digest: whoever stores it keeps a checksum\n";
  }
  finding.json["verifies"] = finding.verifies;
  if (finding.verifies && has_digest) finding.text += "everything verifies\n";
  return finding;
}

// --- the command ---

OrComplaint<Finding> look_at(const std::string& path) {
  const Result<std::vector<std::string>> names = real_file_system().list(path);
  if (names) return look_at_directory(path, *names);
  const Result<std::vector<std::byte>> head = read_file_range(path, 0, sizeof(uint32_t));
  if (!head) return complain("inspect: '" + path + "': " + head.error().reason);
  const std::optional<uint32_t> number = segment_number(base_name(path));
  const uint32_t magic = head->size() == sizeof(uint32_t) ? load_little<uint32_t>(head->data()) : 0;
  if (magic == kImageMagic) return look_at_image(path);
  if (magic != kSegmentMagic && !number)
    return complain("inspect: '" + path + "' is no segment of a disk tier and no image of a block");
  Finding finding = look_at_segment(path, number);
  finding.json["path"] = path;
  finding.json["kind"] = "segment";
  finding.json["verifies"] = finding.verifies;
  if (finding.verifies) finding.text += "everything verifies\n";
  return finding;
}

}  // namespace

int inspect_main(const std::vector<std::string>& arguments) {
  bool is_json = false;
  std::optional<std::string> path;
  for (const std::string& word : arguments) {
    if (word == "--help" || word == "-h") {
      std::fputs(command_help(*find_command("inspect")).c_str(), stdout);
      return kDone;
    }
    if (word == "--json") {
      is_json = true;
    } else if (word.starts_with("-") || path) {
      log_error("inspect takes one PATH and --json; see rhizome inspect --help");
      return kWrongCall;
    } else {
      path = word;
    }
  }
  if (!path) {
    log_error("inspect needs a PATH: a directory of a disk tier, a segment, or an image (rhizome inspect --help)");
    return kWrongCall;
  }
  const OrComplaint<Finding> finding = look_at(*path);
  if (!finding) {
    log_error("{}", finding.error());
    return kFailed;
  }
  // Names of files may be any bytes.
  const std::string json =
      is_json ? finding->json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" : std::string();
  std::fputs(is_json ? json.c_str() : finding->text.c_str(), stdout);
  return finding->verifies ? kDone : kFailed;
}

}  // namespace rhizome

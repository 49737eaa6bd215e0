#include "cli/model_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>

#include "machine/files.h"

namespace rhizome {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kFirstRead = uint64_t{1} << 20;
// The largest vocabularies make heads of some 20 MB.
constexpr uint64_t kHeadMost = uint64_t{512} << 20;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;
constexpr uint32_t kDimensionsMost = 8;

// Bytes of each scalar type of a value in the head; 0: not a scalar.
constexpr std::array<uint64_t, 13> kScalarBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// ggml's element types: so many elements take so many bytes. Types that are not here only make the
// check weaker.
struct ElementType {
  uint64_t elements;
  uint64_t bytes;
};
const std::map<uint32_t, ElementType> kElementTypes = {
    {0, {1, 4}},   {1, {1, 2}},     {2, {32, 18}},    {3, {32, 20}},    {6, {32, 22}},    {7, {32, 24}},
    {8, {32, 34}}, {10, {256, 84}}, {11, {256, 110}}, {12, {256, 144}}, {13, {256, 176}}, {14, {256, 210}},
    {24, {1, 1}},  {25, {1, 2}},    {26, {1, 4}},     {27, {1, 8}},     {28, {1, 8}},     {30, {1, 2}},
};

// Reads on until the bytes run out or something cannot be.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    Number value{};
    if (const auto* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::string_view text() {
    const auto length = number<uint64_t>();
    const std::byte* from = take(length);
    return from == nullptr ? std::string_view() : std::string_view(reinterpret_cast<const char*>(from), length);
  }
  const std::byte* take(uint64_t count) {
    if (short_ || count > bytes_.size() - at_) {
      short_ = true;
      return nullptr;
    }
    const std::byte* from = bytes_.data() + at_;
    at_ += count;
    return from;
  }
  uint64_t at() const { return at_; }
  bool is_short() const { return short_; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  bool short_ = false;
};

using Numbers = std::map<std::string, uint64_t, std::less<>>;

// Skips a value, and keeps it when it is a whole number. False: of no known type.
bool read_value(Cursor& cursor, uint32_t type, std::string_view key, Numbers& numbers) {
  if (type == kString) {
    cursor.text();
    return true;
  }
  if (type == kArray) {
    const auto element = cursor.number<uint32_t>();
    const auto count = cursor.number<uint64_t>();
    if (element == kString) {
      for (uint64_t i = 0; i < count && !cursor.is_short(); ++i)
        cursor.text();
      return true;
    }
    if (element >= kScalarBytes.size() || kScalarBytes[element] == 0) return false;
    if (count > kHeadMost) return false;
    cursor.take(count * kScalarBytes[element]);
    return true;
  }
  if (type >= kScalarBytes.size()) return false;
  if (type == 4 || type == 5) {
    numbers[std::string(key)] = cursor.number<uint32_t>();
  } else if (type == 10 || type == 11) {
    numbers[std::string(key)] = cursor.number<uint64_t>();
  } else {
    cursor.take(kScalarBytes[type]);
  }
  return true;
}

// The end of one tensor's bytes, counted from where the data begin. Nothing: it makes no sense.
std::optional<uint64_t> read_tensor(Cursor& cursor) {
  cursor.text();
  const auto dimensions = cursor.number<uint32_t>();
  if (dimensions > kDimensionsMost) return std::nullopt;
  uint64_t elements = 1;
  bool overflow = false;
  for (uint32_t i = 0; i < dimensions; ++i) {
    overflow |= __builtin_mul_overflow(elements, cursor.number<uint64_t>(), &elements);
  }
  const auto type = cursor.number<uint32_t>();
  const auto offset = cursor.number<uint64_t>();
  if (cursor.is_short()) return 0;
  uint64_t bytes = 0;
  if (const auto known = kElementTypes.find(type); known != kElementTypes.end()) {
    overflow |= __builtin_mul_overflow(elements / known->second.elements, known->second.bytes, &bytes);
  }
  overflow |= __builtin_add_overflow(offset, bytes, &bytes);
  if (overflow) return std::nullopt;
  return bytes;
}

uint64_t kv_elements(const Numbers& numbers) {
  std::string_view architecture;
  for (const auto& [key, value] : numbers) {
    if (key.ends_with(".block_count")) architecture = std::string_view(key).substr(0, key.size() - 12);
    // Layers that share or compress their rows, or have none.
    if (key.ends_with("_lora_rank") || key.ends_with(".shared_kv_layers") || key.find(".ssm.") != std::string::npos) {
      return 0;
    }
  }
  const auto get = [&](std::string_view name) -> uint64_t {
    const auto found = numbers.find(std::string(architecture) + std::string(name));
    return found == numbers.end() ? 0 : found->second;
  };
  const uint64_t heads = get(".attention.head_count");
  const uint64_t kv_heads = get(".attention.head_count_kv");
  if (heads == 0 || kv_heads == 0) return 0;  // a number a layer, or no attention
  uint64_t width = get(".attention.key_length") + get(".attention.value_length");
  if (width == 0) width = 2 * (get(".embedding_length") / heads);
  uint64_t elements = 0;
  if (__builtin_mul_overflow(get(".block_count"), kv_heads, &elements)) return 0;
  if (__builtin_mul_overflow(elements, width, &elements)) return 0;
  return elements;
}

}  // namespace

Result<std::optional<GgufHead>> parse_gguf_head(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  const std::byte* magic = cursor.take(kMagic.size());
  if (magic == nullptr || std::memcmp(magic, kMagic.data(), kMagic.size()) != 0) {
    return fail(Code::kInvalidArgument, "is not a GGUF file");
  }
  const GgufHead not_understood;
  const auto version = cursor.number<uint32_t>();
  if (!cursor.is_short() && version != 2 && version != 3) return std::optional(not_understood);
  const auto tensors = cursor.number<uint64_t>();
  const auto values = cursor.number<uint64_t>();
  Numbers numbers;
  for (uint64_t i = 0; i < values && !cursor.is_short(); ++i) {
    const std::string_view key = cursor.text();
    const auto type = cursor.number<uint32_t>();
    if (!read_value(cursor, type, key, numbers)) return std::optional(not_understood);
  }
  uint64_t data_bytes = 0;
  for (uint64_t i = 0; i < tensors && !cursor.is_short(); ++i) {
    const auto end = read_tensor(cursor);
    if (!end) return std::optional(not_understood);
    data_bytes = std::max(data_bytes, *end);
  }
  if (cursor.is_short()) return std::optional<GgufHead>();
  const auto stated = numbers.find("general.alignment");
  const uint64_t alignment = stated == numbers.end() ? kDefaultAlignment : stated->second;
  if (alignment == 0 || alignment > (uint64_t{1} << 20)) return std::optional(not_understood);
  GgufHead head;
  const uint64_t data_start = (cursor.at() + alignment - 1) / alignment * alignment;
  if (tensors > 0 && __builtin_add_overflow(data_start, data_bytes, &head.bytes_least)) head.bytes_least = 0;
  head.kv_elements_per_token = kv_elements(numbers);
  return std::optional(head);
}

Result<GgufHead> check_model_file(const std::string& path) {
  const auto stamp = stamp_file(path);
  if (!stamp) {
    if (stamp.error().code == Code::kNotFound) return fail(Code::kNotFound, "does not exist");
    if (stamp.error().code == Code::kInvalidArgument) return fail(Code::kInvalidArgument, "is not a regular file");
    return fail(stamp.error().code, "cannot be read");
  }
  for (uint64_t length = kFirstRead;; length *= 2) {
    const auto bytes = read_file_range(path, 0, length);
    if (!bytes) return fail(bytes.error().code, "cannot be read");
    if (bytes->empty()) return fail(Code::kInvalidArgument, "is empty");
    const auto head = parse_gguf_head(*bytes);
    if (!head) return fail(head.error());
    if (const std::optional<GgufHead>& complete = *head) {
      if (complete->bytes_least > stamp->size) return fail(Code::kDataLoss, "is truncated");
      return *complete;
    }
    if (bytes->size() < length) return fail(Code::kDataLoss, "is truncated");
    if (length >= kHeadMost) return GgufHead{};
  }
}

}  // namespace rhizome

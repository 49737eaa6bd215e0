#include "codec/seal_keys.h"

#include <cstring>

#include <charconv>

#include "contract/check.h"
#include "machine/files.h"

namespace rhizome {
namespace {

constexpr size_t kFileBytesMax = 64 << 10;
constexpr size_t kKeysMax = 256;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_key(std::string_view digits, SealKey& key) {
  if (digits.size() != 2 * key.size()) return false;
  for (size_t i = 0; i < key.size(); ++i) {
    const int high = digit_of(digits[2 * i]);
    const int low = digit_of(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

Result<SealKeys> SealKeys::read(const std::string& path) {
  Result<std::string> text = read_secret_file(path, kFileBytesMax);
  if (!text) return fail(text.error());
  Result<SealKeys> keys = parse(*text);
  ::explicit_bzero(text->data(), text->size());
  return keys;
}

Result<SealKeys> SealKeys::parse(std::string_view text) {
  SealKeys keys;
  // In place from the start: a list that grew would leave keys behind.
  keys.keys_.reserve(kKeysMax);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    uint32_t id = 0;
    const auto [behind, error] = std::from_chars(line.data(), line.data() + line.size(), id);
    const std::string_view rest = line.substr(static_cast<size_t>(behind - line.data()));
    if (error != std::errc() || id == 0 || rest.empty() || (rest.front() != ' ' && rest.front() != '\t'))
      return fail(Code::kInvalidArgument, "a line of the key file does not begin with an id");
    if (keys.find(id) != nullptr) return fail(Code::kInvalidArgument, "an id occurs twice in the key file");
    if (keys.keys_.size() == kKeysMax) return fail(Code::kInvalidArgument, "the key file has more than 256 keys");
    keys.keys_.push_back({id, {}});
    if (!parse_key(trimmed(rest), keys.keys_.back().key))
      return fail(Code::kInvalidArgument, "a key of the key file has not 64 hexadecimal digits");
  }
  if (keys.keys_.empty()) return fail(Code::kInvalidArgument, "the key file has no key");
  return keys;
}

SealKeys::~SealKeys() {
  for (Entry& entry : keys_)
    ::explicit_bzero(entry.key.data(), entry.key.size());
}

const SealKey* SealKeys::find(uint32_t id) const {
  for (const Entry& entry : keys_) {
    if (entry.id == id) return &entry.key;
  }
  return nullptr;
}

}  // namespace rhizome

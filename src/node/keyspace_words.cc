#include "node/keyspace_words.h"

#include <algorithm>
#include <span>

namespace rhizome {
namespace {

// A field that is longer is cut: programs may put anything there.
constexpr size_t kFieldBytesMax = 48;
constexpr size_t kWeightsDigits = 8;
// A digest and a scale for each (KeyspaceTag::kAdapters).
constexpr size_t kAdapterBytes = sizeof(Digest) + sizeof(float);

std::string printable(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kFieldBytesMax))) {
    const char c = static_cast<char>(byte);
    text += c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
  }
  return text;
}

std::string weights_words(std::span<const std::byte> weights) {
  Digest digest{};
  if (weights.size() != digest.size()) return "weights " + printable(weights);
  std::ranges::copy(weights, digest.begin());
  return "weights " + hex(digest).substr(0, kWeightsDigits);
}

}  // namespace

std::string keyspace_name(const Keyspace& keyspace) {
  return hex(keyspace.digest()).substr(0, kKeyspaceNameDigits);
}

std::string keyspace_words(const Keyspace& keyspace) {
  const auto has = [&](KeyspaceTag tag) { return !keyspace.field(tag).empty(); };
  std::string text = printable(keyspace.field(KeyspaceTag::kEngine)) + ", " +
                     weights_words(keyspace.field(KeyspaceTag::kWeights)) + ", " +
                     printable(keyspace.field(KeyspaceTag::kMemoryClass));
  if (const std::string attention = printable(keyspace.field(KeyspaceTag::kAttention)); attention != "causal") {
    text += ", " + attention + " attention";
  }
  if (has(KeyspaceTag::kAdapters)) {
    const size_t adapters = keyspace.field(KeyspaceTag::kAdapters).size() / kAdapterBytes;
    text += ", " + std::to_string(adapters) + (adapters == 1 ? " adapter" : " adapters");
  }
  if (has(KeyspaceTag::kControlVector)) text += ", control vector";
  if (has(KeyspaceTag::kMedia)) text += ", media";
  if (has(KeyspaceTag::kNumerics)) text += ", exact";
  if (has(KeyspaceTag::kSalt)) text += ", private";
  return text.substr(0, kKeyspaceWordsMax);
}

}  // namespace rhizome

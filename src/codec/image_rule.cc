#include "codec/image_rule.h"

#include <array>

namespace rhizome {
namespace {

struct RuleText {
  ImageRule rule;
  const char* name;
  Code code;
  const char* reason;
};

constexpr std::array<RuleText, kImageRulesCount> kTexts = {{
    {ImageRule::kHeaderPresent, "header_present", Code::kDataLoss, "the image is shorter than its header"},
    {ImageRule::kMagic, "magic", Code::kDataLoss, "these bytes are no block image"},
    {ImageRule::kVersion, "version", Code::kUnimplemented, "the image has a version that is not known here"},
    {ImageRule::kCodec, "codec", Code::kUnimplemented, "the image has a codec that is not known here"},
    {ImageRule::kElementType, "element_type", Code::kUnimplemented, "the image has an unknown element type"},
    {ImageRule::kLayout, "layout", Code::kUnimplemented, "the image has an unknown layout"},
    {ImageRule::kFlags, "flags", Code::kUnimplemented, "the image has unknown flags"},
    {ImageRule::kCombination, "combination", Code::kDataLoss, "codec, element type and flags do not go together"},
    {ImageRule::kLayers, "layers", Code::kDataLoss, "the number of layers is out of range"},
    {ImageRule::kTokens, "tokens", Code::kDataLoss, "the number of tokens is out of range"},
    {ImageRule::kHeads, "heads", Code::kDataLoss, "the number of heads is out of range"},
    {ImageRule::kWidths, "widths", Code::kDataLoss, "the width of a head is out of range"},
    {ImageRule::kLatent, "latent", Code::kDataLoss, "layout and flag of latent attention disagree"},
    {ImageRule::kRawLength, "raw_length", Code::kDataLoss, "the raw length is not what the shape gives"},
    {ImageRule::kRawLimit, "raw_limit", Code::kResourceExhausted, "the block is larger than allowed"},
    {ImageRule::kGeometry, "geometry", Code::kFailedPrecondition, "the image has another geometry than asked for"},
    {ImageRule::kPartial, "partial", Code::kFailedPrecondition, "the image is partial or whole, and was not to be"},
    {ImageRule::kEncodedLimit, "encoded_limit", Code::kDataLoss, "the encoded length is out of range"},
    {ImageRule::kEncodedLength, "encoded_length", Code::kDataLoss, "the encoded length is not what is there"},
    {ImageRule::kKey, "key", Code::kFailedPrecondition, "the image has another key than asked for"},
    {ImageRule::kKeyspace, "keyspace", Code::kFailedPrecondition, "the image is of another keyspace"},
    {ImageRule::kIdentity, "identity", Code::kFailedPrecondition, "the image is not of the tokens asked for"},
    {ImageRule::kCheckMissing, "check_missing", Code::kUnauthenticated, "the image has no digest and no seal"},
    {ImageRule::kDigest, "digest", Code::kDataLoss, "the SHA-256 of the image differs"},
    {ImageRule::kSealKey, "seal_key", Code::kPermissionDenied, "there is no key for the image's seal"},
    {ImageRule::kSeal, "seal", Code::kUnauthenticated, "the seal of the image is broken"},
    {ImageRule::kSectionTable, "section_table", Code::kDataLoss, "the section table is out of order"},
    {ImageRule::kSectionLength, "section_length", Code::kDataLoss, "a section has the wrong length"},
    {ImageRule::kSectionTables, "section_tables", Code::kDataLoss, "a section's frequencies do not add up"},
    {ImageRule::kSectionBytes, "section_bytes", Code::kDataLoss, "a section does not decode"},
    {ImageRule::kLossy, "lossy", Code::kFailedPrecondition, "the image is lossy, and was not to be"},
}};

constexpr bool is_in_order() {
  for (uint32_t i = 0; i < kTexts.size(); ++i) {
    if (static_cast<uint32_t>(kTexts[i].rule) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

std::string_view image_rule_name(ImageRule rule) {
  return kTexts[static_cast<size_t>(rule)].name;
}

tl::unexpected<Error> broken(ImageRule rule) {
  const RuleText& text = kTexts[static_cast<size_t>(rule)];
  return fail(text.code, text.reason);
}

std::optional<ImageRule> broken_rule(const Error& error) {
  for (const RuleText& text : kTexts) {
    if (text.reason == error.reason) return text.rule;
  }
  return std::nullopt;
}

}  // namespace rhizome

// What can be wrong with an image: one rule for each check, in the order in which they are checked, cheap ones first.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "contract/result.h"

namespace rhizome {

enum class ImageRule : uint8_t {
  // 1: what the first bytes say.
  kHeaderPresent,  // fewer than 84 bytes
  kMagic,
  kVersion,
  kCodec,        // unknown, or one that this version does not have
  kElementType,  // unknown
  kLayout,       // unknown
  kFlags,        // an undefined bit is set
  kCombination,  // codec, element type, layout and flags do not go together
  // 2: the shape, before anything is multiplied.
  kLayers,
  kTokens,
  kHeads,
  kWidths,
  kLatent,  // flag, layout and one head go together
  // 3: sizes.
  kRawLength,  // not what the shape gives
  kRawLimit,   // more than the request allows
  kGeometry,   // not the request's
  kPartial,    // whole where a partial block was asked for, or the other way round
  // 4: what follows the header.
  kEncodedLimit,   // more than the codec makes of so many bytes, or too little for the identity
  kEncodedLength,  // not what is there
  // 5: whose bytes they are.
  kKey,
  kKeyspace,
  kIdentity,
  // 6: whether the bytes are those that were written.
  kCheckMissing,   // neither a digest nor a seal, and no other check was made
  kDigest,         // SHA-256
  kSealKey,        // sealed with a key that the tenant's file does not have
  kSeal,           // AES-256-GCM
  kSectionTable,   // ends that fall, or are out of range
  kSectionLength,  // a section is not as long as its own fields say
  kSectionTables,  // frequencies that do not add up
  kSectionBytes,   // escapes or a stream that end before or after what they encode
  // 7: the request's wishes.
  kLossy,
};
inline constexpr uint32_t kImageRulesCount = static_cast<uint32_t>(ImageRule::kLossy) + 1;

// A word for labels and tables, for example "section_table".
std::string_view image_rule_name(ImageRule rule);

// The error that says so: kDataLoss for damage, kFailedPrecondition for what belongs to somebody else,
// kUnimplemented for what another version may know, kPermissionDenied and kUnauthenticated for seals.
tl::unexpected<Error> broken(ImageRule rule);

// The rule, when the error was made by broken().
std::optional<ImageRule> broken_rule(const Error& error);

}  // namespace rhizome

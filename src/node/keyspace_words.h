// What a keyspace encodes, in a few words for people: "llama.cpp/seq-3, weights 1f2e3d4c, dense".
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "block/keyspace.h"

namespace rhizome {

// So many digits of its digest name a keyspace.
inline constexpr size_t kKeyspaceNameDigits = 12;
std::string keyspace_name(const Keyspace& keyspace);

// At most kKeyspaceWordsMax bytes of printable ASCII, without quotes and backslashes. Only what differs from the usual
// is said: private ones (a request's salt), adapters, exact mode. What a salt is stays untold: it may be a secret.
inline constexpr size_t kKeyspaceWordsMax = 160;
std::string keyspace_words(const Keyspace& keyspace);

}  // namespace rhizome

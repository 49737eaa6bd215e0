// Exit statuses of the program itself.
#pragma once

namespace rhizome {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongCall = 2;

}  // namespace rhizome

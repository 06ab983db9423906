// Exit codes of the crash worker if it does not die.
#pragma once

namespace nearfield::fault {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitRefused = 6;    // the store did not open
inline constexpr int kExitFindings = 10;  // the store's content is not what it acknowledged

}  // namespace nearfield::fault

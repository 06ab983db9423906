// Exit codes of the server process. --help and the manual page list them; deploy/README.md says
// what to do.
#pragma once

#include <array>

namespace nearfield::server {

enum class ExitCode : int {
  kClean = 0,
  kFailure = 1,
  kConfiguration = 2,
  kDeviceLost = 3,
  kSelfTest = 4,
  kStorage = 5,
};

struct ExitCodeMeaning {
  ExitCode code;
  const char* text;
};

inline constexpr std::array kExitCodes = {
    ExitCodeMeaning{ExitCode::kClean,
                    "clean end: SIGTERM or SIGINT, drained; what was asked for is done"},
    ExitCodeMeaning{ExitCode::kFailure,
                    "anything else; also a second signal, or calls that would not end"},
    ExitCodeMeaning{
        ExitCode::kConfiguration,
        "configuration error; also an address or a data directory in use, memory or a GPU "
        "not to be had"},
    ExitCodeMeaning{ExitCode::kDeviceLost, "the device is lost: start the process again"},
    ExitCodeMeaning{
        ExitCode::kSelfTest,
        "the self-test, or later an answer or a row, was wrong: do not trust this machine"},
    ExitCodeMeaning{ExitCode::kStorage,
                    "the data directory or a snapshot is damaged, or a read or write in it failed: "
                    "see the log"},
};

}  // namespace nearfield::server

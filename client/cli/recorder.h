// Recorder: writes the answers of a search to a log of replies.
#pragma once

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "client/cli/logged_reply.h"
#include "client/cpp/text.h"

namespace nearfield::client {

// Appends answers to a log, one per line.
class Recorder {
 public:
  // With an empty path, nothing is recorded.
  absl::Status Open(const std::string& path) {
    if (path.empty()) return absl::OkStatus();
    file_.open(path, std::ios::app | std::ios::binary);
    return file_ ? absl::OkStatus() : Failed(path);
  }
  absl::Status Add(const std::string& path, const LoggedReply& reply) {
    if (!file_.is_open()) return absl::OkStatus();
    file_ << ToJsonLine(reply) << "\n" << std::flush;
    return file_ ? absl::OkStatus() : Failed(path);
  }
  bool recording() const { return file_.is_open(); }

 private:
  static absl::Status Failed(const std::string& path) {
    return absl::InvalidArgumentError(Cat(path, ": cannot be written"));
  }
  std::ofstream file_;
};

}  // namespace nearfield::client

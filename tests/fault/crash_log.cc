#include "tests/fault/crash_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace nearfield::fault {

CrashLog::CrashLog(const std::string& path) {
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) Take(line);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

CrashLog::~CrashLog() { ::close(fd_); }

void CrashLog::Take(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "try") {
    in_flight_ = Operation::Parse(line.substr(4));
    last_number_ = std::max(last_number_, in_flight_->number);
  } else if (word == "ack" && in_flight_.has_value()) {
    model_.Apply(*in_flight_);
    in_flight_.reset();
  } else if (word == "no") {
    in_flight_.reset();
  } else if (word == "snap" || word == "unsnap") {
    int64_t number = 0;
    uint64_t hash = 0;
    words >> number >> hash;
    if (word == "snap") {
      snapshots_[number] = hash;
    } else {
      snapshots_.erase(number);
    }
    last_number_ = std::max(last_number_, number);
  }
}

void CrashLog::Write(const std::string& line) const {
  const std::string whole = line + "\n";
  if (::write(fd_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) std::abort();
}

void CrashLog::Try(const Operation& operation) {
  const std::string line = "try " + operation.Line();
  Write(line);
  Take(line);
}

void CrashLog::Acknowledge() {
  const std::string line = "ack " + std::to_string(in_flight_->number);
  Write(line);
  Take(line);
}

void CrashLog::Refuse() {
  const std::string line = "no " + std::to_string(in_flight_->number);
  Write(line);
  Take(line);
}

void CrashLog::AddSnapshot(int64_t number) {
  const std::string line = "snap " + std::to_string(number) + " " + std::to_string(HashOf(model_));
  Write(line);
  Take(line);
}

void CrashLog::RemoveSnapshot(int64_t number) {
  const std::string line = "unsnap " + std::to_string(number);
  Write(line);
  Take(line);
}

}  // namespace nearfield::fault

#include "tests/fault/crash_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace nearfield::fault {

CrashLog::CrashLog(const std::string& path, int64_t lanes) {
  for (int64_t lane = 0; lane < lanes; ++lane) last_numbers_.push_back(lane > 0 ? lane - lanes : 0);
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) Take(line);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

CrashLog::~CrashLog() { ::close(fd_); }

int64_t& CrashLog::LastOf(int64_t number) {
  return last_numbers_[static_cast<size_t>(number % lanes())];
}

void CrashLog::Take(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  int64_t number = 0;
  words >> word >> number;
  const auto tried = in_flight_.find(number);
  if (word == "try") {
    in_flight_[number] = Operation::Parse(line.substr(4));
  } else if (word == "ack" && tried != in_flight_.end()) {
    model_.Apply(tried->second);
    in_flight_.erase(tried);
  } else if (word == "no" && tried != in_flight_.end()) {
    in_flight_.erase(tried);
  } else if (word == "snap") {
    words >> snapshots_[number];
  } else if (word == "unsnap") {
    snapshots_.erase(number);
  } else if (word == "gone") {
    deleted_snapshots_.insert(number);
  } else {
    return;
  }
  LastOf(number) = std::max(LastOf(number), number);
}

void CrashLog::Add(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(fd_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) std::abort();
  Take(line);
}

std::vector<Operation> CrashLog::InFlight() const {
  const std::lock_guard lock(mutex_);
  std::vector<Operation> operations;
  for (const auto& [number, operation] : in_flight_) operations.push_back(operation);
  return operations;
}

int64_t CrashLog::NextNumber(int64_t lane) {
  const std::lock_guard lock(mutex_);
  return last_numbers_[static_cast<size_t>(lane)] += lanes();
}

void CrashLog::Try(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  Add("try " + operation.Line());
}

void CrashLog::Acknowledge(int64_t number) {
  const std::lock_guard lock(mutex_);
  Add("ack " + std::to_string(number));
}

void CrashLog::Refuse(int64_t number) {
  const std::lock_guard lock(mutex_);
  Add("no " + std::to_string(number));
}

void CrashLog::AddSnapshot(int64_t number) {
  const std::lock_guard lock(mutex_);
  Add("snap " + std::to_string(number) + " " + std::to_string(HashOf(model_)));
}

void CrashLog::RemoveSnapshot(int64_t number) {
  const std::lock_guard lock(mutex_);
  Add("unsnap " + std::to_string(number));
}

void CrashLog::AcknowledgeDeletion(int64_t number) {
  const std::lock_guard lock(mutex_);
  Add("gone " + std::to_string(number));
}

}  // namespace nearfield::fault

// The log of a worker: what it was about to do, and what the store acknowledged. It lies outside
// the directory that loses power, one write a line.
#ifndef NEARFIELD_TESTS_FAULT_CRASH_LOG_H_
#define NEARFIELD_TESTS_FAULT_CRASH_LOG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tests/fault/crash_model.h"

namespace nearfield::fault {

// Lines: "try OPERATION", then "ack NUMBER" or "no NUMBER" (refused, no effect), or nothing where
// the process died; "snap NUMBER HASH" for a finished snapshot, "unsnap NUMBER" once it is checked.
class CrashLog {
 public:
  // Reads what is there and builds the model of it.
  explicit CrashLog(const std::string& path);
  ~CrashLog();
  CrashLog(const CrashLog&) = delete;
  CrashLog& operator=(const CrashLog&) = delete;

  const Model& model() const { return model_; }
  const std::optional<Operation>& in_flight() const { return in_flight_; }
  const std::map<int64_t, uint64_t>& snapshots() const { return snapshots_; }
  int64_t NextNumber() { return ++last_number_; }

  void Try(const Operation& operation);
  // The operation in flight happened, or it did not.
  void Acknowledge();
  void Refuse();
  void AddSnapshot(int64_t number);
  void RemoveSnapshot(int64_t number);

 private:
  void Take(const std::string& line);
  void Write(const std::string& line) const;

  int fd_ = -1;
  Model model_;
  std::optional<Operation> in_flight_;
  std::map<int64_t, uint64_t> snapshots_;
  int64_t last_number_ = 0;
};

}  // namespace nearfield::fault

#endif  // NEARFIELD_TESTS_FAULT_CRASH_LOG_H_

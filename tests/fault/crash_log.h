// The log of a worker: operations that it began, and those that the store acknowledged. The file
// lies outside the directory that loses power; each line is one write.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/fault/crash_model.h"

namespace nearfield::fault {

// Lines: "try OPERATION", then "ack NUMBER" or "no NUMBER" (refused, no effect), or neither if the
// process died; "snap NUMBER HASH" for a finished snapshot, "unsnap NUMBER" after its check.
//
// Several lanes, each a thread, write one log. The numbers of lane L are L modulo the number of
// lanes, so that each lane draws the same numbers in every run. Thread safety: thread-safe, except
// where noted.
class CrashLog {
 public:
  // Reads an existing log and builds its model. A log always has the same number of lanes.
  CrashLog(const std::string& path, int64_t lanes);
  ~CrashLog();
  CrashLog(const CrashLog&) = delete;
  CrashLog& operator=(const CrashLog&) = delete;

  int64_t lanes() const { return static_cast<int64_t>(last_numbers_.size()); }
  // Requires: no lane runs.
  const Model& model() const { return model_; }
  // Returns look(model) and keeps the model unchanged during the call.
  template <typename Look>
  auto With(Look look) const {
    const std::lock_guard lock(mutex_);
    return look(model_);
  }
  std::vector<Operation> InFlight() const;
  // Only for the lane that takes snapshots.
  const std::map<int64_t, uint64_t>& snapshots() const { return snapshots_; }
  const std::set<int64_t>& deleted_snapshots() const { return deleted_snapshots_; }
  int64_t NextNumber(int64_t lane);

  void Try(const Operation& operation);
  // Records that the operation in flight with this number happened, or did not.
  void Acknowledge(int64_t number);
  void Refuse(int64_t number);
  // Requires: no operation is in flight.
  void AddSnapshot(int64_t number);
  void RemoveSnapshot(int64_t number);
  void AcknowledgeDeletion(int64_t number);

 private:
  // The members below require the mutex.
  void Take(const std::string& line);
  void Add(const std::string& line);  // writes the line, then applies it
  int64_t& LastOf(int64_t number);

  mutable std::mutex mutex_;
  int fd_ = -1;
  Model model_;
  std::map<int64_t, Operation> in_flight_;  // by number
  std::map<int64_t, uint64_t> snapshots_;
  std::set<int64_t> deleted_snapshots_;
  std::vector<int64_t> last_numbers_;  // by lane
};

}  // namespace nearfield::fault

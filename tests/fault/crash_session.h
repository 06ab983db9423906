// One life of a store between two deaths: checked at its start, then driven by a seed.
#ifndef NEARFIELD_TESTS_FAULT_CRASH_SESSION_H_
#define NEARFIELD_TESTS_FAULT_CRASH_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/store/store.h"
#include "tests/fault/crash_check.h"
#include "tests/fault/crash_log.h"
#include "tests/fault/crash_model.h"
#include "tests/testing/random.h"

namespace nearfield::fault {

struct SessionOptions {
  std::string root;  // data/ and snapshots lie in it
  uint64_t seed = 0;
  bool acknowledges_early = false;  // a planted bug of the worker itself
  // Calls are made to fail: whatever only reads, or opens a file, may fail without consequence.
  bool calls_may_fail = false;
};

class CrashSession {
 public:
  CrashSession(SessionOptions options, CrashLog* log);

  // Opens the store. Errors: the store's.
  absl::Status Open();
  // Compares everything with the log, and settles the operation in flight.
  Findings Check();
  // One random operation. Not OK: the store did what it may not.
  absl::Status Step();
  absl::Status Close();

 private:
  struct OpenUpload {
    std::unique_ptr<store::SegmentWriter> writer;
    int64_t number = 0;
    std::string collection;
    UploadData data;
  };

  std::string DataDir() const { return options_.root + "/data"; }
  std::string SnapshotDir(int64_t number) const;
  int64_t IdOf(const std::string& collection) const;
  // A collection by chance; empty: there is none.
  std::string AnyCollection();
  // Logs the operation, runs it, and logs how it ended.
  template <typename Run>
  absl::Status Do(const Operation& operation, Run run);

  absl::Status ResumeAll(Findings* findings);
  absl::Status Create();
  absl::Status Drop();
  absl::Status Begin();
  absl::Status AppendSome();
  absl::Status Checkpoint();
  absl::Status Commit();
  absl::Status EndUpload();
  absl::Status Delete(const std::string& collection);
  absl::Status Alias();
  absl::Status Compact();
  absl::Status Snapshot();
  absl::Status CheckSnapshot();
  absl::Status Excused(const absl::Status& status) const;

  const SessionOptions options_;
  CrashLog* const log_;
  testing::Random random_;
  std::unique_ptr<store::Store> store_;
  std::vector<OpenUpload> uploads_;
};

}  // namespace nearfield::fault

#endif  // NEARFIELD_TESTS_FAULT_CRASH_SESSION_H_

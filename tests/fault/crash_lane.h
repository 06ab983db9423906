// One thread in a life of the store: draws operations from a seed, runs them and logs them.
//
// Lanes run concurrently on one store. Each lane has collections, uploads and aliases of its own.
// All lanes change one shared collection, which refuses a commit if another lane committed first.
// So each lane has at most one unacknowledged operation, and the epochs give their order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/out_of_memory.h"
#include "server/store/store.h"
#include "tests/fault/allocation_fault.h"
#include "tests/fault/crash_check.h"
#include "tests/fault/crash_log.h"
#include "tests/fault/crash_model.h"
#include "tests/testing/random.h"

namespace nearfield::fault {

struct SessionOptions {
  std::string root;  // contains data/ and the snapshots
  uint64_t seed = 0;
  bool acknowledges_early = false;  // a planted bug of the worker itself
  // Calls are made to fail: operations that only read, or open a file, may fail without
  // consequence.
  bool calls_may_fail = false;
};

// Calls the store with its allocations counted, so that one of them can fail.
template <typename Call>
auto Counted(const Call& call) {
  const CountAllocations count;
  return CatchOutOfMemory([&call] { return call(); });
}

inline store::StoreOptions OptionsFor(const std::string& dir) {
  // Keeps the log short, so that it is often moved into the database.
  return {.dir = dir, .free_bytes_min = 0, .log_pages_max = 16, .unix_seconds = [] {
            return int64_t{1'700'000'000};
          }};
}

class CrashLane {
 public:
  // Only lane 0 takes snapshots. All lanes share `gate`.
  CrashLane(const SessionOptions& options, int64_t lane, store::Store* store, CrashLog* log,
            std::shared_mutex* gate);

  // Continues an open upload of an earlier life. Errors: those of the store.
  absl::Status Resume(const ModelUpload& upload, Findings* findings);
  // Finishes the deletions of snapshots, then checks that every snapshot that is listed is
  // complete, and that no deleted one is. Errors: those of the store.
  absl::Status CheckSnapshots(Findings* findings);
  // Runs one random operation. Errors: the store broke its contract.
  absl::Status Step();
  // Ends the uploads.
  void Close();

 private:
  struct OpenUpload {
    std::unique_ptr<store::SegmentWriter> writer;
    int64_t number = 0;
    std::string collection;
    UploadData data;
  };
  // Collections that this lane may change; an empty name: there is none.
  struct Choice {
    std::vector<std::string> own;
    std::string shared;
    std::string large;  // one with many rows
  };

  static std::string SnapshotName(int64_t number);
  std::string SnapshotDir(int64_t number) const;
  int64_t IdOf(const std::string& collection) const;
  Choice Choose() const;
  // Returns a random collection; empty: there is none.
  std::string AnyCollection();
  std::optional<ModelCollection> Copy(const std::string& name) const;
  CollectionSpec SpecOfCollection(const std::string& name) const;
  // Logs the operation, runs it, and logs the outcome.
  template <typename Run>
  absl::Status Do(const Operation& operation, Run run);
  bool Overtaken(const Operation& operation, const absl::Status& status) const;

  absl::Status Create(bool shared);
  absl::Status Drop();
  absl::Status Begin();
  absl::Status AppendSome();
  absl::Status Checkpoint();
  absl::Status Commit();
  absl::Status EndUpload();
  absl::Status Delete(const std::string& collection);
  absl::Status Update(const std::string& collection);
  absl::Status Alias();
  absl::Status Compact();
  absl::Status Snapshot();
  absl::StatusOr<Model> Restore(int64_t number);
  absl::Status CheckSnapshot();
  absl::Status DeleteSnapshot(int64_t number);  // OK if there is none
  absl::Status Excused(const absl::Status& status) const;

  const SessionOptions& options_;
  const int64_t lane_;
  store::Store* const store_;
  CrashLog* const log_;
  std::shared_mutex* const gate_;
  testing::Random random_;
  std::vector<OpenUpload> uploads_;
};

}  // namespace nearfield::fault

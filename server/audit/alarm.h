// Alarm: stops the server and writes a record when an answer or a resident row is proven wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/audit/record.h"
#include "server/audit/record_folder.h"

namespace nearfield::server {

// Thread-safe.
class Alarm {
 public:
  struct Options {
    std::string server_version;
    EngineInfo engine;
    std::string record_dir;  // empty: no records are written
    // Stops serving. Called first for every mismatch, from any thread.
    std::function<void()> stop = [] {};
    // Reports the mismatch and the path of its record, or why there is none.
    std::function<void(const std::string& what, const absl::StatusOr<std::string>& record)> report =
        [](const std::string&, const absl::StatusOr<std::string>&) {};
    // Returns the seconds since 1970, for records. Null: the system clock.
    std::function<int64_t()> unix_seconds;
  };
  explicit Alarm(Options options);

  // When these return, serving is stopped and the record is on disk.
  void Raise(const AnswerMismatch& mismatch);
  void Raise(const RowMismatch& mismatch);

  int64_t mismatches() const { return mismatches_.load(); }
  // Returns the number of existing records, including those of earlier processes.
  int64_t RecordsCount() const { return folder_.Count(); }

 private:
  template <typename Mismatch>
  void RaiseOne(const Mismatch& mismatch);

  const Options options_;
  RecordFolder folder_;
  std::atomic<int64_t> mismatches_{0};
};

}  // namespace nearfield::server

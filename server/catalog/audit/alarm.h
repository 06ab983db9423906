// What happens where an answer or a resident row is proven wrong.
#ifndef NEARFIELD_SERVER_CATALOG_AUDIT_ALARM_H_
#define NEARFIELD_SERVER_CATALOG_AUDIT_ALARM_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/catalog/audit/record.h"
#include "server/catalog/audit/record_folder.h"

namespace nearfield::server {

// Thread-safe.
class Alarm {
 public:
  struct Options {
    std::string server_version;
    EngineInfo engine;
    std::string record_dir;  // empty: nothing is kept
    // Stops the serving; called for every mismatch, first of all, from any thread.
    std::function<void()> stop = [] {};
    // Says what is wrong, and where its record lies (or why there is none).
    std::function<void(const std::string& what, const absl::StatusOr<std::string>& record)> tell =
        [](const std::string&, const absl::StatusOr<std::string>&) {};
    // Seconds since 1970, for records. Not given: the system's.
    std::function<int64_t()> unix_seconds;
  };
  explicit Alarm(Options options);

  // The serving is stopped, and the record is on the disk, when these return.
  void Raise(const AnswerMismatch& mismatch);
  void Raise(const RowMismatch& mismatch);

  int64_t mismatches() const { return mismatches_.load(); }
  // Records there are already, of earlier processes too.
  int64_t RecordsCount() const { return folder_.Count(); }

 private:
  template <typename Mismatch>
  void RaiseOne(const Mismatch& mismatch);

  const Options options_;
  RecordFolder folder_;
  std::atomic<int64_t> mismatches_{0};
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_AUDIT_ALARM_H_

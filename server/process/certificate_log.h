// CertificateLog: the lines of the log about certificates that were read again.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

// May outlive the log, from which it is detached then. Thread-safe.
class CertificateLog {
 public:
  explicit CertificateLog(Log* log) : log_(log) {}

  // Writes what a Certificates::Load returned, and the same failure only once.
  void Write(const absl::StatusOr<bool>& loaded);
  // Stops writing.
  void Detach();

 private:
  Mutex mutex_;
  Log* log_ ABSL_GUARDED_BY(mutex_);
  std::string failure_ ABSL_GUARDED_BY(mutex_);  // of the latest Load; empty: it succeeded
};

}  // namespace nearfield::server

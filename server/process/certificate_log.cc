#include "server/process/certificate_log.h"

namespace nearfield::server {

void CertificateLog::Write(const absl::StatusOr<bool>& loaded) {
  const MutexLock lock(mutex_);
  const std::string before = failure_;
  failure_ = std::string(loaded.status().message());
  if (log_ == nullptr) return;
  if (!loaded.ok() && failure_ != before) {
    log_->Write(
        LogLevel::kError,
        "the certificate is not reloaded: the one in force stays in use for new connections",
        {{"error", failure_}});
  } else if (loaded.ok() && (*loaded || !before.empty())) {
    log_->Write(LogLevel::kInfo, "certificate loaded");
  }
}

void CertificateLog::Detach() {
  const MutexLock lock(mutex_);
  log_ = nullptr;
}

}  // namespace nearfield::server

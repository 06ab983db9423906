// Certificates: the certificate of the server, its private key and the authorities of clients, read
// from files that may be replaced while the server runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

// The contents of the files, in PEM.
struct CertificateTexts {
  std::string certificate;  // of the server, and its chain
  std::string key;
  std::string client_authorities;  // empty: clients need no certificate

  bool operator==(const CertificateTexts&) const = default;
};

// Thread-safe.
class Certificates {
 public:
  struct Files {
    std::string certificate;
    std::string key;
    std::string client_authorities;  // empty: none
  };
  explicit Certificates(Files files) : files_(std::move(files)) {}

  // Reads the files. Puts their contents in force if the key belongs to the certificate, the
  // certificate is valid now, and there is an authority where one is needed; else those in force
  // stay, and the failure is counted. So the files may be replaced in any order. Returns true if
  // the contents changed. Errors: InvalidArgument, NotFound (names the file).
  absl::StatusOr<bool> Load();

  struct State {
    std::shared_ptr<const CertificateTexts> in_force;  // null before the first successful Load
    int64_t expires_unix_s = 0;                        // of the certificate in force
    int64_t failures_count = 0;                        // of Load
    absl::Status latest;                               // of Load
  };
  State state() const;

 private:
  const Files files_;
  mutable Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

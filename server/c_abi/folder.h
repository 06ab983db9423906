// Folder: a data directory that is open in this process, and the instance that serves it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "server/boot/instance.h"
#include "server/config/settings.h"
#include "server/rpc/call_context.h"
#include "server/rpc/health_state.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

// A call with a stream of messages, of any type.
class Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // As WaitingMessages::Send, with a serialized message; null: there are no more.
  virtual bool Send(const void* request, size_t size) = 0;
  // As WaitingReplies::Next; the message is serialized.
  virtual bool Receive(std::string* message) = 0;
  virtual CallEnd AwaitEnd() = 0;
  virtual void Cancel() = 0;
  virtual void Release() = 0;
};

// Thread-safe.
class Folder {
 public:
  // Opens the directory that `settings` (lines as in a configuration file) name. Errors: as
  // nf_open.
  static absl::StatusOr<std::shared_ptr<Folder>> Open(const std::string& settings);

  const Settings& settings() const { return settings_; }
  ServerState& state() { return instance_->state(); }
  NearfieldService& service() { return instance_->service(); }
  HealthState& health() { return health_; }
  // Returns true in a process that was forked after Open, where the threads of the folder are
  // absent.
  bool forked() const;

  // Registers a stream that is about to begin, until Leave. Errors: Cancelled (the folder closes).
  absl::Status Enter(const std::shared_ptr<Stream>& stream);
  void Leave(const std::shared_ptr<Stream>& stream);
  bool closing() const;
  // Cancels all calls, waits for their end, and closes the directory. Called once.
  void Close();

 private:
  Folder();
  // Fills the settings. Errors: InvalidArgument.
  absl::Status Load(const std::string& settings);
  absl::Status Boot();

  const pid_t pid_;
  const SteadyClock clock_;
  Settings settings_;
  std::unique_ptr<Log> log_;
  HealthState health_;
  mutable Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Instance> instance_;
};

}  // namespace nearfield::server

// Instance: one server without a transport: the engine, the store, the collections, and the service
// that answers calls about them. nearfield-server puts gRPC in front of it, libnearfield a C ABI.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/boot/device_monitor.h"
#include "server/boot/engine_factory.h"
#include "server/config/exit_code.h"
#include "server/config/settings.h"
#include "server/rpc/health_state.h"
#include "server/rpc/local_service.h"
#include "server/rpc/server_state.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

// The objects that an instance uses. All outlive it.
struct InstanceBase {
  const Settings* settings = nullptr;
  Log* log = nullptr;
  const Clock* clock = nullptr;
  HealthState* health = nullptr;  // receives the states that the instance serves
  // Called once, on any thread, when the data directory fails: nothing that was committed is lost,
  // but nothing more can be. Must end the process, or refuse all later calls.
  std::function<void(const absl::Status&)> on_store_failure;
};

class Instance {
 public:
  explicit Instance(InstanceBase base);

  // Creates the engine, checks it against the oracle, loads the collections, and serves. Returns
  // kClean, or the reason why the instance cannot serve, which is logged. Call it once.
  ExitCode Boot(const EngineFactory& make_engine);
  // Returns the error for which Boot did not return kClean.
  const absl::Status& failure() const { return failure_; }

  ServerState& state() { return state_; }
  NearfieldService& service() { return service_; }

  // Begins to check the health of the device (DeviceMonitor). The monitor ends before the engine
  // does: call StopWatching before the core is destroyed. Requires: Boot has returned kClean.
  void WatchDevice(std::function<void(const absl::Status&)> on_lost);
  void StopWatching();
  // Returns true if the engine exists and reports that its device is lost.
  bool DeviceLost();

 private:
  // These return kClean, or log the reason why the instance cannot serve.
  ExitCode OpenStore(std::unique_ptr<store::Store>* opened);
  ExitCode MakeEngine(const EngineFactory& make_engine, std::unique_ptr<Engine>* made);
  absl::Status LoadCollections(Core* core);
  // Logs and counts one step of the expiry of rows.
  void NoteExpired(const std::string& collection, const absl::StatusOr<int64_t>& rows);

  const InstanceBase base_;
  const Settings* const settings_;
  Log* const log_;
  const Clock* const clock_;
  ServerState state_;
  LocalService service_;
  absl::Status failure_;
  std::shared_ptr<DeviceMonitor> monitor_;
};

}  // namespace nearfield::server

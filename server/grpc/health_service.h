// HealthService: grpc.health.v1, with a status for each service, and Watch. It replaces gRPC's
// default service, which is SERVING from the start; here nothing is SERVING before SetServing.
#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/health_state.h"
#include "server/security/access_control.h"

namespace nearfield::server {

class HealthWatch;

// Thread-safe.
class HealthService final : public grpc::health::v1::Health::Service, public HealthState {
 public:
  // `control`: the keys of the server, which outlive the service; null: it has none. The state of a
  // collection needs a key that covers it; other states need none.
  explicit HealthService(const AccessControl* control = nullptr);
  ~HealthService() override;

  // Sends the current status to all watches. A watch whose key is not valid any more ends instead.
  void Refresh() override;

  // Sets NOT_SERVING permanently, and ends every watch.
  void Shutdown();

 private:
  grpc::ServerUnaryReactor* AnswerCheck(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* bytes,
                                        grpc::health::v1::HealthCheckResponse* response);
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* BeginWatch(
      const grpc::CallbackServerContext& context, const grpc::ByteBuffer* bytes);
  // Returns the decoded request. Sets the key of its caller if the service needs one. Errors: those
  // of DecodeWithin, Unauthenticated, PermissionDenied.
  absl::StatusOr<grpc::health::v1::HealthCheckRequest> RequestIn(
      const grpc::CallbackServerContext& context, const grpc::ByteBuffer* bytes, KeyPtr* key) const;
  friend class HealthWatch;
  void Forget(const std::shared_ptr<HealthWatch>& watch);
  void Tell(HealthWatch* watch);

  const AccessControl* const control_;
  Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t lookups_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::shared_ptr<HealthWatch>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

// HealthService: grpc.health.v1, with a status for each service, and Watch. It replaces gRPC's
// default service, which is SERVING from the start; here nothing is SERVING before SetServing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/security/access_control.h"

namespace nearfield::server {

class HealthWatch;

// The health service of a collection is this prefix and its name. It is NOT_SERVING if the
// collection is not loaded, or if a read of its stored rows has failed since: searches continue
// from memory, but a restart may fail to load it. The whole server stays SERVING.
inline constexpr char kCollectionHealthPrefix[] = "nearfield.v1.Collection/";

// Knows "" (the whole server), the three services of nearfield.v1 and every collection.
// Thread-safe.
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  // `control`: the keys of the server, which outlive the service; null: it has none. The state of a
  // collection needs a key that covers it; other states need none.
  explicit HealthService(const AccessControl* control = nullptr);
  ~HealthService() override;

  // State of a collection by name. `look` outlives the last call, and is called without a lock.
  enum class CollectionState : uint8_t { kUnknown, kGood, kDamaged };
  void SetCollections(std::function<CollectionState(const std::string& name)> look);
  // Sends the current status to all watches.
  void Refresh();

  // Sets the status of all services, which share one engine.
  void SetServing(bool serving);
  // Sets NOT_SERVING permanently; watches continue.
  void Withdraw();
  // Sets NOT_SERVING permanently, and ends every watch.
  void Shutdown();

 private:
  grpc::ServerUnaryReactor* AnswerCheck(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* bytes,
                                        grpc::health::v1::HealthCheckResponse* response);
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* BeginWatch(
      const grpc::CallbackServerContext& context, const grpc::ByteBuffer* bytes);
  // Returns the service that the request names. Errors: those of DecodeWithin, Unauthenticated,
  // PermissionDenied.
  absl::StatusOr<std::string> ServiceIn(const grpc::CallbackServerContext& context,
                                        const grpc::ByteBuffer* bytes) const;
  friend class HealthWatch;
  void Forget(const std::shared_ptr<HealthWatch>& watch);
  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& service);
  void Tell(HealthWatch* watch);

  const AccessControl* const control_;
  Mutex mutex_;
  std::function<CollectionState(const std::string& name)> look_ ABSL_GUARDED_BY(mutex_);
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool withdrawn_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t lookups_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::shared_ptr<HealthWatch>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

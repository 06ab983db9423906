// HealthState: what the standard health protocol says about this server. It knows no transport.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "server/security/access_control.h"

namespace nearfield::server {

// The health service of a collection is this prefix and its name. It is NOT_SERVING if the
// collection is not loaded, or if a read of its stored rows has failed since: searches continue
// from memory, but a restart may fail to load it. The whole server stays SERVING.
inline constexpr char kCollectionHealthPrefix[] = "nearfield.v1.Collection/";

// Knows "" (the whole server), the three services of nearfield.v1 and every collection.
// Thread-safe.
class HealthState {
 public:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  HealthState() = default;
  virtual ~HealthState() = default;
  HealthState(const HealthState&) = delete;
  HealthState& operator=(const HealthState&) = delete;

  // State of a collection by its name or an alias. `look` outlives the last call, and is called
  // without a lock.
  enum class CollectionState : uint8_t { kUnknown, kGood, kDamaged };
  struct Collection {
    CollectionState state = CollectionState::kUnknown;
    std::string name;  // of the collection itself
  };
  using Look = std::function<Collection(const std::string& name)>;
  void SetCollections(Look look);
  // Reports that the status of a service may have changed.
  virtual void Refresh() {}

  // Sets the status of all services, which share one engine.
  void SetServing(bool serving);
  // Sets NOT_SERVING permanently.
  void Withdraw();

  // Returns SERVICE_UNKNOWN for a service that this server does not have, and for an alias of a
  // collection that `key` does not cover.
  ServingStatus StatusOf(const std::string& service, const KeyPtr& key);
  // Answers Health.Check. Errors: NotFound.
  absl::Status Answer(const grpc::health::v1::HealthCheckRequest& request, const KeyPtr& key,
                      grpc::health::v1::HealthCheckResponse* response);

 private:
  Mutex mutex_;
  Look look_ ABSL_GUARDED_BY(mutex_);
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool withdrawn_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace nearfield::server

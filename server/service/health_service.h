// grpc.health.v1: a status per service, with Watch. Its own service rather than gRPC's default one,
// which says SERVING from the first instant on; here nothing is SERVING before SetServing.
#ifndef NEARFIELD_SERVER_SERVICE_HEALTH_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_HEALTH_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace nearfield::server {

class HealthWatch;

// The health service of one collection is this and its name. It is NOT_SERVING where the collection
// is not loaded, or where its stored rows could not be read since: searches go on from memory, but
// a restart may not load it. The whole server stays SERVING.
inline constexpr char kCollectionHealthPrefix[] = "nearfield.v1.Collection/";

// Knows "" (the whole server), the three services of nearfield.v1 and every collection.
// Thread-safe.
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  HealthService();
  ~HealthService() override;

  // How a collection of this name is. `look` outlives the last call, and is called without a lock.
  enum class CollectionState : uint8_t { kUnknown, kGood, kDamaged };
  void SetCollections(std::function<CollectionState(const std::string& name)> look);
  // Tells watches of collections what is now.
  void Refresh();

  // All services at once: they live and die with the one engine.
  void SetServing(bool serving);
  // Not serving for good; watches go on.
  void Withdraw();
  // Not serving for good, and every watch is ended.
  void Shutdown();

 private:
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* bytes,
                                  grpc::health::v1::HealthCheckResponse* response);
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      const grpc::ByteBuffer* bytes);
  friend class HealthWatch;
  void Forget(const std::shared_ptr<HealthWatch>& watch);
  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& service);
  void Tell(HealthWatch* watch);
  void TellWatches();

  std::mutex mutex_;
  std::function<CollectionState(const std::string& name)> look_;
  bool serving_ = false;
  bool withdrawn_ = false;
  bool shut_down_ = false;
  uint64_t looks_count_ = 0;
  std::set<std::shared_ptr<HealthWatch>> watches_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_HEALTH_SERVICE_H_

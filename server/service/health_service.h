// grpc.health.v1: a status per service, with Watch. Its own service rather than gRPC's default one,
// which says SERVING from the first instant on; here nothing is SERVING before SetServing.
#ifndef NEARFIELD_SERVER_SERVICE_HEALTH_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_HEALTH_SERVICE_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace nearfield::server {

class HealthWatch;

// Knows "" (the whole server) and the three services of nearfield.v1. Thread-safe.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  HealthService();
  ~HealthService() override;

  // All services at once: they live and die with the one engine.
  void SetServing(bool serving);
  // Not serving for good; watches go on.
  void Withdraw();
  // Not serving for good, and every watch is ended.
  void Shutdown();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  friend class HealthWatch;
  void Forget(const std::shared_ptr<HealthWatch>& watch);

  std::mutex mutex_;
  bool serving_ = false;
  bool withdrawn_ = false;
  bool shut_down_ = false;
  std::set<std::shared_ptr<HealthWatch>> watches_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_HEALTH_SERVICE_H_

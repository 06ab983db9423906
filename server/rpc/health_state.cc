#include "server/rpc/health_state.h"

#include <array>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/convert/text.h"

namespace nearfield::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

constexpr std::array kServices = {"", "nearfield.v1.Retrieval", "nearfield.v1.Ingest",
                                  "nearfield.v1.Admin"};

}  // namespace

void HealthState::SetCollections(Look look) {
  const MutexLock lock(mutex_);
  look_ = std::move(look);
}

void HealthState::SetServing(bool serving) {
  {
    const MutexLock lock(mutex_);
    serving_ = serving && !withdrawn_;
  }
  Refresh();
}

void HealthState::Withdraw() {
  {
    const MutexLock lock(mutex_);
    withdrawn_ = true;
  }
  SetServing(false);
}

HealthState::ServingStatus HealthState::StatusOf(const std::string& service, const KeyPtr& key) {
  const bool of_collection = absl::StartsWith(service, kCollectionHealthPrefix);
  if (!of_collection && !absl::c_linear_search(kServices, service)) {
    return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  Look look;
  {
    const MutexLock lock(mutex_);
    if (!serving_) return HealthCheckResponse::NOT_SERVING;
    look = look_;
  }
  if (!of_collection) return HealthCheckResponse::SERVING;
  const std::string name = service.substr(std::strlen(kCollectionHealthPrefix));
  const Collection found = look ? look(name) : Collection();
  if (key != nullptr && !key->Covers(found.name)) return HealthCheckResponse::SERVICE_UNKNOWN;
  switch (found.state) {
    case CollectionState::kGood: return HealthCheckResponse::SERVING;
    case CollectionState::kDamaged: return HealthCheckResponse::NOT_SERVING;
    default: return HealthCheckResponse::SERVICE_UNKNOWN;
  }
}

absl::Status HealthState::Answer(const HealthCheckRequest& request, const KeyPtr& key,
                                 HealthCheckResponse* response) {
  const ServingStatus status = StatusOf(request.service(), key);
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return absl::NotFoundError(absl::StrCat("service: no service ", Quote(request.service())));
  }
  response->set_status(status);
  return absl::OkStatus();
}

}  // namespace nearfield::server

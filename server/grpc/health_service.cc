#include "server/grpc/health_service.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "engine/base/status_macros.h"
#include "server/grpc/grpc_bytes.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/status_details.h"

namespace nearfield::server {

namespace hv = ::grpc::health::v1;

namespace {

// Maximum memory of one decoded request, which holds the name of a service.
constexpr int64_t kDecodedBytesMax = 64 * 1024;

}  // namespace

// One watch. Sends the latest status if it differs from the last one that was sent.
class HealthWatch final : public grpc::ServerWriteReactor<hv::HealthCheckResponse>,
                          public std::enable_shared_from_this<HealthWatch> {
 public:
  HealthWatch(HealthService* service, std::string name, KeyPtr key)
      : service_(service), name_(std::move(name)), key_(std::move(key)) {}

  const std::string& name() const { return name_; }
  const KeyPtr& key() const { return key_; }

  // Call it before the first status.
  void Start() { self_ = shared_from_this(); }

  // Sets the status. Ignores it if the result of a later look-up has arrived already.
  void Tell(hv::HealthCheckResponse::ServingStatus status, uint64_t lookup) {
    const MutexLock lock(mutex_);
    if (lookup < told_lookup_) return;
    told_lookup_ = lookup;
    wanted_ = status;
    Advance();
  }

  void End(grpc::Status status) {
    const MutexLock lock(mutex_);
    if (ending_) return;
    ending_ = true;
    end_ = std::move(status);
    Advance();
  }

  void OnWriteDone(bool ok) noexcept override {
    const MutexLock lock(mutex_);
    writing_ = false;
    if (!ok && !ending_) {
      ending_ = true;
      end_ = grpc::Status::CANCELLED;
    }
    Advance();
  }

  void OnCancel() noexcept override { End(grpc::Status::CANCELLED); }

  void OnDone() noexcept override {
    service_->Forget(self_);
    self_.reset();
  }

 private:
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_) return;
    if (wanted_ != sent_) {  // also before the end, so that the last status is sent
      sent_ = wanted_;
      response_.set_status(wanted_);
      writing_ = true;
      StartWrite(&response_);
    } else if (ending_) {
      finished_ = true;
      Finish(end_);
    }
  }

  HealthService* const service_;
  const std::string name_;
  const KeyPtr key_;  // null: the service needs none
  Mutex mutex_;
  std::shared_ptr<HealthWatch> self_;  // until OnDone
  hv::HealthCheckResponse response_;
  hv::HealthCheckResponse::ServingStatus wanted_ ABSL_GUARDED_BY(mutex_) =
      hv::HealthCheckResponse::UNKNOWN;
  hv::HealthCheckResponse::ServingStatus sent_ ABSL_GUARDED_BY(mutex_) =
      hv::HealthCheckResponse::UNKNOWN;
  uint64_t told_lookup_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// Takes requests as bytes, because gRPC would decode them without a limit on their memory.
HealthService::HealthService(const AccessControl* control) : control_(control) {
  MarkMethodRawCallback(
      0, new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, hv::HealthCheckResponse>(
             [this](auto* context, auto* bytes, auto* response) {
               return AnswerCheck(context, bytes, response);
             }));
  MarkMethodRawCallback(
      1,
      new grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, hv::HealthCheckResponse>(
          [this](auto* context, auto* bytes) { return BeginWatch(*context, bytes); }));
}

HealthService::~HealthService() = default;

absl::StatusOr<hv::HealthCheckRequest> HealthService::RequestIn(
    const grpc::CallbackServerContext& context, const grpc::ByteBuffer* bytes, KeyPtr* key) const {
  hv::HealthCheckRequest request;
  // gRPC keeps the bytes until the end of the call, but never reads them again.
  GrpcBytes taken(const_cast<grpc::ByteBuffer*>(bytes));
  const absl::Status status = DecodeWithin(kDecodedBytesMax, &taken, &request);
  taken.Clear();
  if (!status.ok()) return status;
  const std::string& service = request.service();
  if (control_ == nullptr || !absl::StartsWith(service, kCollectionHealthPrefix)) return request;
  ABSL_ASSIGN_OR_RETURN(*key, KeyIn(context, *control_));
  ABSL_RETURN_IF_ERROR(
      CheckCollection(*key, "service", service.substr(std::strlen(kCollectionHealthPrefix))));
  return request;
}

void HealthService::Refresh() {
  std::vector<std::shared_ptr<HealthWatch>> watches;
  {
    const MutexLock lock(mutex_);
    watches.assign(watches_.begin(), watches_.end());
  }
  for (const auto& watch : watches) Tell(watch.get());
}

void HealthService::Tell(HealthWatch* watch) {
  if (watch->key() != nullptr) {
    const absl::Status valid = control_->CheckStillValid(watch->key());
    if (!valid.ok()) return watch->End(WithDetails(valid, std::nullopt));
  }
  uint64_t lookup = 0;
  {
    const MutexLock lock(mutex_);
    lookup = ++lookups_count_;
  }
  watch->Tell(StatusOf(watch->name(), watch->key()), lookup);
}

void HealthService::Shutdown() {
  Withdraw();
  std::vector<std::shared_ptr<HealthWatch>> watches;
  {
    const MutexLock lock(mutex_);
    shut_down_ = true;
    watches.assign(watches_.begin(), watches_.end());
  }
  for (const auto& watch : watches) {
    watch->End({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  }
}

void HealthService::Forget(const std::shared_ptr<HealthWatch>& watch) {
  const MutexLock lock(mutex_);
  watches_.erase(watch);
}

grpc::ServerUnaryReactor* HealthService::AnswerCheck(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* bytes,
                                                     hv::HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  KeyPtr key;
  const absl::StatusOr<hv::HealthCheckRequest> request = RequestIn(*context, bytes, &key);
  if (!request.ok()) {
    reactor->Finish(WithDetails(request.status(), std::nullopt));
    return reactor;
  }
  const absl::Status status = Answer(*request, key, response);
  reactor->Finish({static_cast<grpc::StatusCode>(status.code()), std::string(status.message())});
  return reactor;
}

grpc::ServerWriteReactor<hv::HealthCheckResponse>* HealthService::BeginWatch(
    const grpc::CallbackServerContext& context, const grpc::ByteBuffer* bytes) {
  KeyPtr key;
  const absl::StatusOr<hv::HealthCheckRequest> request = RequestIn(context, bytes, &key);
  auto watch = std::make_shared<HealthWatch>(this, request.ok() ? request->service() : "",
                                             request.ok() ? std::move(key) : nullptr);
  watch->Start();
  if (!request.ok()) {
    watch->End(WithDetails(request.status(), std::nullopt));
    return watch.get();
  }
  bool shut_down = false;
  {
    const MutexLock lock(mutex_);
    watches_.insert(watch);
    shut_down = shut_down_;
  }
  Tell(watch.get());
  if (shut_down) watch->End({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  return watch.get();
}

}  // namespace nearfield::server

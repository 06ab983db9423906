#include "client/cpp/core.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/cord.h"
#include "client/cpp/convert.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr char kRequestIdKey[] = "nearfield-request-id";
constexpr char kCallerKey[] = "nearfield-caller";
constexpr char kAuthorizationKey[] = "authorization";
constexpr char kRetryAfterKey[] = "grpc-retry-pushback-ms";
constexpr char kRequestIdPayload[] = "nearfield.request-id";
constexpr char kUnreachablePayload[] = "nearfield.unreachable";
// Keepalive of a connection with a call in progress. A nearfield server accepts a ping every 10 s.
constexpr int kKeepaliveMs = 30000;
constexpr int kKeepaliveTimeoutMs = 20000;
// Maximum pause after a call that a server refused on a connection that stays open.
constexpr std::chrono::seconds kRefusingPause{1};
// Smaller requests are not worth a request for the limits.
constexpr uint64_t kUncheckedRequestBytes = uint64_t{1} << 20;

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options, const Identity& identity) {
  grpc::ChannelArguments arguments;
  // The server publishes its limits (GetLimits), and its replies stay below them.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Short, so that the next try reaches a server that is available again. The default is a second.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // Detects a server that disappeared without closing the connection, however long a call may take.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit: waiting sends no data
  return grpc::CreateCustomChannel(options.address, identity.channel, arguments);
}

std::string MetadataValue(const grpc::ClientContext& context, const char* key) {
  for (const auto* metadata :
       {&context.GetServerTrailingMetadata(), &context.GetServerInitialMetadata()}) {
    const auto found = metadata->find(key);
    if (found != metadata->end()) return {found->second.data(), found->second.size()};
  }
  return "";
}

std::optional<std::chrono::milliseconds> RetryAfterIn(const grpc::ClientContext& context) {
  const auto number = ParseNumber<uint32_t>(MetadataValue(context, kRetryAfterKey));
  if (!number) return std::nullopt;
  return std::chrono::milliseconds(*number);
}

}  // namespace

std::string RequestIdIn(const grpc::ClientContext& context) {
  return MetadataValue(context, kRequestIdKey);
}

std::string RequestIdOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRequestIdPayload);
  return payload ? std::string(*payload) : "";
}

bool IsUnreachable(const absl::Status& status) {
  return static_cast<bool>(status.GetPayload(kUnreachablePayload));
}

Client MakeClient(const ClientOptions& options, Clock* clock) {
  return Client(std::make_shared<Client::Core>(options, clock, Identity()));
}

Client::Core::Core(const ClientOptions& options, Clock* clock, const Identity& identity)
    : options_(options),
      clock_(clock),
      authorization_(identity.authorization),
      channel_(MakeChannel(options, identity)),
      stubs_(v1::Retrieval::NewStub(channel_), v1::Ingest::NewStub(channel_),
             v1::Admin::NewStub(channel_), grpc::health::v1::Health::NewStub(channel_)) {}

bool Client::Core::AwaitConnection(std::chrono::system_clock::time_point until) const {
  // A server that ends refuses calls on a connection for a while before it closes the connection.
  const auto closed_until = std::min(until, std::chrono::system_clock::now() + kRefusingPause);
  if (channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
    channel_->WaitForStateChange(GRPC_CHANNEL_READY, closed_until);
  }
  return channel_->WaitForConnected(until);
}

Client::Core::CallSpec Client::Core::SpecFrom(
    const std::optional<std::chrono::milliseconds>& deadline) const {
  return {.deadline = std::nullopt,
          .idempotent = true,
          .until = clock_->Now() + deadline.value_or(options_.deadline)};
}

void Client::Core::Introduce(grpc::ClientContext* context) const {
  if (!options_.caller.empty()) context->AddMetadata(kCallerKey, options_.caller);
  if (!authorization_.empty()) context->AddMetadata(kAuthorizationKey, authorization_);
  for (const auto& [name, value] : options_.metadata) context->AddMetadata(name, value);
}

RetryPlan Client::Core::PlanFor(const CallSpec& spec) const {
  return {
      .policy = options_.retry,
      .deadline = spec.until.value_or(clock_->Now() + spec.deadline.value_or(options_.deadline)),
      .idempotent = spec.idempotent};
}

Attempt Client::Core::Outcome(const grpc::Status& status,
                              const grpc::ClientContext& context) const {
  if (status.ok()) return {.status = absl::OkStatus(), .retry_after = std::nullopt};
  Attempt outcome;
  outcome.status =
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  outcome.retry_after = RetryAfterIn(context);
  if (const std::string id = RequestIdIn(context); !id.empty()) {
    outcome.status.SetPayload(kRequestIdPayload, absl::Cord(id));
    return outcome;
  }
  // Every answer of a server contains an id. This status has none, so the transport created it.
  const bool no_connection = channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && no_connection)) {
    outcome.status.SetPayload(kUnreachablePayload, absl::Cord("1"));
  }
  return outcome;
}

absl::Status Client::Core::Run(const CallSpec& spec,
                               const std::function<grpc::Status(grpc::ClientContext*)>& call,
                               std::string* request_id) {
  const RetryPlan plan = PlanFor(spec);
  return RunWithRetries(plan, *clock_, [&] {
    grpc::ClientContext context;
    Introduce(&context);
    // The time left until the deadline, which covers all tries.
    context.set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::microseconds>(plan.deadline - clock_->Now()));
    const grpc::Status status = call(&context);
    if (status.ok() && request_id != nullptr) *request_id = RequestIdIn(context);
    return Outcome(status, context);
  });
}

absl::Status Client::Core::CheckRequestBytes(uint64_t bytes, const CallSpec& spec) {
  if (bytes <= kUncheckedRequestBytes) return absl::OkStatus();
  NF_ASSIGN_OR_RETURN(const Limits limits, GetLimits(spec));
  if (bytes <= limits.request_bytes_max) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("the request takes ", bytes, " bytes, the server accepts ",
                                        limits.request_bytes_max, " in one message"));
}

absl::StatusOr<Limits> Client::Core::GetLimits(const CallSpec& spec) {
  {
    const std::lock_guard<std::mutex> lock(limits_mutex_);
    if (limits_) return *limits_;
  }
  NF_ASSIGN_OR_RETURN(const auto response, Call(&RetrievalStub::GetLimits, {}, spec));
  const std::lock_guard<std::mutex> lock(limits_mutex_);
  limits_ = FromProto(response);
  return *limits_;
}

}  // namespace nearfield::client

#include "server/process/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "server/listener/descriptor_limit.h"
#include "server/listener/listen_sockets.h"
#include "server/process/credentials.h"

namespace nearfield::server {
namespace {

using std::chrono::milliseconds;

constexpr int kLookaheadBytes = 4 << 20;
constexpr int kFrameBytesMax = 1 << 20;
constexpr int kReadChunkBytes = 256 << 10;
// Limit on the metadata of a connection. A connection that exceeds it ends with all its calls. If a
// call exceeds kMetadataBytesMax (grpc/grpc_call.h), only that call is refused.
constexpr int kMetadataBytesOfConnectionMax = 128 * 1024;
// Deadline for the first SETTINGS frame of a connection. A silent connection frees its place after
// this time.
constexpr int kHandshakeMs = 20000;
constexpr int kClientPingMsMin = 10000;
// Time for cancelled calls to send their own error, before gRPC ends them without our metadata.
constexpr milliseconds kOwnEndWait{1000};
// Time to send final messages (replies being sent, the last status of a health watch), and for
// connections to close.
constexpr milliseconds kLastWordsWait{500};
// Limits of the wait for calls after all were cancelled; calls that do not end by then never will.
// The wait uses the rest of kExitMax within these limits. Supervisors commonly kill a process after
// 30 s.
constexpr milliseconds kExitMax{28000};
constexpr milliseconds kCancelledCallsWaitMin{1500};
constexpr milliseconds kCancelledCallsWaitMax{10000};
// Time in which callers are informed that the device is lost.
constexpr milliseconds kLostWait{500};
// Removes the reflection plugin. Linking the reflection library enables reflection in every server.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->erase(std::remove_if(plugins->begin(), plugins->end(),
                                  [](const auto& plugin) {
                                    return plugin->name() == "proto_server_reflection";
                                  }),
                   plugins->end());
  }
};

int Int(const NumberSetting& setting) { return static_cast<int>(setting.value()); }

void SetLimits(const Settings& settings, grpc::ServerBuilder* builder) {
  grpc::ResourceQuota quota("nearfield");
  quota.Resize(static_cast<size_t>(settings.transport_bytes_max.value()));
  builder->SetResourceQuota(quota);
  // A compressed message may expand a thousandfold. It is answered with UNIMPLEMENTED and never
  // decompressed.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->SetMaxReceiveMessageSize(Int(settings.request_bytes_max));
  builder->SetMaxSendMessageSize(Int(settings.response_bytes_max));
  // Large frames and lookahead: the next block of an upload arrives while the current one is
  // processed.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytesMax);
  builder->AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, Int(settings.streams_max));
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesOfConnectionMax);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Int(settings.connection_idle_ms));
  // Set no grace time, so that calls on an old connection run to their end: uploads and streams may
  // be long.
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Int(settings.connection_age_ms));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Int(settings.keepalive_ms));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Int(settings.keepalive_timeout_ms));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kClientPingMsMin);
}

// Returns the limits of principals without limits of their own.
QuotaAmounts QuotaDefaultsOf(const Settings& settings) {
  QuotaAmounts defaults;
  defaults[Quota::kDeviceBytes] = settings.principal_device_bytes.value();
  defaults[Quota::kHostBytes] = settings.principal_host_bytes.value();
  defaults[Quota::kAttributeBytes] = settings.principal_attribute_bytes.value();
  defaults[Quota::kDiskBytes] = settings.principal_disk_bytes.value();
  defaults[Quota::kCollections] = settings.principal_collections.value();
  defaults[Quota::kAliases] = settings.principal_aliases.value();
  defaults[Quota::kSnapshots] = settings.principal_snapshots.value();
  return defaults;
}

// Maximum ids of keys that one line of the log names.
constexpr size_t kIdsShownMax = 20;

std::string IdsText(std::vector<std::string> ids) {
  const size_t more = ids.size() - std::min(ids.size(), kIdsShownMax);
  ids.resize(ids.size() - more);
  return absl::StrCat(absl::StrJoin(ids, " "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

// Returns the address of a setting with the port that was bound.
std::string BoundAddress(const TextSetting& setting, int port) {
  const std::string& listen = setting.value();
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

[[noreturn]] void LeaveStore(const absl::Status& status, Log* log) {
  log->Write(LogLevel::kError, "the data directory failed: the process ends, nothing is lost",
             {{"error", status.ToString()}});
  log->Flush();
  _exit(static_cast<int>(ExitCode::kStorage));
}

}  // namespace

Server::Server(const Settings* settings, Log* log, const Clock* clock)
    : settings_(settings),
      log_(log),
      clock_(clock),
      health_(&control_),
      instance_(
          {.settings = settings,
           .log = log,
           .clock = clock,
           .health = &health_,
           .on_store_failure = [log](const absl::Status& status) { LeaveStore(status, log); }}),
      retrieval_(GrpcBase()),
      ingest_(GrpcBase(), settings->request_bytes_max.value()),
      admin_(GrpcBase()) {}

Server::~Server() {
  if (certificate_log_ != nullptr) certificate_log_->Detach();
}

absl::Status Server::LoadKeys() {
  const std::string& path = settings_->key_file.value();
  if (path.empty()) return absl::OkStatus();
  const absl::StatusOr<KeyFile> file = ReadKeyFile(path);
  if (!file.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("key_file: ", file.status().message()));
  }
  SetKeys(*file);
  return absl::OkStatus();
}

void Server::SetKeys(const KeyFile& file) {
  const AccessControl::KeyChanges changes = control_.SetKeys(file.keys);
  state().quotas().SetLimits({.defaults = QuotaDefaultsOf(*settings_), .own = file.limits});
  log_->Write(LogLevel::kInfo, "keys loaded",
              {{"key_file", settings_->key_file.value()},
               {"keys", static_cast<int64_t>(file.keys.size())},
               {"added", IdsText(changes.added)},
               {"removed", IdsText(changes.removed)},
               {"changed", IdsText(changes.changed)}});
}

void Server::ApplyKeys(const absl::StatusOr<KeyFile>& file) {
  if (file.ok()) {
    SetKeys(*file);
    return health_.Refresh();  // ends watches whose keys were revoked
  }
  log_->Write(LogLevel::kError, "the keys are not reloaded: those in force stay",
              {{"error", absl::StrCat("key_file: ", file.status().message())}});
}

absl::Status Server::LoadCertificates() {
  ABSL_ASSIGN_OR_RETURN(certificates_, server::LoadCertificates(*settings_));
  if (certificates_ == nullptr) return absl::OkStatus();
  certificate_log_ = std::make_shared<CertificateLog>(log_);
  certificate_reader_ = std::make_unique<ReaderThread>(
      [certificates = certificates_, log = certificate_log_] { log->Write(certificates->Load()); },
      std::chrono::seconds(settings_->tls_reload_s.value()));
  return absl::OkStatus();
}

void Server::WakeCertificates() {
  if (certificate_reader_ != nullptr) certificate_reader_->Wake();
}

absl::Status Server::Listen() {
  ABSL_RETURN_IF_ERROR(LoadKeys());
  if (control_.keys_count() == 0 && settings_->BeyondLoopback() != nullptr &&
      !settings_->allow_insecure.value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("key_file = \"", settings_->key_file.value(),
                     "\": has no key; create one with the command nearfield keys"));
  }
  ABSL_RETURN_IF_ERROR(LoadCertificates());
  ABSL_ASSIGN_OR_RETURN(auto sockets,
                        ListenSockets::Bind("listen", settings_->listen.value(),
                                            milliseconds(settings_->keepalive_timeout_ms.value())));
  ABSL_RETURN_IF_ERROR(ListenForHttp());
  ABSL_RETURN_IF_ERROR(ListenForOperations(sockets->port()));
  if (settings_->reflection.value()) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(*settings_, &builder);
  if (!settings_->reflection.value()) builder.SetOption(std::make_unique<WithoutReflection>());
  // gRPC 1.51 closes its listener after one accept without a free descriptor. Our Acceptor does
  // not.
  handover_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      ServerCredentialsOf(*settings_, certificates_));
  builder.RegisterService(&health_);
  builder.RegisterService(&retrieval_);
  builder.RegisterService(&ingest_);
  builder.RegisterService(&admin_);
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) return absl::InvalidArgumentError("gRPC cannot be started");
  port_ = sockets->port();
  StartAccepting(std::move(sockets));
  return absl::OkStatus();
}

template <typename Port>
absl::Status Server::Take(absl::StatusOr<std::unique_ptr<Port>> started, const char* what,
                          const TextSetting& setting, std::unique_ptr<Port>* port) {
  if (started.ok()) {
    *port = *std::move(started);
    log_->Write(LogLevel::kInfo, what, {{"address", BoundAddress(setting, (*port)->port())}});
    return absl::OkStatus();
  }
  if (setting.source() != SettingSource::kDefault) return started.status();
  log_->Write(
      LogLevel::kWarning,
      absl::StrCat("there is no ", what, ": its default address cannot be bound; set ",
                   setting.name(), " to another one or to none"),
      {{setting.name(), setting.value()}, {"error", std::string(started.status().message())}});
  return absl::OkStatus();
}

absl::Status Server::ListenForHttp() {
  if (!settings_->has_http_port()) return absl::OkStatus();
  return Take(
      HttpPort::Start({.base = {.service = &service(),
                                .ledger = &state().ledger(),
                                .control = &control_,
                                .settings = settings_},
                       .certificates = certificates_,
                       .connections_max = ConnectionsMax(settings_->http_connections_max, 4),
                       .log = log_}),
      "HTTP port", settings_->http_listen, &http_);
}

absl::Status Server::ListenForOperations(int grpc_port) {
  if (!settings_->has_ops_port()) return absl::OkStatus();
  OperationsPort::Options options = {.state = &state(),
                                     .control = &control_,
                                     .certificates = certificates_.get(),
                                     .grpc_port = grpc_port};
  if (http_ != nullptr) options.http_port = http_->port();
  if (settings_->backend.value() != "cpu") {
    options.gpus = GpuMonitor::StartAll(settings_->Gpus());
  }
  ABSL_RETURN_IF_ERROR(Take(OperationsPort::Start(std::move(options)), "operations port",
                            settings_->ops_listen, &operations_));
  if (http_ != nullptr && operations_ != nullptr) http_->AllowPage(operations_->port());
  return absl::OkStatus();
}

std::string Server::http_address() const {
  return http_ == nullptr ? "" : BoundAddress(settings_->http_listen, http_->port());
}

std::string Server::ops_address() const {
  return operations_ == nullptr ? "" : BoundAddress(settings_->ops_listen, operations_->port());
}

AcceptCounts Server::connections() const {
  AcceptCounts counts = acceptor_->counts();
  if (http_ == nullptr) return counts;
  const AcceptCounts http = http_->connections();
  counts.open += http.open;
  counts.accepted += http.accepted;
  counts.refused += http.refused;
  counts.pauses += http.pauses;
  return counts;
}

int64_t Server::ConnectionsMax(const NumberSetting& setting, int64_t descriptors_part) const {
  const int64_t descriptors = DescriptorLimit();
  const int64_t in_force = std::clamp<int64_t>(descriptors / descriptors_part, 1, setting.value());
  if (in_force < setting.value()) {
    log_->Write(LogLevel::kWarning,
                absl::StrCat(setting.name(), " is more than its part of the descriptor limit"),
                {{setting.name(), setting.value()},
                 {"descriptor_limit", descriptors},
                 {absl::StrCat(setting.name(), "_in_force"), in_force}});
  }
  return in_force;
}

void Server::StartAccepting(std::unique_ptr<ListenSockets> sockets) {
  AcceptorOptions options;
  // Half of the descriptors is for files: the store must not fail for lack of one.
  options.connections_max = ConnectionsMax(settings_->connections_max, http_ == nullptr ? 2 : 4);
  options.on_connection = [handover = handover_.get()](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    handover->HandleNewConnection(&connection);
  };
  acceptor_ = std::make_unique<Acceptor>(std::move(sockets), std::move(options), log_);
  state().SetConnectionCounts([this] { return connections(); });
}

std::string Server::address() const {
  const std::string& listen = settings_->listen.value();
  return absl::StartsWith(listen, "unix:") ? listen : BoundAddress(settings_->listen, port_);
}

bool Server::StopGrpc(milliseconds wait) {
  std::promise<void> stopped;
  std::future<void> done = stopped.get_future();
  // gRPC cancels the calls that remain after kLastWordsWait. Then it waits for every reactor to
  // end, without a time limit.
  std::thread stopper([grpc = grpc_.get(), stopped = std::move(stopped)]() mutable {
    grpc->Shutdown(std::chrono::system_clock::now() + kLastWordsWait);
    stopped.set_value();
  });
  if (done.wait_for(kLastWordsWait + wait) == std::future_status::timeout) {
    stopper.detach();
    return false;
  }
  stopper.join();
  return true;
}

void Server::StopAccepting() {
  acceptor_->Stop();
  if (http_ != nullptr) http_->Stop();
}

void Server::Disconnect() {
  acceptor_->Disconnect(kLastWordsWait);
  if (http_ != nullptr) http_->Disconnect(kLastWordsWait);
}

ExitCode Server::Drain() {
  health_.SetServing(false);
  const TimePoint begin = clock_->Now();
  StopAccepting();
  state().Drain();
  const bool idle = state().WaitIdle(milliseconds(settings_->drain_ms.value()));
  if (!idle) log_->Write(LogLevel::kWarning, "calls still in flight after drain_ms are cancelled");
  state().live_calls().Cancel();
  const bool all_ended = state().WaitIdle(kOwnEndWait);
  health_.Shutdown();
  // gRPC cancels a call that arrives after its shutdown has begun. Without a connection, such a
  // call is UNAVAILABLE.
  if (all_ended) Disconnect();
  if (instance_.DeviceLost()) {
    Fail();
    return ExitCode::kDeviceLost;
  }
  // A stream may end before its searches do. They use the core until the last one has ended.
  const auto left = std::chrono::duration_cast<milliseconds>(begin + kExitMax - clock_->Now());
  const TimePoint latest =
      clock_->Now() + std::clamp(left, kCancelledCallsWaitMin, kCancelledCallsWaitMax);
  const auto wait = [&] {
    return std::chrono::duration_cast<milliseconds>(latest - clock_->Now());
  };
  const bool ended = StopGrpc(wait() - kLastWordsWait) && state().WaitIdle(wait());
  if (instance_.DeviceLost()) {
    state().AbandonCore();
    return ExitCode::kDeviceLost;
  }
  if (!ended) return ExitCode::kFailure;
  http_ = nullptr;
  operations_ = nullptr;  // it reads the core
  state().DestroyCore();
  return state().distrusted() ? ExitCode::kSelfTest : ExitCode::kClean;
}

void Server::Fail() {
  health_.SetServing(false);
  StopAccepting();
  state().Lose();
  state().WaitIdle(kLostWait);
  health_.Shutdown();
  StopGrpc(kLostWait);
  state().AbandonCore();
}

}  // namespace nearfield::server

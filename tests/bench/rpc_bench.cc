// Compares a search over loopback with a unary echo of as many bytes, to measure the time that the
// service adds to the engine's. Both use the same generic client. The echo server is a separate
// process, as nearfield-server is, with the same gRPC and callback API. It returns as many bytes as
// a Search reply has: once immediately, and once after the engine's time, because cores that slept
// that long wake up slowly. Requires a running nearfield-server with a collection. Prints one line
// "NEARFIELD_BENCH_JSON {...}".
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

constexpr char kEchoMethod[] = "/nearfield.bench.Echo/Echo";
constexpr char kHoldKey[] =
    "hold-us";  // metadata: microseconds to keep a core busy before the reply

// Answers every call with the same bytes.
class EchoReactor : public grpc::ServerGenericBidiReactor {
 public:
  EchoReactor(const grpc::ByteBuffer& reply, std::chrono::microseconds hold)
      : reply_(reply), hold_(hold) {
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status(grpc::StatusCode::INTERNAL, "no request"));
      return;
    }
    const auto end = std::chrono::steady_clock::now() + hold_;
    while (std::chrono::steady_clock::now() < end) {
    }
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  std::chrono::microseconds hold_;
};

class EchoService : public grpc::CallbackGenericService {
 public:
  explicit EchoService(grpc::ByteBuffer reply) : reply_(std::move(reply)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto& metadata = context->client_metadata();
    const auto found = metadata.find(kHoldKey);
    int64_t hold_us = 0;
    if (found != metadata.end()) {
      hold_us = std::strtoll(std::string(found->second.data(), found->second.size()).c_str(),
                             nullptr, 10);
    }
    return new EchoReactor(reply_, std::chrono::microseconds(hold_us));
  }

 private:
  grpc::ByteBuffer reply_;
};

// Serves echoes of `reply_bytes` bytes until its standard input closes. Prints its port.
int RunEchoServer(size_t reply_bytes) {
  EchoService echo(Buffer(std::string(reply_bytes, 'e')));
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&echo);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::printf("%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  server->Shutdown();
  return 0;
}

// Runs this program again as the echo server, for the lifetime of this object.
class EchoProcess {
 public:
  explicit EchoProcess(size_t reply_bytes) {
    int to_child[2];
    int from_child[2];
    if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) return;
    std::string bytes = std::to_string(reply_bytes);
    std::string program = "/proc/self/exe";
    std::string flag = "--echo-server";
    char* arguments[] = {program.data(), flag.data(), bytes.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
    const int spawned = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to_child[0]);
    close(from_child[1]);
    to_child_ = to_child[1];
    if (spawned == 0) {
      std::FILE* out = fdopen(from_child[0], "r");
      if (out == nullptr || std::fscanf(out, "%d", &port_) != 1) port_ = 0;
      if (out != nullptr) std::fclose(out);
    }
  }
  EchoProcess(const EchoProcess&) = delete;
  EchoProcess& operator=(const EchoProcess&) = delete;
  ~EchoProcess() {
    close(to_child_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  int port() const { return port_; }  // 0: it could not be started

 private:
  pid_t pid_ = 0;
  int to_child_ = -1;
  int port_ = 0;
};

// Makes one unary call through the generic client; returns when the reply has arrived.
grpc::Status Call(grpc::GenericStub& stub, const std::string& method,
                  const grpc::ByteBuffer& request, grpc::ByteBuffer* reply, uint64_t hold_us = 0) {
  grpc::ClientContext context;
  if (hold_us != 0) context.AddMetadata(kHoldKey, std::to_string(hold_us));
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, reply,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

struct Options {
  std::string address = "127.0.0.1:50051";
  std::string collection;
  uint32_t k = 10;
  int runs = 2000;
};

uint64_t Median(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

int Fail(const std::string& what, const grpc::Status& status) {
  std::fprintf(stderr, "rpc_bench: %s: %s\n", what.c_str(), status.error_message().c_str());
  return 1;
}

// Measurements of one series of searches, by the client and as reported by the server.
struct Searches {
  Timing timing;
  std::vector<uint64_t> engine_us;
  std::vector<uint64_t> server_us;
};

void Print(const Options& options, const v1::CollectionInfo& collection, const Searches& searches,
           const Timing& echo, const Timing& echo_held) {
  const auto engine_us = static_cast<double>(Median(searches.engine_us));
  const double beyond_us = searches.timing.median_us - engine_us;
  const double held_beyond_us = echo_held.median_us - engine_us;
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\":\"rpc\",\"n\":%llu,\"dim\":%u,\"k\":%u,"
      "\"search_us\":%.1f,\"search_p99_us\":%.1f,\"engine_us\":%.0f,\"server_us\":%llu,"
      "\"beyond_engine_us\":%.1f,\"echo_us\":%.1f,\"echo_p99_us\":%.1f,"
      "\"echo_after_hold_us\":%.1f,\"ratio_to_echo\":%.2f,\"ratio_to_echo_after_hold\":%.2f}\n",
      static_cast<unsigned long long>(collection.rows_count()), collection.dim(), options.k,
      searches.timing.median_us, searches.timing.p99_us, engine_us,
      static_cast<unsigned long long>(Median(searches.server_us)), beyond_us, echo.median_us,
      echo.p99_us, held_beyond_us, beyond_us / echo.median_us, beyond_us / held_beyond_us);
}

int Run(const Options& options) {
  const auto channel = grpc::CreateChannel(options.address, grpc::InsecureChannelCredentials());
  const auto admin = v1::Admin::NewStub(channel);
  v1::GetCollectionRequest named;
  named.set_name(options.collection);
  v1::GetCollectionResponse found;
  grpc::ClientContext context;
  if (const grpc::Status status = admin->GetCollection(&context, named, &found); !status.ok()) {
    return Fail("collection " + options.collection, status);
  }
  v1::SearchRequest request;
  request.set_collection(options.collection);
  request.set_k(options.k);
  const std::vector<float> query =
      GaussianRows(1, static_cast<int32_t>(found.collection().dim()), 7);
  request.add_queries()->mutable_vector()->mutable_values()->Add(query.begin(), query.end());
  const grpc::ByteBuffer request_bytes = Buffer(request.SerializeAsString());

  grpc::GenericStub search_stub(channel);
  const std::string search_method = "/nearfield.v1.Retrieval/Search";
  grpc::ByteBuffer reply;
  if (const grpc::Status status = Call(search_stub, search_method, request_bytes, &reply);
      !status.ok()) {
    return Fail("Search", status);
  }
  const EchoProcess echo(reply.Length());
  if (echo.port() == 0)
    return Fail("echo server", grpc::Status(grpc::StatusCode::INTERNAL, "did not start"));
  grpc::GenericStub echo_stub(grpc::CreateChannel("127.0.0.1:" + std::to_string(echo.port()),
                                                  grpc::InsecureChannelCredentials()));

  grpc::Status status;
  const auto keep = [&status](grpc::Status s) {
    if (!s.ok()) status = std::move(s);
  };
  Searches searches;
  const Repeats repeats = {.warmups = 200, .runs = options.runs, .seconds_max = 60};
  searches.timing = MedianOf(repeats, [&](int) {
    grpc::ByteBuffer answer;
    keep(Call(search_stub, search_method, request_bytes, &answer));
    v1::SearchResponse response;
    grpc::ProtoBufferReader reader(&answer);
    if (!response.ParseFromZeroCopyStream(&reader))
      keep({grpc::StatusCode::INTERNAL, "reply not parsed"});
    searches.engine_us.push_back(response.cost().device_us());
    searches.server_us.push_back(response.cost().total_us());
  });
  const auto time_echo = [&](uint64_t hold) {
    return MedianOf(repeats, [&](int) {
      grpc::ByteBuffer answer;
      keep(Call(echo_stub, kEchoMethod, request_bytes, &answer, hold));
    });
  };
  const Timing echo_at_once = time_echo(0);
  const Timing echo_held = time_echo(Median(searches.engine_us));
  if (!status.ok()) return Fail("call", status);
  Print(options, found.collection(), searches, echo_at_once, echo_held);
  return 0;
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("rpc_bench: Search over loopback beside a unary echo of the same bytes");
  nearfield::bench::Options options;
  app.add_option("--address", options.address, "a running nearfield-server")->capture_default_str();
  size_t echo_bytes = 0;
  CLI::Option* echo = app.add_option("--echo-server", echo_bytes,
                                     "serve echoes of this size in bytes until input ends");
  app.add_option("--collection", options.collection, "searched with a random query");
  app.add_option("-k", options.k, "neighbors")->capture_default_str();
  app.add_option("--runs", options.runs, "calls of each kind")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (*echo) return nearfield::bench::RunEchoServer(echo_bytes);
  return nearfield::bench::Run(options);
}

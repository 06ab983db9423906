// Search over loopback beside a unary echo of the same bytes: what the service adds to the engine's own time.
// Both go through the same generic client; the echo server takes the request's bytes and answers with the bytes of a
// recorded Search reply, through the same gRPC and the callback API. Needs a running nearfield-server with a collection.
// Prints one line "NEARFIELD_BENCH_JSON {...}".
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <cstdio>
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

// Answers every call with the same bytes.
class EchoReactor : public grpc::ServerGenericBidiReactor {
 public:
  explicit EchoReactor(const grpc::ByteBuffer& reply) : reply_(reply) { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (ok) {
      StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
    } else {
      Finish(grpc::Status(grpc::StatusCode::INTERNAL, "no request"));
    }
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

class EchoService : public grpc::CallbackGenericService {
 public:
  explicit EchoService(grpc::ByteBuffer reply) : reply_(std::move(reply)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* /*context*/) override {
    return new EchoReactor(reply_);
  }

 private:
  grpc::ByteBuffer reply_;
};

// One unary call through the generic client; returns when the reply is there.
grpc::Status Call(grpc::GenericStub& stub, const std::string& method, const grpc::ByteBuffer& request,
                  grpc::ByteBuffer* reply) {
  grpc::ClientContext context;
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

struct Measured {
  Timing timing;
  uint64_t engine_us = 0;  // median of SearchCost.device_us
  uint64_t server_us = 0;  // median of SearchCost.total_us
};

uint64_t Median(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

int Fail(const std::string& what, const grpc::Status& status) {
  std::fprintf(stderr, "rpc_bench: %s: %s\n", what.c_str(), status.error_message().c_str());
  return 1;
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
  const std::vector<float> query = GaussianRows(1, static_cast<int32_t>(found.collection().dim()), 7);
  request.add_queries()->mutable_vector()->mutable_values()->Add(query.begin(), query.end());
  const grpc::ByteBuffer request_bytes = Buffer(request.SerializeAsString());

  grpc::GenericStub search_stub(channel);
  const std::string search_method = "/nearfield.v1.Retrieval/Search";
  grpc::ByteBuffer reply;
  if (const grpc::Status status = Call(search_stub, search_method, request_bytes, &reply); !status.ok()) {
    return Fail("Search", status);
  }
  EchoService echo(reply);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&echo);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::GenericStub echo_stub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));

  grpc::Status status;
  std::vector<uint64_t> engine_us;
  std::vector<uint64_t> server_us;
  const Repeats repeats = {.warmups = 200, .runs = options.runs, .seconds_max = 60};
  const auto echo_once = [&](int) {
    grpc::ByteBuffer answer;
    if (const grpc::Status s = Call(echo_stub, "/nearfield.bench.Echo/Echo", request_bytes, &answer); !s.ok()) status = s;
  };
  const Timing echo_timing = MedianOf(repeats, echo_once);
  const Timing search_timing = MedianOf(repeats, [&](int) {
    grpc::ByteBuffer answer;
    if (const grpc::Status s = Call(search_stub, search_method, request_bytes, &answer); !s.ok()) status = s;
    v1::SearchResponse response;
    grpc::ProtoBufferReader reader(&answer);
    if (!response.ParseFromZeroCopyStream(&reader)) status = grpc::Status(grpc::StatusCode::INTERNAL, "reply not parsed");
    engine_us.push_back(response.cost().device_us());
    server_us.push_back(response.cost().total_us());
  });
  if (!status.ok()) return Fail("call", status);
  const double beyond_us = search_timing.median_us - static_cast<double>(Median(engine_us));
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\":\"rpc\",\"n\":%llu,\"dim\":%u,\"k\":%u,\"request_bytes\":%zu,\"reply_bytes\":%zu,"
      "\"search_us\":%.1f,\"search_p99_us\":%.1f,\"engine_us\":%llu,\"server_us\":%llu,\"beyond_engine_us\":%.1f,"
      "\"echo_us\":%.1f,\"echo_p99_us\":%.1f,\"ratio\":%.2f}\n",
      static_cast<unsigned long long>(found.collection().rows_count()), found.collection().dim(), options.k,
      request_bytes.Length(), reply.Length(), search_timing.median_us, search_timing.p99_us,
      static_cast<unsigned long long>(Median(engine_us)), static_cast<unsigned long long>(Median(server_us)), beyond_us,
      echo_timing.median_us, echo_timing.p99_us, beyond_us / echo_timing.median_us);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("rpc_bench: Search over loopback beside a unary echo of the same bytes");
  nearfield::bench::Options options;
  app.add_option("--address", options.address, "a running nearfield-server")->capture_default_str();
  app.add_option("--collection", options.collection, "searched with a random query")->required();
  app.add_option("-k", options.k, "neighbors")->capture_default_str();
  app.add_option("--runs", options.runs, "calls of each kind")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return nearfield::bench::Run(options);
}

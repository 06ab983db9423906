// http_bench: what HTTP and JSON add to the time of a search of one caller. Searches of a running
// server in turn over gRPC and over its HTTP port, on one connection each.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/ingest.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"

namespace nearfield::bench {
namespace {

namespace http = boost::beast::http;
namespace pb = ::nearfield::v1;

constexpr char kName[] = "http_bench";

struct Options {
  std::string grpc = "127.0.0.1:50051";
  std::string http = "127.0.0.1:50052";
  int rows = 5000;
  int dim = 384;
  int k = 10;
  int calls = 2000;
};

[[noreturn]] void Fail(const std::string& problem) {
  std::fprintf(stderr, "http_bench: %s\n", problem.c_str());
  std::exit(1);
}

void Check(const grpc::Status& status) {
  if (!status.ok()) Fail(status.error_message());
}

std::vector<float> Values(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  uint64_t state = seed;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
  }
  return values;
}

std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Replaces the collection by one of random rows.
void Load(const Options& options, const std::shared_ptr<grpc::Channel>& channel) {
  pb::DropCollectionRequest drop;
  drop.set_name(kName);
  pb::DropCollectionResponse dropped;
  grpc::ClientContext drops;
  pb::Admin::NewStub(channel)->DropCollection(&drops, drop, &dropped);  // it may not exist
  pb::CreateCollectionRequest create;
  create.set_name(kName);
  create.set_dim(static_cast<uint32_t>(options.dim));
  create.set_metric(pb::METRIC_DOT);
  create.set_dtype(pb::DATA_TYPE_FLOAT32);
  create.set_id_type(pb::ID_TYPE_UINT64);
  pb::CreateCollectionResponse created;
  grpc::ClientContext creates;
  Check(pb::Admin::NewStub(channel)->CreateCollection(&creates, create, &created));
  grpc::ClientContext context;
  const auto ingest = pb::Ingest::NewStub(channel);
  const auto upload = ingest->Upload(&context);
  pb::UploadRequest request;
  request.mutable_begin()->set_collection(kName);
  request.mutable_begin()->set_rows_max(static_cast<uint64_t>(options.rows));
  request.mutable_begin()->set_payload_bytes_max(0);
  upload->Write(request);
  pb::UploadBlock& block = *request.mutable_block();
  for (int row = 0; row < options.rows; ++row) {
    block.mutable_ids()->add_numbers(static_cast<uint64_t>(row));
  }
  block.mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
  block.mutable_vectors()->set_data(
      Bytes(Values(static_cast<size_t>(options.rows) * static_cast<size_t>(options.dim), 1)));
  upload->Write(request);
  request.mutable_commit();
  upload->Write(request);
  upload->WritesDone();
  for (pb::UploadResponse response; upload->Read(&response);) {
  }
  Check(upload->Finish());
}

// A connection to the HTTP port.
class Client {
 public:
  explicit Client(const std::string& address) {
    boost::asio::ip::tcp::resolver resolver(io_);
    const size_t colon = address.rfind(':');
    boost::asio::connect(socket_,
                         resolver.resolve(address.substr(0, colon), address.substr(colon + 1)));
    socket_.set_option(boost::asio::ip::tcp::no_delay(true));
  }
  // Returns the body of the reply.
  std::string Search(const std::string& json) {
    http::request<http::string_body> request(
        http::verb::post, absl::StrCat("/v1/collections/", kName, "/search"), 11);
    request.set("Host", "127.0.0.1");
    request.set("Content-Type", "application/json");
    request.body() = json;
    request.prepare_payload();
    http::write(socket_, request);
    http::response<http::string_body> response;
    http::read(socket_, buffer_, response);
    if (response.result() != http::status::ok) Fail(response.body());
    return std::move(response.body());
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_{io_};
  boost::beast::flat_buffer buffer_;
};

double QuantileUs(std::vector<double> times, double part) {
  const auto at =
      times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

void Run(const Options& options) {
  const auto channel = grpc::CreateChannel(options.grpc, grpc::InsecureChannelCredentials());
  Load(options, channel);
  const auto retrieval = pb::Retrieval::NewStub(channel);
  Client client(options.http);
  const std::vector<float> query = Values(static_cast<size_t>(options.dim), 2);
  pb::SearchRequest request;
  request.set_collection(kName);
  request.set_k(static_cast<uint32_t>(options.k));
  request.add_queries()->mutable_encoded()->set_dtype(pb::DATA_TYPE_FLOAT32);
  request.mutable_queries(0)->mutable_encoded()->set_data(Bytes(query));
  std::string list;
  for (const float value : query) absl::StrAppend(&list, list.empty() ? "" : ",", value);
  const std::string end = absl::StrCat("}],\"k\":", options.k, "}");
  const std::string as_list =
      absl::StrCat("{\"queries\":[{\"vector\":{\"values\":[", list, "]}", end);
  const std::string as_base64 =
      absl::StrCat("{\"queries\":[{\"encoded\":{\"dtype\":\"DATA_TYPE_FLOAT32\",\"data\":\"",
                   absl::Base64Escape(Bytes(query)), "\"}", end);
  const std::vector<std::pair<const char*, std::function<void()>>> ways = {
      {"gRPC",
       [&] {
         grpc::ClientContext context;
         pb::SearchResponse response;
         Check(retrieval->Search(&context, request, &response));
       }},
      {"HTTP, vector as a list", [&] { client.Search(as_list); }},
      {"HTTP, vector in base64", [&] { client.Search(as_base64); }}};
  std::vector<std::vector<double>> times(ways.size());
  for (int call = 0; call < options.calls; ++call) {
    for (size_t i = 0; i < ways.size(); ++i) {
      // Each way is the first in turn: on a busy machine the last ones of a round wait for a core.
      const size_t way = (static_cast<size_t>(call) + i) % ways.size();
      const auto begin = std::chrono::steady_clock::now();
      ways[way].second();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      times[way].push_back(took.count());
    }
  }
  for (size_t way = 0; way < ways.size(); ++way) {
    std::printf("%-24s p10 %8.1f us  p50 %8.1f us\n", ways[way].first, QuantileUs(times[way], 0.1),
                QuantileUs(times[way], 0.5));
  }
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  nearfield::bench::Options options;
  CLI::App app("Compares the times of searches over gRPC and over HTTP.");
  app.add_option("--grpc", options.grpc, "address of the server");
  app.add_option("--http", options.http, "address of its HTTP port");
  app.add_option("--rows", options.rows, "rows of the collection");
  app.add_option("--dim", options.dim, "dimension");
  app.add_option("-k", options.k, "neighbors");
  app.add_option("--calls", options.calls, "searches of each kind");
  CLI11_PARSE(app, argc, argv);
  nearfield::bench::Run(options);
  return 0;
}

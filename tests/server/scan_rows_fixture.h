// ScanRowsServiceTest: a server whose rows are scanned, and the model of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "server/rpc/waiting_call.h"
#include "tests/server/pages_fixture.h"

namespace nearfield::server {

using ScanInProcess = WaitingReplies<ReplyStream<pb::ScanResponse>, pb::ScanResponse>;

inline constexpr size_t kPayloadBytes = 4000;  // about 260 rows in a reply

// Id, vector and payload.
using Row = std::tuple<uint64_t, std::string, std::string>;

inline std::vector<Row> RowsOf(const pb::ScanResponse& reply) {
  std::vector<Row> rows;
  const int count = reply.ids().numbers_size();
  EXPECT_EQ(reply.payloads_size(), count);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    rows.emplace_back(reply.ids().numbers(i), reply.vectors().data().substr(at * 4, 4),
                      reply.payloads(i));
  }
  return rows;
}

// The replies of one call.
struct Scanned {
  grpc::Status status;
  std::vector<pb::ScanResponse> replies;

  std::vector<Row> rows() const {
    std::vector<Row> rows;
    for (const pb::ScanResponse& reply : replies) {
      for (Row& row : RowsOf(reply)) rows.push_back(std::move(row));
    }
    return rows;
  }
};

class ScanRowsServiceTest : public PagesServiceTest {
 protected:
  ScanRowsServiceTest() {
    Set(settings_.epochs_kept_percent, "100");
    Set(settings_.host_memory_bytes, "256MiB");
  }

  // Serves a collection "c" with the rows [0, rows_count) in several uploads, in no order.
  void ServeRange(uint64_t rows_count) {
    Serve();
    ASSERT_OK(CreateCollection("c", 1));
    Upload(0, rows_count);
  }
  // Uploads rows whose vectors and payloads are of their id and of `version`.
  void Upload(uint64_t begin, uint64_t end, int version = 0) {
    std::vector<uint64_t> ids;
    for (uint64_t id = begin; id < end; ++id) ids.push_back(id);
    random_.Shuffle(ids);
    const size_t part = ids.size() / 5 + 1;
    for (size_t from = 0; from < ids.size(); from += part) {
      const auto first = ids.begin() + static_cast<ptrdiff_t>(from);
      const std::vector<uint64_t> some(
          first, first + static_cast<ptrdiff_t>(std::min(part, ids.size() - from)));
      UploadSome(some, version);
    }
  }
  void UploadSome(const std::vector<uint64_t>& ids, int version) {
    pb::UploadRequest begin = Begin("c", ids.size(), ids.size() * kPayloadBytes);
    begin.mutable_begin()->set_mode(pb::UPLOAD_MODE_UPSERT);
    pb::UploadRequest request;
    pb::UploadBlock* const block = request.mutable_block();
    std::string vectors;
    for (const uint64_t id : ids) {
      const Row row = RowOf(id, version);
      block->mutable_ids()->add_numbers(id);
      vectors += std::get<1>(row);
      block->add_payloads(std::get<2>(row));
      rows_[id] = row;
    }
    block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    block->mutable_vectors()->set_data(vectors);
    ASSERT_OK(Send({begin, request, Commit()}));
  }
  static Row RowOf(uint64_t id, int version) {
    const std::string text = std::to_string(id) + "/" + std::to_string(version);
    return {id, Bytes({static_cast<float>(id) + static_cast<float>(version) / 8}),
            text + std::string(kPayloadBytes - text.size(), 'p')};
  }
  void Delete(const std::vector<uint64_t>& ids) {
    pb::DeleteRequest request = Of("c");
    request.mutable_ids()->mutable_numbers()->Add(ids.begin(), ids.end());
    ASSERT_OK(Call(&Ingest::Delete, request));
    for (const uint64_t id : ids) rows_.erase(id);
  }
  std::vector<Row> Model() const {
    std::vector<Row> rows;
    for (const auto& [id, row] : rows_) rows.push_back(row);
    return rows;
  }

  Scanned Scan(const pb::ScanRequest& request = Of("c"), const std::string& caller = "") {
    grpc::ClientContext context;
    if (!caller.empty()) context.AddMetadata("nearfield-caller", caller);
    const auto stream = retrieval_->Scan(&context, request);
    Scanned scanned;
    for (pb::ScanResponse reply; stream->Read(&reply);) scanned.replies.push_back(reply);
    scanned.status = stream->Finish();
    return scanned;
  }
  static pb::ScanRequest After(const pb::ScanResponse& reply) {
    pb::ScanRequest request = Of("c");
    request.set_cursor(reply.next_cursor());
    return request;
  }
  static pb::ScanRequest With(const std::string& text) {
    return FromText("collection: 'c' " + text);
  }

  std::unique_ptr<ScanInProcess> ScanHere(const pb::ScanRequest& request = Of("c")) {
    auto call = std::make_unique<ScanInProcess>();
    call->Bind(
        server_->service().Scan(call.get(), std::make_shared<const pb::ScanRequest>(request)));
    return call;
  }
  // Windows that grow with the link would accept every reply.
  std::unique_ptr<pb::Retrieval::Stub> StubWithFixedWindows() {
    grpc::ChannelArguments fixed_windows;
    fixed_windows.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return pb::Retrieval::NewStub(grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), fixed_windows));
  }
  ByteAccount& replies() { return server_->state().ledger().replies; }
  void AwaitNothingHeld() {
    const MemoryLedger& ledger = server_->state().ledger();
    while (ledger.replies.bytes() > 0 || ledger.requests.bytes() > 0) std::this_thread::yield();
  }

  testing::Random random_{seed_};
  std::map<uint64_t, Row> rows_;  // of the current epoch
};

}  // namespace nearfield::server

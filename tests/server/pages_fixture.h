// PagesServiceTest: a server over the engine with a fake device, whose answers are read in pages.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/server_fixture.h"
#include "tests/testing/answers.h"
#include "tests/testing/corpora.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {

// One answer, read in pages.
struct Pages {
  grpc::Status status;
  Neighbors all;
  std::vector<int> sizes;
  std::string next_cursor;  // of the last page
  uint64_t epoch = 0;
};

class PagesServiceTest : public ServerFixture {
 protected:
  PagesServiceTest() {
    Set(settings_.host_memory_bytes, "64MiB");
    make_engine_ = [](const EngineOptions& options) {
      return std::move(testing::MakeFakeEngine({.device = {}, .engine = options}).engine);
    };
  }

  // Serves a collection "c" with `rows_count` rows of one dimension, many of them equal.
  void ServeCorpus(int64_t rows_count) {
    Serve();
    ASSERT_OK(CreateCollection("c", 1));
    corpus_ = {.spec = {.dim = 1}, .rows = {}, .ids = IdColumn::OfNumbers({})};
    testing::Random random(seed_);
    std::vector<float> values;
    for (int64_t i = 0; i < rows_count; ++i) {
      corpus_.ids.Append(Id(static_cast<uint64_t>(7 * i % rows_count)));
      values.push_back(static_cast<float>(random.Between(0, rows_count)) / 4);
    }
    const std::string bytes = Bytes(values);
    corpus_.rows.assign(bytes.begin(), bytes.end());
    ASSERT_OK(UploadBytes(corpus_.ids, bytes));
  }
  grpc::Status UploadBytes(const IdColumn& ids, const std::string& bytes,
                           const std::string& payload = "") {
    const auto rows = static_cast<uint64_t>(ids.size());
    pb::UploadRequest request;
    pb::UploadBlock* const block = request.mutable_block();
    block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    block->mutable_vectors()->set_data(bytes);
    for (int64_t i = 0; i < ids.size(); ++i) {
      block->mutable_ids()->add_numbers(ids.number(i));
      if (!payload.empty()) block->add_payloads(payload);
    }
    return Send({Begin("c", rows, rows * payload.size()), request, Commit()});
  }
  // Uploads rows whose only value is their id.
  grpc::Status UploadRange(uint64_t id_begin, uint64_t rows_count,
                           const std::string& payload = "") {
    std::vector<uint64_t> ids(rows_count);
    std::iota(ids.begin(), ids.end(), id_begin);
    const std::vector<float> values(ids.begin(), ids.end());
    return UploadBytes(IdColumn::OfNumbers(ids), Bytes(values), payload);
  }
  // Commits one row that no tested answer contains.
  void CommitRow(uint64_t id) { ASSERT_OK(UploadBytes(IdColumn::OfNumbers({id}), Bytes({-1e6f}))); }

  // k: 10 if it is 0.
  static pb::SearchRequest For(float value, uint32_t k = 0) {
    pb::SearchRequest request = SearchFor("c", {value});
    if (k > 0) request.set_k(k);
    return request;
  }
  Neighbors Oracle(float value, int64_t k) const {
    return testing::OracleAnswer(corpus_, absl::MakeConstSpan(&value, 1), k);
  }

  static void Append(const pb::SearchResponse& response, Pages* pages) {
    const pb::QueryResult& result = response.results(0);
    for (int i = 0; i < result.scores_size(); ++i) {
      pages->all.ids.Append(Id(result.ids().numbers(i)));
      pages->all.scores.push_back(result.scores(i));
    }
    pages->sizes.push_back(result.scores_size());
    pages->next_cursor = result.next_cursor();
    pages->epoch = response.epoch();
  }
  Pages All(const pb::SearchRequest& search, std::optional<uint64_t> results_max = std::nullopt) {
    pb::SearchAllRequest request;
    *request.mutable_search() = search;
    if (results_max) request.set_results_max(*results_max);
    grpc::ClientContext context;
    const auto stream = retrieval_->SearchAll(&context, request);
    Pages pages;
    pb::SearchResponse response;
    while (stream->Read(&response)) Append(response, &pages);
    pages.status = stream->Finish();
    return pages;
  }
  // As All, but with one Search for each page.
  Pages OneByOne(pb::SearchRequest search) {
    Pages pages;
    search.set_with_cursor(true);
    do {
      pb::SearchResponse response;
      pages.status = Search(search, &response);
      if (!pages.status.ok()) return pages;
      Append(response, &pages);
      search.set_cursor(pages.next_cursor);
    } while (!pages.next_cursor.empty());
    return pages;
  }
  std::string CursorBehind(pb::SearchRequest request) {
    request.set_with_cursor(true);
    pb::SearchResponse response;
    EXPECT_OK(Search(request, &response));
    return response.results(0).next_cursor();
  }

  const uint64_t seed_ = testing::TestSeed();
  testing::Corpus corpus_;
};

}  // namespace nearfield::server

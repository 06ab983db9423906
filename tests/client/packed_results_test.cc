// Tests of packed replies to searches.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nearfield/client/client.h"
#include "nearfield/client/digest.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"

namespace nearfield::client {
namespace {

// The library requests packed replies. A digest makes a reply an ordinary one.
TEST(ClientPackedResults, APackedReplyHasTheBitsOfAnOrdinaryOne) {
  TestServer server;
  Client client = *Client::Connect({.address = server.address()});
  ASSERT_OK(client.CreateCollection({.name = "packed", .dim = 2}));
  const std::vector<float> values = {2, 1, -1, 0.5f};
  const std::span<const float> all = values;
  const std::vector<Query> queries = {all.first(2), all.last(2)};
  for (const int rows : {0, 1, 3}) {
    if (rows > 0) {
      ASSERT_OK_AND_ASSIGN(
          Upload upload,
          client.BeginUpload({.collection = "packed", .rows_max = 3, .mode = UploadMode::kUpsert}));
      std::vector<uint64_t> numbers;
      std::vector<float> vectors;
      for (int i = 0; i < rows; ++i) {
        numbers.push_back(UINT64_MAX - static_cast<uint64_t>(i));
        vectors.insert(vectors.end(), {static_cast<float>(i), 0.1f});
      }
      const IdColumn ids = numbers;
      std::string bytes;
      ASSERT_TRUE(Narrow(DataType::kFloat32, vectors, &bytes));
      ASSERT_OK(upload.Write({.ids = &ids, .vectors = bytes}));
      ASSERT_OK(upload.Commit());
    }
    for (const uint32_t k : {1u, 2u, 10u}) {
      ASSERT_OK_AND_ASSIGN(const auto packed, client.Search("packed", queries, {.k = k}));
      ASSERT_OK_AND_ASSIGN(const auto plain,
                           client.Search("packed", queries, {.k = k, .with_digest = true}));
      ASSERT_EQ(packed.results.size(), 2u);
      EXPECT_EQ(ResultDigest(packed.results), plain.digest);
      EXPECT_EQ(packed.epoch, plain.epoch);
      EXPECT_EQ(packed.incarnation, plain.incarnation);
    }
  }
}

TEST(ClientPackedResults, APackedReplyThatDoesNotFitIsMalformed) {
  TestServer server;
  Client client = *Client::Connect({.address = server.address()});
  ASSERT_OK(client.CreateCollection({.name = "c", .dim = 2}));
  const std::vector<float> query = {2, 1};
  const std::string word(sizeof(uint64_t), '\1');
  const std::string one("\1\0\0\0", 4);
  const std::vector<std::vector<std::string>> wrong = {
      // ids, scores, counts
      {word, word.substr(4), ""}, {"", "", one}, {word, "", one},
      {word, word, one},          {"", "", "1"}, {"1", "1", std::string(4, '\0')}};
  for (const auto& parts : wrong) {
    server.OnReply<v1::SearchResponse>("Search", [&](v1::SearchResponse* response) {
      response->mutable_packed()->set_ids(parts[0]);
      response->mutable_packed()->set_scores(parts[1]);
      response->mutable_packed()->set_counts(parts[2]);
    });
    EXPECT_THAT(client.Search("c", query).status(), StatusIs(kInternal));
  }
}

}  // namespace
}  // namespace nearfield::client

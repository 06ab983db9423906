// Tests of the digest that the library recomputes for each answer.
#include "nearfield/client/digest.h"

#include <string>
#include <vector>

#include "nearfield/client/client.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"

namespace nearfield::client {
namespace {

TEST(ClientDigest, AReplyThatDoesNotFitItsDigestIsDataLoss) {
  TestServer server;
  Client client = *Client::Connect({.address = server.address()});
  ASSERT_OK(client.CreateCollection({.name = "c", .dim = 2}));
  const std::vector<float> query = {2, 1};
  const Neighbors neighbors = {.ids = std::vector<uint64_t>{5}, .scores = {0.5f}};
  const std::string digest = ResultDigest(std::vector<Neighbors>{neighbors});
  float score = 0.5f;
  for (const char* method : {"Search", "SearchStream"}) {
    server.OnReply<v1::SearchResponse>(method, [&](v1::SearchResponse* response) {
      response->mutable_results(0)->mutable_ids()->add_numbers(5);
      response->mutable_results(0)->add_scores(score);
      response->set_result_digest(digest);
    });
  }
  ASSERT_OK_AND_ASSIGN(const auto answer, client.Search("c", query, {.with_digest = true}));
  EXPECT_EQ(answer.digest, digest);
  score = 0.25f;
  EXPECT_THAT(client.Search("c", query, {.with_digest = true}).status(), StatusIs(kDataLoss));
  ASSERT_OK_AND_ASSIGN(auto stream, client.OpenSearchStream("c", {.with_digest = true}));
  const Query queries[] = {std::span<const float>(query)};
  ASSERT_TRUE(stream.Send(queries));
  EXPECT_THAT(stream.Receive().status(), StatusIs(kDataLoss));
}

}  // namespace
}  // namespace nearfield::client

// Tests of the library's administrative calls against a server in this process.

#include "nearfield/client/client.h"
#include "nearfield/v1/admin.pb.h"
#include "tests/client/made_up_replies.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"

namespace nearfield::client {
namespace {

TEST(ClientAdminTest, AliasesSnapshotsAndCompactionGiveWhatTheServerSaid) {
  TestServer server;
  server.KeepData();
  Client client = *Client::Connect({.address = server.address()});
  ASSERT_OK(client.CreateCollection({.name = "c", .dim = 2}));
  ASSERT_OK(client.CreateCollection({.name = "d", .dim = 2}));
  ASSERT_OK_AND_ASSIGN(auto set, client.SetAlias("live", "c"));
  EXPECT_EQ(set.collection.spec.name, "c");
  EXPECT_THAT(set.collection.aliases, ElementsAre("live"));
  EXPECT_EQ(set.collection_before, "");
  EXPECT_EQ(client.SetAlias("live", "d")->collection_before, "c");
  EXPECT_THAT(client.GetCollection("live")->aliases, ElementsAre("live"));
  EXPECT_EQ(client.DropAlias("live").value(), "d");
  EXPECT_THAT(client.DropAlias("live"), StatusIs(kNotFound));
  server.OnReply<v1::ListSnapshotsResponse>("ListSnapshots", [](auto* reply) {
    reply->mutable_snapshots(0)->set_files_count(3);
    reply->mutable_snapshots(0)->set_bytes(12345);
    reply->mutable_snapshots(0)->set_created_unix_s(1715938200);
    reply->mutable_snapshots(0)->set_owner("nightly");
  });
  ASSERT_OK(client.CreateSnapshot("monday"));
  ASSERT_OK_AND_ASSIGN(const auto snapshots, client.ListSnapshots());
  ASSERT_THAT(snapshots, SizeIs(1));
  EXPECT_EQ(snapshots.front().name, "monday");
  EXPECT_EQ(snapshots.front().files_count, 3u);
  EXPECT_EQ(snapshots.front().bytes, 12345u);
  EXPECT_EQ(snapshots.front().created_unix_s, 1715938200);
  EXPECT_EQ(snapshots.front().owner, "nightly");
  ASSERT_OK_AND_ASSIGN(const auto deleted, client.DeleteSnapshot("monday"));
  EXPECT_EQ(deleted.name, "monday");
  EXPECT_GT(deleted.bytes, 0u);
  EXPECT_THAT(client.DeleteSnapshot("monday"), StatusIs(kNotFound));
  server.OnReply<v1::CompactResponse>("Compact", GiveBackSome);
  ASSERT_OK_AND_ASSIGN(const auto given, client.Compact("c"));
  EXPECT_EQ(given.rows_given_back, 1234u);
  EXPECT_EQ(given.device_bytes_given_back, 2000u);
  EXPECT_EQ(given.host_bytes_given_back, 3000u);
  EXPECT_EQ(given.stored_rows_given_back, 5u);
  EXPECT_EQ(given.stored_bytes_given_back, 4000u);
}

}  // namespace
}  // namespace nearfield::client

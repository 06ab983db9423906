// Tests of nearfield alias, snapshot and compact.

#include "nearfield/v1/admin.pb.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/made_up_replies.h"

namespace nearfield::client {
namespace {

TEST_F(CliTest, AnAliasIsSetMovedUsedAndDropped) {
  Fill();
  ASSERT_EQ(Run({"collections", "create", "docs-2", "--dim", "2", "--metric", "dot"}).exit_code, 0);
  EXPECT_EQ(Run({"alias", "set", "live", "docs"}).out, "live is docs\n");
  EXPECT_EQ(Run({"count", "live"}).out, "3\n");
  EXPECT_THAT(Run({"collections", "list"}).out, HasSubstr("  live\n"));
  EXPECT_EQ(Run({"alias", "set", "live", "docs-2"}).out, "live is docs-2, no longer docs\n");
  EXPECT_EQ(Run({"count", "live"}).out, "0\n");
  EXPECT_EQ(Run({"alias", "drop", "live"}).out, "dropped the alias live of docs-2\n");
  EXPECT_EQ(Run({"alias", "drop", "live"}).exit_code, 1);
  EXPECT_EQ(Run({"alias", "set", "live", "gone"}).exit_code, 1);
}

// A collection that may fail to load after a restart was shown like any other.
TEST_F(CliTest, ACollectionWhoseStoredRowsCannotBeReadSaysSo) {
  Fill();
  EXPECT_THAT(Run({"collections", "show", "docs"}).out, Not(HasSubstr("may not load again")));
  server_.OnReply<v1::GetCollectionResponse>("GetCollection", [](auto* reply) {
    reply->mutable_collection()->set_read_failures_count(1200);
  });
  EXPECT_THAT(
      Run({"collections", "show", "docs"}).out,
      HasSubstr("docs may not load again: its stored rows could not be read (1,200 times)\n"));
  EXPECT_THAT(Run({"collections", "show", "docs", "--json"}).out,
              HasSubstr("\"read_failures_count\":1200"));
}

TEST_F(CliTest, LimitsAreShownWithTheirMeaning) {
  server_.Set("upload_tokens_max", "77");
  EXPECT_THAT(Run({"limits"}).out, HasSubstr("77  open uploads with a token\n"));
  EXPECT_THAT(Run({"limits", "--json"}).out, HasSubstr("\"upload_tokens_max\":77"));
}

TEST_F(CliTest, SnapshotsAndCompactionTellWhatTheServerSaid) {
  server_.KeepData();
  Fill();
  server_.OnReply<v1::CreateSnapshotResponse>("CreateSnapshot", [](auto* reply) {
    reply->mutable_snapshot()->set_bytes(12345);
    reply->mutable_snapshot()->set_created_unix_s(1715938200);
  });
  server_.OnReply<v1::CompactResponse>("Compact", GiveBackSome);
  EXPECT_THAT(Run({"snapshot", "create", "monday"}).out,
              AllOf(HasSubstr("monday"), HasSubstr("2024-05-17 09:30:00"), HasSubstr("12.3 kB")));
  EXPECT_THAT(Run({"snapshot", "list"}).out, HasSubstr("monday"));
  EXPECT_THAT(Run({"compact", "docs"}).out,
              AllOf(HasSubstr("1,234 deleted rows, 2.00 kB of the device and 3.00 kB of the host"),
                    HasSubstr("5 deleted rows, 4.00 kB given back")));
  EXPECT_EQ(Run({"compact", "gone"}).exit_code, 1);
  // These calls have a long deadline unless --timeout is given.
  EXPECT_GT(server_.deadlines_ms("Compact").front(), 23 * 3600 * 1000);
  EXPECT_GT(server_.deadlines_ms("CreateSnapshot").front(), 23 * 3600 * 1000);
  Run({"compact", "docs", "--timeout", "7"});
  EXPECT_LE(server_.deadlines_ms("Compact").back(), 7100);  // gRPC rounds it up on the wire
  server_.Refuse("CreateSnapshot",
                 {{absl::FailedPreconditionError("snapshot_dir is not set"), std::nullopt}});
  EXPECT_THAT(Run({"snapshot", "create", "monday"}),
              Fails(3, HasSubstr("snapshot_dir is not set")));
}

TEST_F(CliTest, HealthOfAServerThatStartsReportsItsProgress) {
  server_.Listen();
  EXPECT_THAT(Run({"health"}),
              FailsPrinting(1, HasSubstr("NOT_SERVING: the server is starting: ")));
  server_.OnReply<v1::GetServerStateResponse>("GetServerState", [](auto* response) {
    response->set_reason("loading");
    v1::LoadProgress* loading = response->mutable_loading();
    loading->set_collections_loaded(3);
    loading->set_collections_count(7);
    loading->set_bytes_read(41);
    loading->set_bytes_total(100);
    loading->set_seconds_left(20);
  });
  EXPECT_THAT(Run({"health", "--json"}),
              FailsPrinting(1,
                            "{\"service\":\"\",\"status\":\"NOT_SERVING\",\"phase\":\"starting\","
                            "\"reason\":\"loading\",\"collections_loaded\":3,"
                            "\"collections_count\":7,\"bytes_read\":41,\"bytes_total\":100,"
                            "\"seconds_left\":20}\n"));
  // An older server does not know the call.
  server_.Refuse("GetServerState", {{absl::UnimplementedError("unknown")}});
  EXPECT_THAT(Run({"health"}), FailsPrinting(1, "NOT_SERVING\n"));
}

}  // namespace
}  // namespace nearfield::client

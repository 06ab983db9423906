// Tests of nearfield alias, snapshot, compact, health and keys.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

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
    reply->mutable_snapshot()->set_owner("nightly");
  });
  server_.OnReply<v1::CompactResponse>("Compact", GiveBackSome);
  EXPECT_THAT(Run({"snapshot", "create", "monday"}).out,
              AllOf(HasSubstr("monday"), HasSubstr("2024-05-17 09:30:00"), HasSubstr("12.3 kB"),
                    HasSubstr("nightly")));
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

TEST_F(CliTest, HealthWaitsForTheServerWithOneWatch) {
  EXPECT_THAT(Run({"health", "--wait", "60"}), Prints("SERVING\n"));
  TestServer booting;
  booting.Listen();
  EXPECT_THAT(RunPlain({"health", "--wait", "0.2", "--address", booting.address()}),
              Fails(1, AllOf(HasSubstr("is not ready after 0.2 s; its last state: NOT_SERVING: "),
                             HasSubstr("the server is starting: creating the engine"))));
  EXPECT_EQ(booting.calls("Watch"), 1);
  EXPECT_EQ(booting.calls("Check"), 0);
  EXPECT_THAT(RunPlain({"health", "--wait", "0.2", "--address", "unix:/nonexistent/socket"}),
              Fails(1, AllOf(HasSubstr("is not ready after 0.2 s; the last try failed"),
                             HasSubstr("cannot reach unix:/nonexistent/socket"))));
  EXPECT_THAT(Run({"health", "--wait", "1", "--timeout", "1"}), Fails(2, HasSubstr("--wait")));
  EXPECT_EQ(Run({"health", "--wait", "1", "--watch"}).exit_code, 2);
  EXPECT_THAT(Run({"health", "--wait", "0"}),
              Fails(2, HasSubstr("must be 0.001 .. 1e+06 seconds")));
}

// Regression: `keys create ... > token` left a secret that everyone could read, under the usual
// umask.
TEST_F(CliTest, AKeyIsWrittenToANewFileThatOnlyItsOwnerReads) {
  const std::string keys = folder_.path() + "/keys.json";
  const std::string token = folder_.path() + "/token";
  const Arguments create = {"keys",         "create",     "pipeline", "--scopes",
                            "write,create", "--key-file", keys};
  const mode_t before = umask(0);
  const Outcome made = RunPlain(Plus(create, {"--out", token}));
  umask(before);
  EXPECT_THAT(made, Prints(AllOf(HasSubstr("of pipeline is in "), HasSubstr(token))));
  const std::string text = ReadAll(token);
  EXPECT_THAT(text, ::testing::MatchesRegex("nf_[0-9a-f]{16}_[0-9a-f]{64}\n"));
  const std::string secret = text.substr(20, 64);
  EXPECT_THAT(made.out + made.err + ReadAll(keys), Not(HasSubstr(secret)));
  struct stat info = {};
  ASSERT_EQ(stat(token.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const std::string second = folder_.path() + "/second";
  const Outcome json = RunPlain(Plus(create, {"--json", "--out", second}));
  EXPECT_THAT(json, Prints(HasSubstr("\"file\":\"" + second + "\"")));
  EXPECT_THAT(json.out, Not(HasSubstr(ReadAll(second).substr(20, 64))));

  const std::string known = ReadAll(keys);
  const std::string link = folder_.path() + "/link";
  ASSERT_EQ(symlink("nothing", link.c_str()), 0);
  for (const auto& [out, problem] : std::vector<std::pair<std::string, std::string>>{
           {token, "exists, and is not overwritten"},
           {link, "exists, and is not overwritten"},
           {folder_.path(), "exists, and is not overwritten"},
           {keys, "is the key file"},
           {"-", "must be the name of a file"},
           {"", "must be the name of a file"},
           {folder_.path() + "/none/token", "No such file or directory"}}) {
    EXPECT_THAT(RunPlain(Plus(create, {"--out", out})),
                Fails(2, AllOf(HasSubstr("--out: "), HasSubstr(out), HasSubstr(problem))));
    EXPECT_EQ(ReadAll(keys), known) << out;
  }
  EXPECT_EQ(ReadAll(token), text);
  // A key that the key file does not take leaves no file either.
  folder_.Write("keys.json.new", "");
  const std::string third = folder_.path() + "/third";
  EXPECT_THAT(RunPlain(Plus(create, {"--out", third})), Fails(2, HasSubstr("keys.json.new")));
  EXPECT_NE(access(third.c_str(), F_OK), 0);
}

// Regression: -1 was stored as the largest number, and a limit of a misspelt principal as well.
TEST_F(CliTest, ALimitIsInItsRangeAndOfAHolderOfAKey) {
  const std::string keys = folder_.path() + "/keys.json";
  const auto limit = [&](const Arguments& more) {
    return RunPlain(Plus({"keys", "limit", "--key-file", keys}, more));
  };
  for (const char* principal : {"g", "adm", "g"}) {
    const Outcome made =
        RunPlain({"keys", "create", principal, "--scopes", "read", "--key-file", keys});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  EXPECT_THAT(limit({"adm", "--device-bytes", "20GiB", "--collections", "0"}),
              Prints("limits of adm: device_bytes=21,474,836,480\n"));
  const std::string known = ReadAll(keys);
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--collections", "-1"},
                                                        {"--collections", "9223372036854775808"},
                                                        {"--collections", "few"},
                                                        {"--device-bytes", "-1"},
                                                        {"--device-bytes", "-5GiB"},
                                                        {"--device-bytes", "1.5GiB"},
                                                        {"--device-bytes", "1.5"},
                                                        {"--device-bytes", "8EiB"},
                                                        {"--disk-bytes", "5XB"},
                                                        {"--disk-bytes", ""}}) {
    EXPECT_THAT(limit({"adm", option, value}),
                Fails(2, AllOf(StartsWith(option + ": " + value + ", must be a whole number"),
                               HasSubstr(", 0 .. 9223372036854775807"))));
  }
  EXPECT_THAT(limit({"nobody", "--device-bytes", "20GiB"}),
              Fails(1, HasSubstr("no key of nobody; principals are adm, g\n")));
  EXPECT_EQ(ReadAll(keys), known);
  // The limit of a principal whose keys are revoked can still be removed.
  folder_.Write("keys.json", R"({"format": 1, "principals": {"adm": {"aliases": 1}}, "keys": []})");
  EXPECT_THAT(limit({"adm", "--aliases", "0"}), Prints("adm has no limits of its own\n"));
  EXPECT_THAT(limit({"adm", "--aliases", "1"}), Fails(1, HasSubstr("there are no keys")));
}

TEST_F(CliTest, ASnapshotIsDeletedOnce) {
  server_.KeepData();
  Fill();
  ASSERT_EQ(Run({"snapshot", "create", "monday"}).exit_code, 0);
  EXPECT_THAT(Run({"snapshot", "delete", "monday"}),
              Prints(StartsWith("deleted monday, created 20")));
  EXPECT_THAT(Run({"snapshot", "delete", "monday"}), Fails(1, HasSubstr("no snapshot \"monday\"")));
  EXPECT_GT(server_.deadlines_ms("DeleteSnapshot").front(), 23 * 3600 * 1000);
}

// Makes ListSnapshots return the snapshots of this server with these times, by name.
class CliSnapshotKeepTest : public CliTest {
 protected:
  CliSnapshotKeepTest() {
    server_.KeepData();
    server_.OnReply<v1::ListSnapshotsResponse>("ListSnapshots", [this](auto* reply) {
      for (v1::SnapshotInfo& info : *reply->mutable_snapshots()) {
        info.set_created_unix_s(times_.at(info.name()));
        if (info.name() == damaged_) info.set_error("MANIFEST: differs from its own digest");
      }
    });
  }
  void Create(const std::string& name, int64_t time) {
    times_[name] = time;
    ASSERT_EQ(Run({"snapshot", "create", name}).exit_code, 0);
  }
  // Returns the names that the server lists.
  std::vector<std::string> Left() {
    std::vector<std::string> names;
    std::istringstream lines(Run({"snapshot", "list", "--json"}).out);
    for (std::string line; std::getline(lines, line);) {
      names.push_back(nlohmann::json::parse(line)["name"]);
    }
    return names;
  }

  std::map<std::string, int64_t> times_;
  std::string damaged_;
};

TEST_F(CliSnapshotKeepTest, TheOldestAreDeletedAndNamed) {
  Fill();
  Create("c", 100);
  Create("a", 300);
  Create("b", 200);
  times_["d"] = 400;
  EXPECT_THAT(
      Run({"snapshot", "create", "d", "--keep", "2"}),
      Prints(AllOf(::testing::ContainsRegex("\ndeleted c, created 20.*\ndeleted b, created 20"),
                   Not(HasSubstr("deleted a")), Not(HasSubstr("deleted d")))));
  EXPECT_THAT(Left(), ElementsAre("a", "d"));
  times_["e"] = 500;
  EXPECT_THAT(Run({"snapshot", "create", "e", "--keep", "7"}).out, Not(HasSubstr("deleted")));
  EXPECT_THAT(Left(), ElementsAre("a", "d", "e"));
}

// A clock that was set back would make the new snapshot the oldest one.
TEST_F(CliSnapshotKeepTest, TheNewSnapshotIsKeptWhateverItsTime) {
  Fill();
  Create("a", 300);
  times_["b"] = 100;
  ASSERT_EQ(Run({"snapshot", "create", "b", "--keep", "1"}).exit_code, 0);
  EXPECT_THAT(Left(), ElementsAre("b"));
}

TEST_F(CliSnapshotKeepTest, NothingIsDeletedIfTheNewSnapshotFailed) {
  Fill();
  Create("a", 100);
  Create("b", 200);
  EXPECT_THAT(Run({"snapshot", "create", "b", "--keep", "1"}), Fails(3, HasSubstr("ALREADY")));
  EXPECT_THAT(Left(), ElementsAre("a", "b"));
  EXPECT_EQ(server_.calls("DeleteSnapshot"), 0);
}

// An older snapshot may hold the last good copy of these rows.
TEST_F(CliSnapshotKeepTest, NothingIsDeletedWhileStoredRowsCannotBeRead) {
  Fill();
  Create("a", 100);
  times_["b"] = 200;
  server_.OnReply<v1::ListCollectionsResponse>("ListCollections", [](auto* reply) {
    reply->mutable_collections(0)->set_read_failures_count(1);
  });
  EXPECT_THAT(Run({"snapshot", "create", "b", "--keep", "1"}),
              Fails(3, HasSubstr("deleted no snapshot: stored rows of the collection \"docs\"")));
  EXPECT_THAT(Left(), ElementsAre("a", "b"));
}

TEST_F(CliSnapshotKeepTest, APrefixProtectsOtherSnapshotsAndDamagedOnesNeverCount) {
  Fill();
  Create("before-upgrade", 50);
  for (int64_t day = 1; day <= 3; ++day) Create("n-" + std::to_string(day), 100 * day);
  times_["n-4"] = 400;
  damaged_ = "n-3";
  EXPECT_THAT(Run({"snapshot", "create", "n-4", "--keep", "2", "--keep-prefix", "n-", "--json"}),
              Prints(HasSubstr("\"deleted\":true")));
  EXPECT_THAT(Left(), ElementsAre("before-upgrade", "n-2", "n-3", "n-4"));
}

}  // namespace
}  // namespace nearfield::client

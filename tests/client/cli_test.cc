// Tests of the command, run as a program against a server in this process.
#include <limits>
#include <string>
#include <vector>

#include "client/formats/json_text.h"
#include "client/formats/lines.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/cli_fixture.h"

namespace nearfield::client {
namespace {

// Checks that every line is one JSON value.
void ExpectJsonLines(const std::string& text) {
  LineReader lines(text);
  for (std::string_view line; lines.Next(&line);) EXPECT_OK(CheckJson(line)) << line;
  EXPECT_GT(lines.number(), 0u);
}

TEST_F(CliTest, HelpTeaches) {
  const Outcome help = RunPlain({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("First steps:"), HasSubstr("Exit codes:"),
                              HasSubstr("NEARFIELD_ADDRESS")));
  for (const std::string command :
       {"collections", "upload", "search", "fetch", "delete", "update", "attribute", "count",
        "verify", "health", "limits", "capacity", "counters", "demo", "alias", "snapshot",
        "compact", "uploads"}) {
    EXPECT_THAT(help.out, HasSubstr("\n  " + command));
    EXPECT_THAT(RunPlain({command, "--help"}), Prints(HasSubstr("nearfield " + command)))
        << command;
  }
  EXPECT_THAT(RunPlain({"upload", "--help"}).out,
              HasSubstr("A collection that --create made is then dropped again.\n"));
  EXPECT_THAT(RunPlain({"--version"}).out, StartsWith("nearfield "));
}

TEST_F(CliTest, NoServerIsFourAndSaysWhatToDo) {
  EXPECT_THAT(RunPlain({"--address", "unix:/nonexistent/socket", "count", "docs"}),
              Fails(4, AllOf(HasSubstr("cannot reach unix:/nonexistent/socket"),
                             HasSubstr("is nearfield-server running?"))));
  EXPECT_EQ(RunPlain({"health", "--address", "unix:/nonexistent/socket"}).exit_code, 1);
  const Outcome bad = RunPlain({"count", "docs", "--address", "127.0.0.1:117636"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.err, "nearfield: address: port = 117636, must be 1 .. 65535\n");
}

TEST_F(CliTest, AnUploadIsSearchedFetchedCountedAndDeleted) {
  Fill();
  EXPECT_THAT(Run({"search", "docs", "-k", "2", "--fields", "name,year"}, "[2, 1]"),
              Prints(AllOf(HasSubstr("query 0: 2 neighbors"), HasSubstr("1  c       3"),
                           HasSubstr("one   1999"))));
  EXPECT_THAT(Run({"fetch", "docs", "a", "c"}),
              Prints(HasSubstr("plain ?[31m text")));  // no escape reaches the terminal
  EXPECT_EQ(Run({"count", "docs"}).out, "3\n");
  EXPECT_THAT(Run({"delete", "docs", "a", "zz"}).out, HasSubstr("deleted 1 of 2"));
  const Outcome missing = Run({"fetch", "docs", "a", "b"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.out, HasSubstr("two"));
  EXPECT_THAT(missing.err, HasSubstr("no row with id a"));
}

TEST_F(CliTest, JsonIsOneObjectALine) {
  server_.KeepData();
  Fill();
  for (const Arguments& args : std::vector<Arguments>{
           {"search", "docs", "--id", "a", "b", "--payload", "--vectors", "--explain"},
           {"search", "docs", "--id", "a", "--verify"},
           {"fetch", "docs", "a", "c", "--vectors"},
           {"count", "docs"},
           {"collections", "list"},
           {"collections", "show", "docs"},
           {"verify", "docs", "--sample", "3"},
           {"limits"},
           {"capacity"},
           {"counters"},
           {"health"},
           {"alias", "set", "live", "docs"},
           {"alias", "drop", "live"},
           {"snapshot", "create", "monday"},
           {"snapshot", "create", "tuesday", "--keep", "1"},
           {"snapshot", "list"},
           {"snapshot", "delete", "tuesday"},
           {"compact", "docs"},
           {"update", "docs", "a", "--payload", "new"},
           {"attribute", "add", "docs", "year:int64"},
           {"attribute", "drop", "docs", "year", "--yes"},
           {"delete", "docs", "a"},
           {"collections", "drop", "docs", "--yes"}}) {
    const Outcome outcome = Run(Plus(args, {"--json"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    ExpectJsonLines(outcome.out);
  }
}

TEST_F(CliTest, CapacityOfSeveralDevicesIsShownForEachAndInAll) {
  server_.OnReply<v1::GetCapacityResponse>("GetCapacity", [](auto* reply) {
    reply->Clear();
    reply->set_device_name("2 x a card");
    reply->set_device_bytes_total(3000);
    reply->set_device_bytes_used(900);
    for (const uint64_t device : {0, 1}) {
      v1::DeviceUse& use = *reply->add_devices();
      use.set_name("GPU " + std::to_string(device) + " (a card)");
      use.set_bytes_total(1000 + 1000 * device);
      use.set_bytes_used(400 + 100 * device);
    }
  });
  EXPECT_THAT(Run({"capacity"}).out,
              AllOf(HasSubstr("rows     900 B of 3.00 kB (30%)\n"),
                    HasSubstr("rows on GPU 0 (a card)  400 B of 1.00 kB (40%)\n"
                              "rows on GPU 1 (a card)  500 B of 2.00 kB (25%)\n")));
  EXPECT_THAT(Run({"capacity", "--json"}).out,
              HasSubstr("\"devices\":[{\"name\":\"GPU 0 (a card)\",\"bytes_total\":1000,"
                        "\"bytes_used\":400},{\"name\":\"GPU 1 (a card)\",\"bytes_total\":2000,"
                        "\"bytes_used\":500}]"));
}

TEST_F(CliTest, CountersAreSummedUp) {
  server_.OnReply<v1::GetCountersResponse>("GetCounters", [](auto* reply) {
    reply->Clear();
    reply->set_started_unix_ms(1715938200123);
    v1::CallCounter& calls = *reply->add_calls();
    calls.set_method("Search");
    calls.set_status("OK");
    calls.set_calls_count(7);
    calls.set_rows_count(70);
    calls.set_total_us(14007);
    reply->mutable_passes()->set_passes_count(5);
    reply->mutable_passes()->set_queries_int8_count(6);
    reply->mutable_passes()->set_bytes_read(3000000);
    reply->mutable_passes()->mutable_escalations()->set_tighter(2);
    reply->mutable_audit()->set_answers_audited_count(1);
    reply->mutable_connections()->set_open_count(3);
    reply->mutable_connections()->set_accepted_count(1200);
    reply->mutable_connections()->set_refused_count(4);
    reply->mutable_connections()->set_pauses_count(5);
    reply->set_log_lines_dropped_count(8);
  });
  EXPECT_EQ(Run({"counters"}).out,
            "since 2024-05-17 09:30:00 UTC\n"
            "method  status  calls  rows  mean us\n"
            "Search  OK          7    70    2,001\n"
            "passes       5, on the device for 0 ms, 3.00 MB read\n"
            "queries      6 int8, 0 rows; 0 candidates\n"
            "escalations  2 tighter, 0 canonical\n"
            "audit        1 answers checked, 0 dropped, 0 failed; 0 wrong\n"
            "connections  3 open, 1,200 accepted, 4 refused; 5 pauses of accepting\n"
            "log          8 lines dropped\n");
  EXPECT_EQ(
      Run({"counters", "--json"}).out,
      "{\"started_unix_ms\":1715938200123,\"calls\":[{\"method\":\"Search\",\"status\":\"OK\","
      "\"calls_count\":7,\"rows_count\":70,\"total_us\":14007}],\"passes\":{\"passes_count\":5,"
      "\"queries_rows_count\":0,\"queries_int8_count\":6,\"device_us\":0,\"candidates\":0,"
      "\"bytes_read\":3000000,\"escalations\":{\"tighter\":2,\"canonical\":0}},"
      "\"audit\":{\"answers_audited_count\":1,\"answers_dropped_count\":0,"
      "\"answers_failed_count\":0,\"mismatches_count\":0,\"rows_checked_count\":0},"
      "\"connections\":{\"open_count\":3,\"accepted_count\":1200,\"refused_count\":4,"
      "\"pauses_count\":5},\"log_lines_dropped_count\":8}\n");
}

TEST_F(CliTest, ScoresAndVectorsAreExactInJson) {
  const std::string rows =
      folder_.Write("r.jsonl", "{\"id\":1,\"vector\":[0.1]}\n{\"id\":2,\"vector\":[3e38]}\n");
  ASSERT_EQ(Run({"upload", "x", rows, "--create", "--metric", "dot"}).exit_code, 0);
  const Outcome outcome = Run({"search", "x", "--vectors", "--json"}, "[[3e38], [-3e38]]");
  EXPECT_THAT(outcome.out, HasSubstr("{\"id\":2,\"score\":\"inf\",\"vector\":[3.00000001e+38]}"));
  EXPECT_THAT(outcome.out, HasSubstr("\"score\":\"-inf\""));
  EXPECT_THAT(outcome.out, HasSubstr("\"vector\":[0.100000001]"));
}

TEST_F(CliTest, ManyQueriesAreSentInBatchesAndAnsweredInOrder) {
  server_.Set("queries_max", "3");
  Fill();
  std::string queries;
  for (int i = 0; i < 10; ++i) queries += "[" + std::to_string(i) + ",1]\n";
  const Outcome outcome = Run({"search", "docs", "-k", "1", "--json"}, queries);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(server_.calls("Search"), 4);
  LineReader lines(outcome.out);
  for (std::string_view line; lines.Next(&line);) {
    EXPECT_THAT(std::string(line),
                StartsWith("{\"query\":" + std::to_string(lines.number() - 1) + ","));
  }
  EXPECT_EQ(lines.number(), 10u);
}

TEST_F(CliTest, VerifyTellsTruthFromMismatch) {
  Fill();
  EXPECT_THAT(Run({"search", "docs", "--id", "a", "--verify"}),
              Prints(HasSubstr("verified: ids and score bits")));
  EXPECT_THAT(Run({"verify", "docs", "--sample", "4"}).out, HasSubstr("verified: 4 of 4 answers"));
  server_.OnReply<v1::VerifyResponse>("Verify", [](auto* reply) {
    reply->set_equal(false);
    reply->set_first_difference(0);
    reply->set_explanation("made up");
  });
  EXPECT_THAT(Run({"search", "docs", "--id", "a", "--verify"}),
              FailsPrinting(1, AllOf(HasSubstr("MISMATCH at place 1"), HasSubstr("made up"))));
  EXPECT_THAT(Run({"verify", "docs", "--sample", "4"}),
              FailsPrinting(1, HasSubstr("MISMATCH: 0 of 4")));
}

TEST_F(CliTest, AVerifyOvertakenByAWriteSearchesAgain) {
  Fill();
  const Refusal moved = {absl::FailedPreconditionError("epoch: the collection has moved on")};
  server_.Refuse("Verify", {moved, moved});
  EXPECT_EQ(Run({"search", "docs", "--id", "a", "--verify"}).exit_code, 0);
  EXPECT_EQ(server_.calls("Search"), 3);
  server_.Refuse("Verify", std::vector<Refusal>(1000, moved));
  EXPECT_EQ(Run({"search", "docs", "--id", "a", "--verify"}).exit_code, 3);
}

TEST_F(CliTest, ADrawFollowsItsSeed) {
  Fill();
  EXPECT_EQ(Run({"verify", "docs", "--seed", "5", "--sample", "2"}).out,
            Run({"verify", "docs", "--seed", "5", "--sample", "2"}).out);
  ASSERT_EQ(Run({"collections", "create", "empty", "--dim", "2", "--metric", "l2"}).exit_code, 0);
  EXPECT_THAT(Run({"verify", "empty"}), Prints(HasSubstr("nothing to verify")));
}

TEST_F(CliTest, HealthIsAProbe) {
  EXPECT_EQ(Run({"health"}).exit_code, 0);
  EXPECT_EQ(Run({"health", "--service", "unknown"}).exit_code, 1);
  TestServer booting;
  booting.Listen();
  const Outcome outcome = RunPlain({"health", "--address", booting.address()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "NOT_SERVING: the server is starting: creating the engine\n");
}

TEST_F(CliTest, RefusalsShowTheStatusAndItsRequest) {
  EXPECT_EQ(Run({"collections", "show", "none"}).exit_code, 1);
  Fill();
  const Outcome outcome = Run({"search", "docs"}, "[1, 2, 3]");
  EXPECT_THAT(outcome, Fails(3, AllOf(HasSubstr("INVALID_ARGUMENT"),
                                      HasSubstr("3 values, the collection has dim 2"),
                                      HasSubstr("(request " + server_.request_id("Search")))));
}

TEST_F(CliTest, BadInputIsNamedAndNothingIsSent) {
  Fill();
  const int uploads = server_.calls("Upload");
  const std::string bad = folder_.Write(
      "bad.jsonl", "{\"id\":\"d\",\"vector\":[1,2]}\n{\"id\":\"e\",\"vector\":[1]}\n");
  EXPECT_THAT(Run({"upload", "docs", bad}),
              Fails(2, AllOf(HasSubstr("bad.jsonl: line 2"), HasSubstr("1 values"))));
  const std::string wide = folder_.Write("wide.fbin", Fbin(1, 3, {1, 2, 3}));
  const std::string ids = folder_.Write("ids.txt", "x\n");
  EXPECT_THAT(Run({"upload", "docs", wide, "--ids", ids}),
              Fails(2, AllOf(HasSubstr("dim 3"), HasSubstr("dim 2"))));
  EXPECT_EQ(Run({"upload", "docs", folder_.path() + "/none.npy"}).exit_code, 2);
  EXPECT_EQ(Run({"search", "docs"}, "[1,").exit_code, 2);
  EXPECT_EQ(Run({"fetch", "docs"}).exit_code, 2);
  EXPECT_EQ(server_.calls("Upload"), uploads);
}

TEST_F(CliTest, TextThatIsNotUtf8IsWrongUsage) {
  Fill();
  const std::string file = folder_.Write("ids.txt", "a\nb\xff\n");
  for (const Arguments& arguments :
       std::vector<Arguments>{{"fetch", "docs", "a\xff"},
                              {"delete", "docs", "--ids", file},
                              {"search", "docs", "--id", "a\xff"},
                              {"count", "docs\xff"},
                              {"collections", "drop", "docs\xff", "--yes"},
                              {"collections", "create", "new", "--dim", "2", "--metric", "dot",
                               "--embedding-model", "m\xff"}}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments[0] << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("UTF-8")) << arguments[0];
  }
}

TEST_F(CliTest, IdsAndPayloadsStandBesideTheVectors) {
  const std::string vectors = folder_.Write(
      "v.npy", Npy(NpyHeaderText("<f2", "(2, 2)"), std::string("\0\x3c\0\0\0\0\0\x3c", 8)));
  const std::string payloads =
      folder_.Write("p.jsonl", "{\"id\":\"x\", \"n\": 1}\n{\"id\":\"y\", \"n\": 2}\n");
  EXPECT_THAT(Run({"upload", "v", vectors, "--create", "--metric", "cosine", "--payloads", payloads,
                   "--id-field", "id", "--json"}),
              Prints(HasSubstr("\"rows_count\":2")));
  const Outcome row = Run({"fetch", "v", "y", "--vectors", "--json"});
  EXPECT_THAT(row.out, HasSubstr("\"payload\":{\"id\":\"y\",\"n\":2},\"vector\":[0,1]"));
  EXPECT_THAT(Run({"collections", "list"}).out,
              AllOf(HasSubstr("float16"), HasSubstr("cosine"), HasSubstr("string")));
}

TEST_F(CliTest, ACollectionShowsWhatItScansAndWhereItsRowsLie) {
  EXPECT_THAT(Run({"collections", "create", "huge", "--dim", "2", "--metric", "dot", "--scan",
                   "int8", "--rows", "host"}),
              Prints(AllOf(HasSubstr("uint64  int8  host"), HasSubstr("ids     scan  rows in"))));
  ASSERT_EQ(Run({"collections", "create", "plain", "--dim", "2", "--metric", "dot"}).exit_code, 0);
  const std::string rows = folder_.Write("r.fbin", Fbin(1, 1, {1}));
  const Outcome uploaded =
      Run({"upload", "new", rows, "--create", "--metric", "dot", "--scan", "rows"});
  ASSERT_EQ(uploaded.exit_code, 0) << uploaded.err;
  const Outcome list = Run({"collections", "list", "--json"});
  EXPECT_THAT(list.out, AllOf(HasSubstr("\"scan\":\"int8\",\"rows\":\"host\""),
                              HasSubstr("\"scan\":\"auto\",\"rows\":\"device\""),
                              HasSubstr("\"scan\":\"rows\",\"rows\":\"device\"")));
}

TEST_F(CliTest, ExplainShowsThePathAndTheReadLimit) {
  Fill();
  server_.OnReply<v1::SearchResponse>("Search", [](auto* response) {
    v1::SearchCost* cost = response->mutable_cost();
    cost->set_scan_precision(v1::SCAN_PRECISION_INT8);
    cost->set_candidates(2);
    cost->set_bytes_read(96);
    cost->set_device_us(20);
    cost->set_read_ns_min(5000);
    cost->mutable_escalations()->set_tighter(1);
  });
  EXPECT_THAT(Run({"search", "docs", "--id", "a", "--explain"}),
              Prints(AllOf(HasSubstr("path cpu/int8; 2 candidates of 3 rows scanned, 96 B read"),
                           HasSubstr("escalations 1 tighter, 0 canonical"),
                           HasSubstr("device 20 us (25% of the read limit)"))));
  const Outcome json = Run({"search", "docs", "--id", "a", "--explain", "--json"});
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"scan_precision\":\"int8\",\"candidates\":2"),
                              HasSubstr("\"escalations\":{\"tighter\":1,\"canonical\":0}"),
                              HasSubstr("\"read_limit_share\":0.25")));
}

}  // namespace
}  // namespace nearfield::client

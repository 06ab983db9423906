// The command, run as a program against an in-process server.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/formats/json_text.h"
#include "client/formats/lines.h"
#include "tests/client/fake_server.h"
#include "tests/client/test_files.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class CliTest : public ::testing::Test {
 protected:
  // Runs `nearfield --address ADDRESS args...`.
  Outcome Run(std::vector<std::string> args, const std::string& input = "") {
    args.insert(args.begin(), {"--address", server_.address()});
    return RunPlain(args, input);
  }

  Outcome RunPlain(std::vector<std::string> args, const std::string& input = "") {
    args.insert(args.begin(), "nearfield");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const std::string in = folder_.Write("stdin", input);
    const std::string out = folder_.path() + "/stdout";
    const std::string err = folder_.path() + "/stderr";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, NEARFIELD_BINARY, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status));
    return {.exit_code = WEXITSTATUS(status), .out = ReadAll(out), .err = ReadAll(err)};
  }

  // Makes collection "docs" of three rows of dim 2 with string ids a, b, c and payloads.
  void Fill() {
    const std::string rows = folder_.Write(
        "docs.jsonl",
        "{\"id\":\"a\",\"vector\":[1,0],\"payload\":{\"name\":\"one\",\"year\":1999}}\n"
        "{\"id\":\"b\",\"vector\":[0,1],\"payload\":{\"name\":\"two\"}}\n"
        "{\"id\":\"c\",\"vector\":[1,1],\"payload\":\"plain \\u001b[31m text\"}\n");
    const Outcome uploaded = Run({"upload", "docs", rows, "--create", "--metric", "dot"});
    ASSERT_EQ(uploaded.exit_code, 0) << uploaded.err;
    EXPECT_THAT(uploaded.out, HasSubstr("uploaded 3 rows"));
    EXPECT_THAT(uploaded.err, HasSubstr("100%"));
    EXPECT_THAT(uploaded.err, Not(HasSubstr("\r")));  // no terminal, no redrawing
  }

  FakeServer server_;
  TempFolder folder_;
};

// Every line must be one JSON value.
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
  for (const std::string command : {"collections", "upload", "search", "fetch", "delete", "count",
                                    "verify", "health", "limits", "capacity"}) {
    EXPECT_THAT(help.out, HasSubstr("\n  " + command));
    const Outcome detail = RunPlain({command, "--help"});
    EXPECT_EQ(detail.exit_code, 0) << command;
    EXPECT_THAT(detail.out, HasSubstr("nearfield " + command)) << command;
  }
  EXPECT_THAT(RunPlain({"--version"}).out, StartsWith("nearfield "));
}

TEST_F(CliTest, WrongUsageExitsWithTwo) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {},
           {"serch"},
           {"search"},
           {"collections"},
           {"collections", "create", "x", "--dim", "3", "--metric", "manhattan"},
           {"search", "docs", "-k", "many"},
           {"--timeout", "0", "health"},
           {"upload", "docs", "x.npy", "--create"},
           {"upload", "docs", "x.npy", "--metric", "dot"},
           {"upload", "docs", "x.npy", "--id-field", "id"},
           {"search", "docs", "--row", "3"},
           {"collections", "drop", "docs"}}) {
    const Outcome outcome = Run(args);
    EXPECT_EQ(outcome.exit_code, 2) << ::testing::PrintToString(args);
    EXPECT_THAT(outcome.err, Not(IsEmpty())) << ::testing::PrintToString(args);
  }
}

TEST_F(CliTest, NoServerIsFourAndSaysWhatToDo) {
  const Outcome outcome = RunPlain({"--address", "unix:/nonexistent/socket", "count", "docs"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cannot reach unix:/nonexistent/socket"),
                                 HasSubstr("is nearfield-server running?")));
  EXPECT_EQ(RunPlain({"health", "--address", "unix:/nonexistent/socket"}).exit_code, 1);
}

TEST_F(CliTest, AnUploadIsSearchedFetchedCountedAndDeleted) {
  Fill();
  const Outcome found = Run({"search", "docs", "-k", "2", "--fields", "name,year"}, "[2, 1]");
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(found.out, AllOf(HasSubstr("query 0: 2 neighbors"), HasSubstr("1  c       3"),
                               HasSubstr("one   1999")));
  const Outcome fetched = Run({"fetch", "docs", "a", "c"});
  EXPECT_EQ(fetched.exit_code, 0);
  EXPECT_THAT(fetched.out, HasSubstr("plain ?[31m text"));  // no escape reaches the terminal
  EXPECT_EQ(Run({"count", "docs"}).out, "3\n");
  EXPECT_THAT(Run({"delete", "docs", "a", "zz"}).out, HasSubstr("deleted 1 of 2"));
  const Outcome missing = Run({"fetch", "docs", "a", "b"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.out, HasSubstr("two"));
  EXPECT_THAT(missing.err, HasSubstr("no row with id a"));
}

TEST_F(CliTest, JsonIsOneObjectALine) {
  Fill();
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"search", "docs", "--id", "a", "b", "--payload", "--vectors", "--explain"},
           {"search", "docs", "--id", "a", "--verify"},
           {"fetch", "docs", "a", "c", "--vectors"},
           {"count", "docs"},
           {"collections", "list"},
           {"collections", "show", "docs"},
           {"verify", "docs", "--sample", "3"},
           {"limits"},
           {"capacity"},
           {"health"},
           {"delete", "docs", "a"},
           {"collections", "drop", "docs", "--yes"}}) {
    std::vector<std::string> with_json = args;
    with_json.push_back("--json");
    const Outcome outcome = Run(with_json);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    ExpectJsonLines(outcome.out);
  }
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
  Fill();
  server_.script().limits.set_queries_max(3);
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
  const Outcome good = Run({"search", "docs", "--id", "a", "--verify"});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_THAT(good.out, HasSubstr("verified: ids and score bits"));
  EXPECT_THAT(Run({"verify", "docs", "--sample", "4"}).out, HasSubstr("verified: 4 of 4 answers"));
  server_.script().verify_lies = true;
  const Outcome bad = Run({"search", "docs", "--id", "a", "--verify"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("MISMATCH at place 1"), HasSubstr("made up")));
  const Outcome summary = Run({"verify", "docs", "--sample", "4"});
  EXPECT_EQ(summary.exit_code, 1);
  EXPECT_THAT(summary.out, HasSubstr("MISMATCH: 0 of 4"));
}

TEST_F(CliTest, AVerifyOvertakenByAWriteSearchesAgain) {
  Fill();
  server_.script().epoch_moves = 2;
  EXPECT_EQ(Run({"search", "docs", "--id", "a", "--verify"}).exit_code, 0);
  EXPECT_EQ(server_.calls("Search"), 3);
  server_.script().epoch_moves = 1000;
  EXPECT_EQ(Run({"search", "docs", "--id", "a", "--verify"}).exit_code, 3);
}

TEST_F(CliTest, ADrawFollowsItsSeed) {
  Fill();
  EXPECT_EQ(Run({"verify", "docs", "--seed", "5", "--sample", "2"}).out,
            Run({"verify", "docs", "--seed", "5", "--sample", "2"}).out);
  ASSERT_EQ(Run({"collections", "create", "empty", "--dim", "2", "--metric", "l2"}).exit_code, 0);
  const Outcome empty = Run({"verify", "empty"});
  EXPECT_EQ(empty.exit_code, 0);
  EXPECT_THAT(empty.out, HasSubstr("nothing to verify"));
}

TEST_F(CliTest, HealthIsAProbe) {
  EXPECT_EQ(Run({"health"}).exit_code, 0);
  EXPECT_EQ(Run({"health", "--service", "nobody"}).exit_code, 1);
  server_.SetServing(false);
  const Outcome outcome = Run({"health"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "NOT_SERVING\n");
}

TEST_F(CliTest, RefusalsShowTheStatusAndItsRequest) {
  EXPECT_EQ(Run({"collections", "show", "none"}).exit_code, 1);
  Fill();
  const Outcome outcome = Run({"search", "docs"}, "[1, 2, 3]");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("dimension 3"),
                                 HasSubstr("(request fake-")));
}

TEST_F(CliTest, BadInputIsNamedAndNothingIsSent) {
  Fill();
  const int uploads = server_.calls("Upload");
  const std::string bad = folder_.Write(
      "bad.jsonl", "{\"id\":\"d\",\"vector\":[1,2]}\n{\"id\":\"e\",\"vector\":[1]}\n");
  const Outcome line = Run({"upload", "docs", bad});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.err, AllOf(HasSubstr("bad.jsonl: line 2"), HasSubstr("1 values")));
  const std::string wide = folder_.Write("wide.fbin", Fbin(1, 3, {1, 2, 3}));
  const std::string ids = folder_.Write("ids.txt", "x\n");
  const Outcome dim = Run({"upload", "docs", wide, "--ids", ids});
  EXPECT_EQ(dim.exit_code, 2);
  EXPECT_THAT(dim.err, AllOf(HasSubstr("dim 3"), HasSubstr("dim 2")));
  EXPECT_EQ(Run({"upload", "docs", folder_.path() + "/none.npy"}).exit_code, 2);
  EXPECT_EQ(Run({"search", "docs"}, "[1,").exit_code, 2);
  EXPECT_EQ(Run({"fetch", "docs"}).exit_code, 2);
  EXPECT_EQ(server_.calls("Upload"), uploads);
}

TEST_F(CliTest, TextThatIsNotUtf8IsWrongUsage) {
  Fill();
  const std::string file = folder_.Write("ids.txt", "a\nb\xff\n");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"fetch", "docs", "a\xff"},
                                             {"delete", "docs", "--ids", file},
                                             {"search", "docs", "--id", "a\xff"},
                                             {"count", "docs\xff"},
                                             {"collections", "drop", "docs\xff", "--yes"}}) {
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
  const Outcome outcome = Run({"upload", "v", vectors, "--create", "--metric", "cosine",
                               "--payloads", payloads, "--id-field", "id", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"rows_count\":2"));
  const Outcome row = Run({"fetch", "v", "y", "--vectors", "--json"});
  EXPECT_THAT(row.out, HasSubstr("\"payload\":{\"id\":\"y\",\"n\":2},\"vector\":[0,1]"));
  EXPECT_THAT(Run({"collections", "list"}).out,
              AllOf(HasSubstr("float16"), HasSubstr("cosine"), HasSubstr("string")));
}

TEST_F(CliTest, AFailedUploadSaysWhatIsLeft) {
  server_.script().upload_rows_until_refusal = 0;
  server_.script().upload_refusal = {absl::InvalidArgumentError("row 0: not finite"), std::nullopt};
  const std::string rows = folder_.Write("r.fbin", Fbin(1, 1, {1}));
  const Outcome outcome = Run({"upload", "new", rows, "--create", "--metric", "dot"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("row 0: not finite"),
                                 HasSubstr("collection new was made, and is empty")));
  const Outcome unknown = Run({"upload", "none", rows});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("--create"));
}

}  // namespace
}  // namespace nearfield::client

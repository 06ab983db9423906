// Tests of mistakes on the command line: each is named with what is right.
#include <string>
#include <vector>

#include "tests/client/cli_fixture.h"

namespace nearfield::client {
namespace {

TEST_F(CliTest, WrongUsageExitsWithTwo) {
  for (const Arguments& args : std::vector<Arguments>{
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
           {"upload", "docs", "x.npy", "--scan", "int8"},
           {"upload", "docs", "x.npy", "--rows", "host"},
           {"collections", "create", "x", "--dim", "3", "--metric", "dot", "--scan", "int4"},
           {"collections", "create", "x", "--dim", "3", "--metric", "dot", "--rows", "disk"},
           {"search", "docs", "--row", "3"},
           {"alias"},
           {"alias", "set", "live"},
           {"snapshot", "create"},
           {"snapshot", "delete"},
           {"snapshot", "create", "monday", "--keep", "0"},
           {"snapshot", "create", "monday", "--keep-prefix", "m"},
           {"snapshot", "create", "monday", "--keep", "2", "--keep-prefix", "nightly-"},
           {"compact"},
           {"update"},
           {"update", "docs"},
           {"attribute", "add", "docs"},
           {"attribute", "drop", "docs", "year"},
           {"collections", "drop", "docs"}}) {
    EXPECT_THAT(Run(args), Fails(2, Not(IsEmpty()))) << ::testing::PrintToString(args);
  }
}

// Regression: the error was "A subcommand is required", or "Could not convert".
TEST_F(CliTest, WrongUsageIsNamedWithWhatIsRight) {
  struct Case {
    std::vector<std::string> args;
    std::string message;
  };
  for (const auto& [args, message] : std::vector<Case>{
           {{"bogus", "--json"},
            "bogus: no such command; the commands of nearfield: collections, "},
           {{"serach", "docs"}, "serach: no such command; did you mean search? The commands of "},
           {{"uploads", "lst"},
            "lst: no such command; did you mean list? The commands of nearfield uploads: list, "
            "show, drop\n"},
           {{"collections", "x"},
            "x: no such command; the commands of nearfield collections: list, "},
           {{"--bogus"}, "--bogus: no such option; see nearfield --help"},
           {{"--adress=x", "health"}, "--adress: no such option; did you mean --address?"},
           {{"upload", "docs", "--creat"}, "--creat: no such option; did you mean --create?"},
           {{"search", "docs", "--qeries", "q.npy"}, "did you mean --queries?"},
           {{"collections", "show", "a", "b"}, "b: an argument too many; see nearfield "},
           {{"collections"}, "A subcommand is required"},
           {{"search"}, "collection is required"},
           {{"--timeout", "nan", "health"}, "--timeout: nan, must be 0.001 .. 1e+06 seconds"},
           {{"--timeout", "inf", "health"}, "--timeout: inf, must be 0.001 .. 1e+06 seconds"},
           {{"--timeout", "5x", "health"}, "--timeout: 5x, must be 0.001 .. 1e+06 seconds"},
           {{"search", "c", "-k", "99999999999"}, "-k: 99999999999, must be a whole number, 1 .. "},
           {{"search", "c", "-k", "-1"}, "1 .. k_max of the server (nearfield limits)\n"},
           {{"search", "c", "-k", "1", "-k", "2"}, "-k: given 2 times, must be given once"},
           {{"search", "c", "--batch", "-1"}, "--batch: -1, must be a whole number, 0 .. "},
           {{"search", "c", "--results-max", "-1"}, "-1, must be a whole number, 0 .. "},
           {{"search", "c", "--row", "x"}, "--row: x, must be a whole number, 0 .. "},
           {{"search", "c", "--score-threshold", "high"},
            "--score-threshold: high, must be a number"},
           {{"search", "c", "hello"},
            "see nearfield search --help; to ask in words: nearfield text --collection c\n"},
           {{"count", "c", "--min-epoch", "-1"}, "--min-epoch: -1, must be a whole number, 0 .. "},
           {{"uploads", "list", "--max", "0"}, "--max: 0, must be a whole number, 1 .. 10000"},
           {{"upload", "c", "x.npy", "--block-bytes", "2GiB"},
            "--block-bytes: 2GiB, must be a whole number of bytes, 1024 .. 1073741824, "},
           {{"delete", "c"}, "name a file of them with --ids, or choose rows with --filter"},
           {{"--client-cert", "c", "health"}, ": --client-cert, --client-key: give both or none"},
           {{"--ca", "ca_file", "health"}, ": --ca: ca_file: cannot be read, or is empty"},
           {{"--token-file", "/none", "health"}, ": --token-file: /none: cannot be read"},
           {{"collections", "create", "x", "--dim", "4294967296", "--metric", "dot"},
            "--dim: 4294967296, must be a whole number, 1 .. 4294967295"}}) {
    EXPECT_THAT(Run(args), Fails(2, HasSubstr(message))) << message;
  }
  EXPECT_EQ(Run({"--timeout", "2.5", "health"}).exit_code, 0);
}

// Regression: the error printed the key.
TEST_F(CliTest, AKeyInPlaceOfItsFileIsNotPrinted) {
  const std::string key = "nf_0123456789abcdef_" + std::string(64, 'a');
  EXPECT_THAT(Run({"--token-file", key, "count", "docs"}),
              Fails(2, "nearfield: --token-file: this is a key, not the name of a file\n"));
}

// Regression: only the Python client knew the name that was meant.
TEST_F(CliTest, AMisspeltCollectionGetsASuggestionFromEveryCommand) {
  server_.KeepData();
  Fill();
  ASSERT_EQ(Run({"alias", "set", "letters", "docs"}).exit_code, 0);
  const std::string rows = folder_.Write("rows.jsonl", "{\"id\":\"d\",\"vector\":[1,0]}\n");
  for (const Arguments& args :
       std::vector<Arguments>{{"search", "dosc", "--id", "a"},
                              {"count", "dosc"},
                              {"fetch", "dosc", "a"},
                              {"delete", "dosc", "a"},
                              {"delete", "dosc", "--filter", "id == \"a\""},
                              {"upload", "dosc", rows},
                              {"uploads", "show", "dosc", "t"},
                              {"export", "dosc", folder_.path() + "/out.jsonl"},
                              {"verify", "dosc", "--sample", "1"},
                              {"compact", "dosc"},
                              {"alias", "set", "live", "dosc"},
                              {"collections", "show", "dosc"},
                              {"collections", "pin", "dosc"},
                              {"collections", "drop", "dosc", "--yes"}}) {
    EXPECT_THAT(Run(args), Fails(1, HasSubstr("no collection \"dosc\"; did you mean \"docs\"?")))
        << ::testing::PrintToString(args);
  }
  EXPECT_THAT(Run({"count", "leters"}), Fails(1, HasSubstr("did you mean \"letters\"?")));
  EXPECT_THAT(Run({"count", "other"}), Fails(1, Not(HasSubstr("did you mean"))));
  EXPECT_THAT(Run({"upload", "dosc", rows}).err,
              ::testing::ContainsRegex("did you mean.*\n.*make it with --create --metric METRIC"));
  server_.Refuse("ListCollections", {{absl::PermissionDeniedError("not yours"), std::nullopt}});
  EXPECT_THAT(Run({"count", "dosc"}), Fails(1, Not(HasSubstr("not yours"))));
}

}  // namespace
}  // namespace nearfield::client

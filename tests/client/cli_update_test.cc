// Tests of nearfield update and nearfield attribute.
#include <string>
#include <vector>

#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/cli_fixture.h"

namespace nearfield::client {
namespace {

class CliUpdateTest : public CliTest {
 protected:
  // Creates collection "books" of rows 1 to 5, whose year is 2001 to 2005.
  void FillBooks() {
    std::string rows;
    for (int id = 1; id <= 5; ++id) {
      rows += "{\"id\":" + std::to_string(id) + ",\"vector\":[1],\"year\":200" +
              std::to_string(id) + ",\"payload\":\"p\"}\n";
    }
    const Outcome uploaded = Run({"upload", "books", folder_.Write("books.jsonl", rows), "--create",
                                  "--metric", "dot", "--attribute", "year:int64", "--attribute",
                                  "tags:keyword[]", "--attribute", "language:keyword"});
    ASSERT_EQ(uploaded.exit_code, 0) << uploaded.err;
  }

  // Returns a row as JSON, without its id and epoch.
  std::string Row(const std::string& id) {
    const std::string row = Run({"fetch", "books", id, "--with-attributes", "*", "--json"}).out;
    return row.substr(std::min(row.find("\"payload\""), row.size()));
  }
  std::vector<v1::UpdateRequest> Sent() { return server_.requests<v1::UpdateRequest>("Update"); }
};

TEST_F(CliUpdateTest, ValuesAreSetAndUnsetByIdAndPayloadsStay) {
  FillBooks();
  EXPECT_THAT(Run({"update", "books", "1", "--set", "year=-7", "2", "--set",
                   "tags=[\"a\", \"b,=\"]", "--set", "language="}),
              Prints("updated 2 of 2 rows asked for; epoch 2\n"));
  for (const std::string id : {"1", "2"}) {
    EXPECT_EQ(Row(id),
              "\"payload\":\"p\",\"attributes\":{\"year\":-7,\"tags\":[\"a\",\"b,=\"],"
              "\"language\":\"\"}}\n");
  }
  EXPECT_FALSE(Sent().at(0).has_payloads());
  const Outcome missing =
      Run({"update", "books", "2", "9", "--unset", "year", "--unset", "tags", "--no-payload"});
  EXPECT_THAT(missing, FailsPrinting(1, "updated 1 of 2 rows asked for; epoch 3\n"));
  EXPECT_THAT(missing.err, HasSubstr("no row with id 9\n"));
  EXPECT_EQ(Row("2"),
            "\"payload\":\"\",\"attributes\":{\"year\":null,\"tags\":null,\"language\":\"\"}}\n");
  EXPECT_THAT(
      Run({"update", "books", "2", "9", "--payload", "{\"a\": 1}", "--json"}),
      FailsPrinting(1, "{\"rows_updated\":1,\"epoch\":4,\"missing\":[9],\"refused\":[]}\n"));
  EXPECT_THAT(Row("2"), StartsWith("\"payload\":{\"a\":1},"));
}

TEST_F(CliUpdateTest, RowsThatPassAFilterChangeInOneCall) {
  server_.Set("fetch_ids_max", "1");
  FillBooks();
  EXPECT_THAT(Run({"update", "books", "--filter", "year >= 2003", "--set", "language=de"}),
              Prints("updated 3 rows that pass; epoch 2\n"));
  EXPECT_THAT(Run({"count", "books", "--filter", "language == \"de\""}), Prints("3\n"));
  EXPECT_EQ(server_.calls("Update"), 1);
  EXPECT_THAT(Run({"update", "books", "--filter", "yeer == 1", "--set", "year=1"}),
              Fails(3, HasSubstr("filter_text: column 1: ")));
}

TEST_F(CliUpdateTest, IfNamesTheRowsThatItRefuses) {
  FillBooks();
  const Arguments update = {"update", "books",     "1",    "2",
                            "--set",  "year=2010", "--if", "year == 2002"};
  const Outcome refused = Run(update);
  EXPECT_THAT(refused, FailsPrinting(1, "updated 1 of 2 rows asked for; epoch 2\n"));
  EXPECT_THAT(refused.err, HasSubstr("the row with id 1 does not pass --if\n"));
  EXPECT_THAT(
      Run(Plus(update, {"--json"})),
      FailsPrinting(1, "{\"rows_updated\":0,\"epoch\":2,\"missing\":[],\"refused\":[1,2]}\n"));
  EXPECT_THAT(Run({"update", "books", "1", "--set", "year=1", "--if-epoch", "2"}),
              Prints(HasSubstr("epoch 3")));
  EXPECT_TRUE(Sent().back().has_incarnation());
  EXPECT_THAT(Run({"update", "books", "1", "--set", "year=1", "--if-epoch", "2"}),
              Fails(3, HasSubstr("FAILED_PRECONDITION")));
}

TEST_F(CliUpdateTest, AFileIsSentInCallsWithTokensOfTheirOwn) {
  server_.KeepData();
  server_.Set("fetch_ids_max", "2");
  FillBooks();
  const std::string lines =
      "{\"id\":1,\"year\":1}\n{\"id\":2,\"payload\":null}\n{\"id\":9,\"year\":3}\n"
      "{\"id\":4,\"language\":\"de\",\"year\":null}\n{\"id\":5,\"payload\":{\"a\":1}}\n";
  const Arguments update = {"update",  "books", "--file", folder_.Write("u.jsonl", lines),
                            "--token", "t"};
  const Outcome first = Run(update);
  EXPECT_THAT(first, FailsPrinting(1, "updated 4 of 5 rows asked for; epoch 4\n"));
  EXPECT_THAT(first.err, HasSubstr("no row with id 9\n"));
  std::vector<std::string> tokens;
  for (const v1::UpdateRequest& request : Sent()) tokens.push_back(request.update_token());
  EXPECT_THAT(tokens, ElementsAre("t/0-2", "t/2-4", "t/4-5"));
  EXPECT_THAT(Row("1"), StartsWith("\"payload\":\"p\",\"attributes\":{\"year\":1,"));
  EXPECT_THAT(Row("2"), StartsWith("\"payload\":\"\",\"attributes\":{\"year\":2002,"));
  EXPECT_THAT(Row("4"), AllOf(HasSubstr("\"year\":null"), HasSubstr("\"language\":\"de\"")));
  EXPECT_THAT(Row("5"), StartsWith("\"payload\":{\"a\":1}"));
  EXPECT_EQ(Run(update).out, first.out) << "a repeated command changes nothing";
  EXPECT_THAT(Run({"collections", "show", "books", "--json"}).out, HasSubstr("\"epoch\":4"));
  // One call has the token itself.
  EXPECT_THAT(Run({"update", "books", "--file", "-", "--token", "u"}, "{\"id\":1,\"year\":5}\n"),
              Prints("updated 1 of 1 rows asked for; epoch 5\n"));
  EXPECT_EQ(Sent().back().update_token(), "u");
  const int calls = server_.calls("Update");
  EXPECT_THAT(Run({"update", "books", "1", "2", "3", "--unset", "year", "--if-epoch", "5"}),
              Fails(2, HasSubstr("--if-epoch: 3 rows need several calls, each with an epoch of its "
                                 "own; one takes 2 of them")));
  EXPECT_EQ(server_.calls("Update"), calls);
}

TEST_F(CliUpdateTest, ACallThatFailsSaysWhatWasUpdatedBefore) {
  server_.Set("fetch_ids_max", "2");
  FillBooks();
  server_.OnReply<v1::UpdateResponse>("Update", [calls = 0](const auto*) mutable {
    return ++calls == 2 ? std::optional(Refusal{absl::UnavailableError("broken")}) : std::nullopt;
  });
  EXPECT_THAT(Run({"update", "books", "1", "9", "3", "--payload", "x"}),
              Fails(3, AllOf(HasSubstr("1 rows of the first 2 had been updated before this failed"),
                             HasSubstr("UNAVAILABLE: broken"))));
}

TEST_F(CliUpdateTest, MistakesAreNamedBeforeAnythingIsSent) {
  FillBooks();
  const std::string file = folder_.Write("u.jsonl", "{\"id\":1,\"year\":1}\n{\"id\":2,\"yeer\":1}");
  const std::string twice = folder_.Write("twice.jsonl",
                                          "{\"id\":1,\"year\":1}\n"
                                          "{\"id\":1,\"year\":2}\n");
  const std::string ways = "choose rows in one way: ids after the collection or in a file with";
  struct Case {
    Arguments args;
    std::string message;
  };
  for (const auto& [args, message] : std::vector<Case>{
           {{"--set", "year=1"}, ways},
           {{"1", "--filter", "year == 1", "--set", "year=1"}, ways},
           {{"1", "--file", file}, ways},
           {{"1"}, "nothing to change: give --set, --unset, --payload or --no-payload"},
           {{"--file", file, "--unset", "year"}, "the lines of --file say what changes"},
           {{"--filter", "year == 1", "--if", "year == 2", "--unset", "year"},
            "--if is for ids: add its condition to --filter, with and"},
           {{"1", "--set", "year"}, "--set: year, must be NAME=VALUE"},
           {{"1", "--set", "yeer=1"},
            "--set: books declares no attribute \"yeer\"; it declares year:int64, tags:keyword[], "
            "language:keyword\n"},
           {{"1", "--unset", "yeer"}, "--unset: books declares no attribute \"yeer\""},
           {{"1", "--set", "year=1", "--unset", "year"}, "--unset: the attribute year twice"},
           {{"1", "--set", "year=many"}, "year: \"many\" is not a whole number"},
           {{"1", "--set", "tags=a"}, "tags: column 1"},
           {{"1", "--set", "tags=[1]"}, "tags: 1 is not a string, as a keyword must be"},
           {{"one", "--set", "year=1"}, "id \"one\" is not a whole number"},
           {{"1", "--payload", ""}, "empty; to remove the payload: --no-payload"},
           {{"1", "--payload", "x", "--no-payload"}, "--payload excludes --no-payload"},
           {{"1", "--unset", "year", "--if-epoch", "-1"}, "--if-epoch: -1, must be a whole number"},
           {{"1", "--unset", "year", "--token", ""}, "--token: 1 to 256 bytes"},
           {{"1", "--unset", "year", "--if", ""}, "--if: an empty filter"},
           {{"--file", file}, "u.jsonl: line 2: unknown member \"yeer\""},
           {{"--file", twice}, "twice.jsonl: ids: 1 occurs twice"},
           {{"--file", "/nonexistent"}, "/nonexistent"}}) {
    EXPECT_THAT(Run(Plus({"update", "books"}, args)), Fails(2, HasSubstr(message)));
  }
  EXPECT_THAT(Run({"update", "boks", "1", "--unset", "year"}),
              Fails(1, HasSubstr("did you mean \"books\"?")));
  EXPECT_EQ(server_.calls("Update"), 0);
}

TEST_F(CliUpdateTest, AttributesAreAddedAndDropped) {
  FillBooks();
  EXPECT_THAT(Run({"attribute", "add", "books", "until:timestamp:expires"}),
              Prints("added to books: until:timestamp:expires; epoch 2\n"));
  EXPECT_THAT(Run({"collections", "show", "books"}).out,
              HasSubstr("language:keyword, until:timestamp:expires"));
  EXPECT_THAT(Run({"collections", "show", "books", "--json"}).out,
              HasSubstr("{\"name\":\"until\",\"type\":\"timestamp\",\"is_list\":false,"
                        "\"expires\":true}]"));
  EXPECT_THAT(Run({"update", "books", "1", "--set", "until=2999-01-31T12:00:00Z"}),
              Prints(HasSubstr("updated 1 of 1")));
  EXPECT_THAT(Run({"attribute", "drop", "books", "until"}),
              Fails(2, HasSubstr("drop deletes every value of until in books: say --yes")));
  EXPECT_THAT(Run({"attribute", "drop", "books", "until", "--yes", "--json"}),
              Prints(StartsWith("{\"collection\":\"books\",\"attribute\":\"until\",\"epoch\":4,"
                                "\"incarnation\":")));
  EXPECT_EQ(Run({"attribute", "drop", "books", "until", "--yes"}).exit_code, 1);
  EXPECT_THAT(Run({"attribute", "add", "books", "until"}), Fails(2, HasSubstr("write NAME:TYPE")));
  EXPECT_THAT(Run({"attribute", "add", "books", "a:keyword:expires"}),
              Fails(3, HasSubstr("expires")));
  EXPECT_THAT(Run({"attribute", "add", "boks", "a:bool"}),
              Fails(1, HasSubstr("did you mean \"books\"?")));
}

}  // namespace
}  // namespace nearfield::client

// Tests of filters, attributes, pages, modes and tokens on the command line.
#include <fstream>
#include <iterator>
#include <string>

#include "nearfield/client/client.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/upload_script.h"

namespace nearfield::client {
namespace {

class CliOptionsTest : public CliTest {
 protected:
  // Creates collection "books" of three rows with attributes.
  void FillBooks() {
    const std::string rows = folder_.Write(
        "books.jsonl",
        "{\"id\":1,\"vector\":[1,0],\"year\":1999,\"tags\":[\"a\"],\"payload\":{\"name\":\"one\"}}"
        "\n"
        "{\"id\":2,\"vector\":[0,1],\"year\":2020,\"made\":\"2024-05-17T09:30:00Z\"}\n"
        "{\"id\":3,\"vector\":[1,1],\"tags\":[]}\n");
    const Outcome uploaded = Run({"upload", "books", rows, "--create", "--metric", "dot",
                                  "--attribute", "year:int64", "--attribute", "tags:keyword[]",
                                  "--attribute", "made:timestamp", "--attribute", "good:bool"});
    ASSERT_EQ(uploaded.exit_code, 0) << uploaded.err;
    EXPECT_THAT(uploaded.err, HasSubstr("no row has a value of the attribute good"));
    EXPECT_THAT(uploaded.err, Not(HasSubstr("attribute year")));
  }

  // Writes a file of `count` rows. Returns the command that uploads it with the token "t".
  Arguments UploadOfRows(int count) {
    std::string rows;
    for (int i = 0; i < count; ++i) rows += "{\"id\":" + std::to_string(i) + ",\"vector\":[1]}\n";
    const std::string file = folder_.Write("rows-" + std::to_string(count) + ".jsonl", rows);
    return {"upload",        "c",    file,      "--create", "--metric", "dot",
            "--block-bytes", "1024", "--token", "t"};
  }

  // Returns the cursor after the first page of two rows.
  std::string SecondPage() {
    const Outcome first = Run({"search", "books", "-k", "2", "--with-cursor"}, "[1, 1]");
    const std::string before = "next page: --cursor ";
    const size_t begin = first.out.find(before);
    EXPECT_NE(begin, std::string::npos) << first.out;
    return begin == std::string::npos
               ? ""
               : first.out.substr(begin + before.size(),
                                  first.out.find('\n', begin) - begin - before.size());
  }
};

TEST_F(CliOptionsTest, AttributesAreDeclaredAndShown) {
  // Regression: a name after --attribute was read as a second attribute.
  EXPECT_THAT(Run({"collections", "create", "--dim", "2", "--metric", "dot", "--attribute",
                   "year:int64", "--attribute", "tags:keyword[]", "c"}),
              Prints(HasSubstr("year:int64, tags:keyword[]")));
  EXPECT_THAT(Run({"collections", "show", "c", "--json"}).out,
              HasSubstr("\"attributes\":[{\"name\":\"year\",\"type\":\"int64\",\"is_list\":false,"
                        "\"expires\":false},{\"name\":\"tags\",\"type\":\"keyword\","
                        "\"is_list\":true,\"expires\":false}]"));
  EXPECT_THAT(Run({"collections", "create", "d", "--dim", "2", "--metric", "dot", "--attribute",
                   "year:integer"}),
              Fails(2, HasSubstr("write NAME:TYPE")));
}

TEST_F(CliOptionsTest, AttributesOfJsonlRowsAreSent) {
  FillBooks();
  const v1::UploadBlock block = BlocksOf(server_).at(0);
  ASSERT_EQ(block.attributes_size(), 3);
  EXPECT_EQ(block.attributes(0).attribute(), "year");
  EXPECT_EQ(block.attributes(0).presence(), "\x03");
  EXPECT_EQ(block.attributes(1).list_sizes_size(), 2);
  EXPECT_EQ(block.attributes(2).values().timestamp_us_values(0), 1715938200000000);
}

TEST_F(CliOptionsTest, AttributesStandBesideBinaryFiles) {
  const std::string vectors = folder_.Write("v.fbin", Fbin(2, 1, {1, 2}));
  const std::string payloads = folder_.Write("p.jsonl", "{\"year\":7,\"t\":1}\n{\"year\":8}\n");
  const std::string csv = folder_.Write("a.csv", "title,year\nx,5\ny,\n");
  const Outcome made = Run({"upload", "c", vectors, "--create", "--metric", "dot", "--attribute",
                            "year:int64", "--payloads", payloads, "--attributes", payloads});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(BlocksOf(server_).back().attributes(0).values().int64_values(1), 8);
  EXPECT_EQ(BlocksOf(server_).back().payloads(0), "{\"year\":7,\"t\":1}");
  EXPECT_EQ(Run({"upload", "c", vectors, "--mode", "upsert", "--attributes", csv}).exit_code, 0);
  EXPECT_EQ(BlocksOf(server_).back().attributes(0).presence(), "\x01");
  EXPECT_EQ(LastBegin(server_).mode(), v1::UPLOAD_MODE_UPSERT);
  const std::string bad = folder_.Write("bad.csv", "year\n5\nfive\n");
  EXPECT_THAT(Run({"upload", "c", vectors, "--attributes", bad}),
              Fails(2, HasSubstr("bad.csv: line 3: year: \"five\" is not a whole number")));
  ASSERT_EQ(Run({"collections", "create", "d", "--dim", "1", "--metric", "dot"}).exit_code, 0);
  EXPECT_THAT(Run({"upload", "d", vectors, "--attributes", csv}),
              Fails(2, HasSubstr("d declares none")));
}

TEST_F(CliOptionsTest, AttributesAreShown) {
  FillBooks();
  EXPECT_THAT(Run({"fetch", "books", "1", "2", "--no-payload", "--with-attributes",
                   "made,year,tags", "--json"})
                  .out,
              AllOf(HasSubstr("\"attributes\":{\"year\":1999,\"tags\":[\"a\"],\"made\":null}}"),
                    HasSubstr("\"attributes\":{\"year\":2020,\"tags\":null,"
                              "\"made\":\"2024-05-17T09:30:00Z\"}}")));
  EXPECT_THAT(server_.last<v1::FetchRequest>("Fetch").attributes(),
              ElementsAre("made", "year", "tags"));
  EXPECT_THAT(Run({"fetch", "books", "3", "--no-payload", "--with-attributes", "*"}).out,
              AllOf(HasSubstr("id  year  tags  made  good\n"), HasSubstr("3         []")));
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--all", "--with-attributes", "year", "--json"}),
              Prints(HasSubstr("\"attributes\":{\"year\":2020}")));
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--with-attributes", "year,*"}),
              Fails(3, HasSubstr("attributes[1]")));
}

TEST_F(CliOptionsTest, AFilterReachesEachCommandThatTakesOne) {
  FillBooks();
  const std::string filter = "year >= 2000 and not tags any ('x') or id in (7)";
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--filter", filter}),
              Prints(HasSubstr("1 neighbors of 1 rows that pass")));
  EXPECT_EQ(server_.last<v1::SearchRequest>("Search").filter_text(), filter);
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--filter", filter, "--json"}).out,
              HasSubstr("\"matched_rows\":1"));
  EXPECT_EQ(Run({"search", "books", "--id", "1", "--filter", filter, "--all"}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::SearchAllRequest>("SearchAll").search().filter_text(), filter);
  EXPECT_EQ(Run({"count", "books", "--filter", filter, "--min-epoch", "1"}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::CountRequest>("Count").filter_text(), filter);
  EXPECT_EQ(server_.last<v1::CountRequest>("Count").min_epoch(), 1u);
  EXPECT_EQ(Run({"verify", "books", "--sample", "1", "--filter", filter}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::VerifyRequest>("Verify").filter_text(), filter);
  EXPECT_THAT(Run({"delete", "books", "--filter", filter}),
              Prints(HasSubstr("rows that pass; epoch")));
  EXPECT_EQ(server_.last<v1::DeleteRequest>("Delete").filter_text(), filter);
}

TEST_F(CliOptionsTest, TheServerRefusesABadFilterWithTheColumn) {
  FillBooks();
  for (const Arguments& command : std::vector<Arguments>{{"search", "books", "--id", "1"},
                                                         {"search", "books", "--id", "1", "--all"},
                                                         {"count", "books"},
                                                         {"delete", "books"},
                                                         {"verify", "books"}}) {
    const Outcome outcome = Run(Plus(command, {"--filter", "year >= 2000 and yeer == 1"}));
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_THAT(outcome.err, HasSubstr("filter_text: column 18: the collection declares no "
                                       "attribute \"yeer\"; it declares year:int64, "
                                       "tags:keyword[]"));
    EXPECT_THAT(outcome.out, IsEmpty());
    // An empty filter is an error; it does not select all rows.
    EXPECT_EQ(Run(Plus(command, {"--filter", ""})).exit_code, 2);
  }
  EXPECT_THAT(Run({"count", "books"}), Prints(HasSubstr("3\n")));
  EXPECT_EQ(Run({"delete", "books", "1", "--filter", "year == 1"}).exit_code, 2);
  EXPECT_EQ(Run({"count", "gone", "--filter", "year == 1"}).exit_code, 1);
}

TEST_F(CliOptionsTest, ALogWithABadFilterIsRefusedWithItsLine) {
  FillBooks();
  const std::string log = folder_.path() + "/replies.jsonl";
  const Arguments search = {"search", "books", "--id", "1", "--record", log};
  ASSERT_EQ(Run(search).exit_code, 0);
  ASSERT_EQ(Run(Plus(search, {"--filter", "year in (2020) or made < \"2000-01-01\""})).exit_code,
            0);
  EXPECT_THAT(Run({"verify", "--replies", log}), Prints(HasSubstr("verified: 2 of 2 answers")));
  std::ifstream file(log);
  std::string lines((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  lines.replace(lines.find("year in"), 4, "yeer");
  EXPECT_THAT(Run({"verify", "--replies", folder_.Write("bad.jsonl", lines)}),
              Fails(3, HasSubstr("bad.jsonl: line 2: filter_text: column 1: ")));
}

TEST_F(CliOptionsTest, ASearchSaysWhatItWantsBesides) {
  FillBooks();
  EXPECT_EQ(Run({"search", "books", "--id", "1", "--score-threshold", "-0.25", "--min-epoch", "1",
                 "--priority", "batch", "--caller", "crawler"})
                .exit_code,
            0);
  const auto request = server_.last<v1::SearchRequest>("Search");
  EXPECT_EQ(request.score_threshold(), -0.25f);
  EXPECT_EQ(request.min_epoch(), 1u);
  EXPECT_EQ(request.priority(), v1::SEARCH_PRIORITY_BATCH);
  EXPECT_EQ(server_.caller("Search"), "crawler");
  EXPECT_EQ(Run({"search", "books", "--id", "1", "--priority", "urgent"}).exit_code, 2);
  EXPECT_EQ(Run({"count", "books", "--caller", "a\nb"}).exit_code, 2);
  EXPECT_EQ(Run({"fetch", "books", "1", "--min-epoch", "1"}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::FetchRequest>("Fetch").min_epoch(), 1u);
  EXPECT_THAT(Run({"collections", "pin", "books"}), Prints(HasSubstr("epoch 1 of books")));
  EXPECT_EQ(Run({"search", "books", "--id", "1", "--at-epoch", "1"}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::SearchRequest>("Search").at_epoch(), 1u);
  EXPECT_EQ(Run({"fetch", "books", "1", "--at-epoch", "1"}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::FetchRequest>("Fetch").at_epoch(), 1u);
  EXPECT_EQ(Run({"count", "books", "--at-epoch", "1"}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::CountRequest>("Count").at_epoch(), 1u);
  EXPECT_EQ(Run({"verify", "books", "--sample", "1", "--score-threshold", "0.5"}).exit_code, 0);
  EXPECT_EQ(server_.last<v1::VerifyRequest>("Verify").score_threshold(), 0.5f);
}

TEST_F(CliOptionsTest, PagesGoOnWithTheirCursor) {
  FillBooks();
  const std::string cursor = SecondPage();
  const Outcome second = Run({"search", "books", "-k", "2", "--cursor", cursor}, "[1, 1]");
  EXPECT_THAT(second.out, AllOf(HasSubstr("query 0: 1 neighbors"), HasSubstr("no row follows\n")));
  EXPECT_THAT(Run({"search", "books", "-k", "2", "--with-cursor", "--json"}, "[1, 1]").out,
              HasSubstr("\"next_cursor\":\"" + cursor + "\""));
  for (const Arguments& more : std::vector<Arguments>{{"--cursor", "*"},
                                                      {"--cursor", "Mg==", "--verify"},
                                                      {"--results-max", "3"},
                                                      {"--all", "--verify"},
                                                      {"--all", "--with-cursor"},
                                                      {"--all", "--batch", "2"}}) {
    EXPECT_EQ(Run(Plus({"search", "books"}, more), "[1, 1]").exit_code, 2)
        << ::testing::PrintToString(more);
  }
  EXPECT_EQ(Run({"search", "books", "--cursor", "Mg=="}, "[[1, 1], [1, 0]]").exit_code, 2);
  // Regression: an empty cursor returned the first page, so a loop that passed an empty next_cursor
  // never ended.
  for (const Arguments& empty :
       std::vector<Arguments>{{"--cursor", ""}, {"--cursor="}, {"--all", "--cursor", ""}}) {
    const Outcome refused = Run(Plus({"search", "books"}, empty), "[1, 1]");
    EXPECT_EQ(refused.exit_code, 2) << ::testing::PrintToString(empty);
    EXPECT_THAT(refused.err, HasSubstr("--cursor: "));
    EXPECT_THAT(refused.out, IsEmpty());
  }
}

TEST_F(CliOptionsTest, ARecordedAnswerIsCheckedWithItsFilterAndThreshold) {
  FillBooks();
  const std::string log = folder_.path() + "/replies.jsonl";
  ASSERT_EQ(Run({"search", "books", "--id", "1", "--filter", "year >= 2000 or not exists(year)",
                 "--score-threshold", "0.5", "--record", log})
                .exit_code,
            0);
  const Outcome checked = Run({"verify", "--replies", log});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  const auto request = server_.last<v1::VerifyRequest>("Verify");
  EXPECT_EQ(request.filter_text(), "year >= 2000 or not exists(year)");
  EXPECT_EQ(request.score_threshold(), 0.5f);
  for (const Arguments& page : std::vector<Arguments>{{"--all"}, {"--cursor", "Mg=="}}) {
    const Arguments command = {"search", "books", "--id", "1", "--record", log};
    EXPECT_EQ(Run(Plus(command, page)).exit_code, 2);  // a page is not a whole answer
  }
}

TEST_F(CliOptionsTest, AllPagesAreOneTableAfterTheOther) {
  server_.Set("k_max", "2");
  FillBooks();
  EXPECT_THAT(
      Run({"search", "books", "--all"}, "[1, 1]"),
      Prints(AllOf(HasSubstr("query 0: 2 neighbors"), HasSubstr("\n1  3       2\n"),
                   HasSubstr("query 0, page 2: 1 neighbors"), HasSubstr("\n3  2       1\n"))));
  EXPECT_FALSE(server_.last<v1::SearchAllRequest>("SearchAll").search().has_k());
  const Outcome some =
      Run({"search", "books", "--all", "-k", "1", "--results-max", "2", "--json"}, "[1, 1]");
  EXPECT_THAT(some.out,
              AllOf(HasSubstr("\"neighbors\":[{\"id\":3,"), HasSubstr("\"first_place\":1")));
  EXPECT_THAT(some.err, HasSubstr("rows follow: --cursor "));
  const auto request = server_.last<v1::SearchAllRequest>("SearchAll");
  EXPECT_EQ(request.search().k(), 1u);
  EXPECT_EQ(request.results_max(), 2u);
  // Printed pages stay valid; the error says how to continue.
  const std::string cursor = SecondPage();
  server_.OnReply<v1::SearchResponse>("SearchAll", [pages = 0](const auto*) mutable {
    return Refusal{absl::UnavailableError("broken"), std::nullopt, /*after_reply=*/++pages == 1};
  });
  EXPECT_THAT(Run({"search", "books", "--all"}, "[1, 1]"),
              Fails(3, HasSubstr("to continue after the rows above: --cursor " + cursor)));
}

TEST_F(CliOptionsTest, AnUploadWithATokenGoesOnByItselfAndWhenRepeated) {
  server_.KeepData();
  const Arguments command = UploadOfRows(200);
  EndUploadsAfter(server_, {50});
  const Outcome by_itself = Run(command);
  EXPECT_EQ(by_itself.exit_code, 0) << by_itself.err;
  EXPECT_THAT(by_itself.err, HasSubstr("rows from an earlier try: they are skipped"));
  EXPECT_THAT(by_itself.out, HasSubstr("uploaded 200 rows"));
  EXPECT_EQ(Run({"count", "c"}).out, "200\n");
  EXPECT_EQ(Run({"uploads", "show", "c", "t"}).out, "committed: 200 rows, visible from epoch 1\n");
  const size_t blocks = BlocksOf(server_).size();
  EXPECT_THAT(Run(command),
              Prints(HasSubstr("uploaded before: 200 rows to c; visible from epoch 1")));
  EXPECT_EQ(BlocksOf(server_).size(), blocks);
  // Regression: another file with the same token was reported as uploaded.
  const Outcome refused = Run(UploadOfRows(201));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("FAILED_PRECONDITION: token: its upload had 200 rows, the "
                                     "file has 201; another upload needs another token"));
  EXPECT_THAT(refused.out, IsEmpty());
  EXPECT_EQ(server_.calls("Upload"), 4);
  EXPECT_THAT(Run(Plus(command, {"--json"})).out,
              AllOf(HasSubstr("\"was_committed\":true"), HasSubstr("\"epoch\":1")));
}

// Regression: the tokens that held an upload slot and disk space were not listed anywhere.
TEST_F(CliOptionsTest, OpenUploadsAreListed) {
  server_.KeepData();
  EXPECT_EQ(Run({"uploads", "list", "--json"}).out, "");
  Client client = *Client::Connect({.address = server_.address(), .retry = {.tries_max = 1}});
  ASSERT_OK(client.CreateCollection({.name = "docs", .dim = 1}));
  const auto begin = [&](const std::string& token) {
    return client.BeginUpload(
        {.collection = "docs", .rows_max = 1234, .mode = UploadMode::kUpsert, .token = token});
  };
  EndUploadsAfter(server_, {0});
  EXPECT_FALSE(begin(std::string("\0\x1b[2J", 5)).ok());
  EndUploadsAfter(server_, {1234});
  ASSERT_OK_AND_ASSIGN(auto broken, begin("live"));
  const IdColumn ids = Numbers(0, 1234);
  EXPECT_OK(broken.Write({.ids = &ids, .vectors = std::string(1234 * sizeof(float), '\0')}));
  EXPECT_FALSE(broken.Commit().ok());
  ASSERT_OK_AND_ASSIGN(const auto live, begin("live"));
  server_.OnReply<v1::ListUploadsResponse>("ListUploads", [](auto* reply) {
    for (v1::OpenUpload& open : *reply->mutable_uploads()) {
      open.set_bytes_on_disk(12345678);
      open.set_untouched_s(3661);
    }
  });
  const Outcome listed = Run({"uploads", "list"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("0x001b5b324a  docs        upsert      0  12.3 MB"),
                                HasSubstr("live          docs        upsert  1,234  12.3 MB")));
  EXPECT_THAT(listed.out, AllOf(HasSubstr("1:01:01  live\n"), HasSubstr("1:01:01  none\n")));
  EXPECT_EQ(listed.err, "");
  const Outcome cut = Run({"uploads", "list", "--json", "--max", "1"});
  EXPECT_EQ(cut.out,
            "{\"token\":\"0x001b5b324a\",\"collection\":\"docs\",\"mode\":\"upsert\","
            "\"rows_count\":0,\"bytes_on_disk\":12345678,\"untouched_s\":3661,"
            "\"is_live\":false}\n");
  EXPECT_THAT(cut.err, HasSubstr("the first 1 of 2 open uploads"));
  EXPECT_EQ(Run({"uploads", "list", "--max", "0"}).exit_code, 2);
}

TEST_F(CliOptionsTest, AnUploadThatFailedIsRepeatedByTheSameCommand) {
  server_.KeepData();
  const Arguments command = UploadOfRows(200);
  EndUploadsAfter(server_, {100}, absl::ResourceExhaustedError("the disk is full"));
  EXPECT_THAT(Run(command), Fails(3, AllOf(HasSubstr("the disk is full"),
                                           HasSubstr("repeat the same command to go on"))));
  EXPECT_THAT(Run({"uploads", "show", "c", "t"}).out, HasSubstr("open: "));
  EXPECT_THAT(Run({"uploads", "show", "c", "t", "--json"}).out, HasSubstr("\"committed\":false"));
  const Outcome repeated = Run(command);
  EXPECT_EQ(repeated.exit_code, 0) << repeated.err;
  EXPECT_THAT(repeated.err, HasSubstr("of 200 rows from an earlier try"));
  EXPECT_EQ(Run({"count", "c"}).out, "200\n");
  EXPECT_EQ(Run({"uploads", "show", "c", "other"}).exit_code, 1);
  // A token of another collection does not excuse another shape.
  const std::string wide = folder_.Write("wide.jsonl", "{\"id\":1,\"vector\":[1,2]}\n");
  EXPECT_NE(Run({"upload", "c", wide, "--create", "--metric", "dot", "--token", "u"}).exit_code, 0);
  EXPECT_EQ(Run({"upload", "c", wide, "--token", ""}).exit_code, 2);
  EXPECT_EQ(Run({"upload", "c", wide, "--mode", "merge"}).exit_code, 2);
  EXPECT_EQ(Run({"upload", "c", wide, "--attribute", "a:int64"}).exit_code, 2);
}

// Regression: every error of an upload with a token gave this advice.
TEST_F(CliOptionsTest, ToRepeatIsAdvisedOnlyWhereItMayHelp) {
  const std::string file = folder_.Write("rows.jsonl", "{\"id\":1,\"vector\":[1]}\n");
  ASSERT_EQ(Run({"collections", "create", "c", "--dim", "1", "--metric", "dot"}).exit_code, 0);
  const Arguments command = {"upload", "c", file, "--token", "t"};
  for (const absl::Status& useless :
       {absl::FailedPreconditionError("upload_token: of another mode"),
        absl::InvalidArgumentError("rows_max: 1"), absl::ResourceExhaustedError("rows_max: 1"),
        absl::AbortedError("dropped"), absl::DataLossError("damaged"), absl::InternalError("")}) {
    server_.Refuse("Upload", {{useless, std::nullopt}});
    EXPECT_THAT(Run(command), Fails(3, Not(HasSubstr("repeat the same command")))) << useless;
  }
  for (const absl::Status& passing :
       {absl::UnavailableError("draining"), absl::DeadlineExceededError("idle"),
        absl::CancelledError("")}) {
    server_.Refuse("Upload", std::vector<Refusal>(4, {passing, std::nullopt}));
    EXPECT_THAT(Run(command), Fails(3, HasSubstr("repeat the same command to go on"))) << passing;
    server_.Refuse("Upload", {});
  }
}

TEST_F(CliOptionsTest, AReplacementSaysWhatItReplaced) {
  FillBooks();
  const std::string rows = folder_.Write("r.jsonl", "{\"id\":9,\"vector\":[1,0]}\n");
  const Outcome replaced = Run({"upload", "books", rows, "--mode", "replace"});
  EXPECT_THAT(replaced.out, HasSubstr(", in the place of 3 rows; visible from epoch 2"));
  EXPECT_THAT(Run({"upload", "books", rows, "--mode", "replace", "--json"}).out,
              HasSubstr("\"rows_replaced\":1"));
}

}  // namespace
}  // namespace nearfield::client

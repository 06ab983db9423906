// Tests of the command's output.

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "client/cli/json_output.h"
#include "client/cli/payload_columns.h"
#include "client/cli/progress.h"
#include "client/cli/search_output.h"
#include "client/cli/text_output.h"
#include "client/formats/json_text.h"
#include "tests/client/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

TEST(JsonOutput, EveryScoreComesBackToTheBit) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  for (int i = 0; i < 20000; ++i) {
    const auto score = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(score)) continue;
    ASSERT_OK_AND_ASSIGN(const auto back, JsonFloats("[" + JsonNumber(score) + "]"));
    ASSERT_EQ(std::bit_cast<uint32_t>(back[0]), std::bit_cast<uint32_t>(score));
  }
}

TEST(JsonOutput, InfinitiesAreStrings) {
  EXPECT_EQ(JsonNumber(INFINITY), "\"inf\"");
  EXPECT_EQ(JsonNumber(-INFINITY), "\"-inf\"");
  EXPECT_EQ(ScoreText(-INFINITY), "-inf");
}

TEST(JsonOutput, PayloadsAreJsonTextOrBase64) {
  const auto json_of = [](std::string_view payload) {
    return JsonObject().AddPayload(payload).ToString();
  };
  EXPECT_EQ(json_of("{ \"b\": 1.0, \"a\":2}"), "{\"payload\":{\"b\":1.0,\"a\":2}}");
  EXPECT_EQ(json_of("[1]"), "{\"payload\":[1]}");
  EXPECT_EQ(json_of("{broken"), "{\"payload\":\"{broken\"}");
  EXPECT_EQ(json_of("12"),
            "{\"payload\":\"12\"}");  // a text of digits stays a text
  EXPECT_EQ(json_of(""), "{\"payload\":\"\"}");
  EXPECT_EQ(json_of("\xff\xfe"), "{\"payload_base64\":\"//4=\"}");
}

Neighbors TwoNeighbors() {
  Neighbors neighbors;
  neighbors.ids = std::vector<std::string>{"a\"b", "c"};
  neighbors.scores = {0.5f, -INFINITY};
  neighbors.payloads = {"{\"name\":\"one\",\"year\":1999}", "raw \x1b[31m bytes"};
  neighbors.vectors = {.dtype = DataType::kFloat16, .bytes = std::string("\x00\x3c\x00\xc0", 4)};
  return neighbors;
}

TEST(SearchOutput, AJsonLineIsOneJsonValue) {
  QueryAnswer answer{.epoch = 7, .neighbors = TwoNeighbors()};
  SearchCost cost{
      .batch_size = 1, .backend = Backend::kGpu, .scan_precision = ScanPrecision::kRows};
  VerifyAnswer check{.equal = false, .first_difference = 1, .explanation = "say \"why\""};
  const std::string line = FormatReport(
      {.query_number = 3, .label = "query 3", .answer = &answer, .cost = &cost, .check = &check},
      {.json = true, .explain = true});
  EXPECT_OK(CheckJson(line)) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line,
              HasSubstr("{\"query\":3,\"epoch\":7,\"neighbors\":[{\"id\":\"a\\\"b\",\"score\":0.5,"
                        "\"payload\":{\"name\":\"one\",\"year\":1999},\"vector\":[1]}"));
  EXPECT_THAT(line, HasSubstr("\"score\":\"-inf\""));
  EXPECT_THAT(line, HasSubstr("\"backend\":\"gpu\",\"scan_precision\":\"rows\""));
  EXPECT_THAT(line, HasSubstr("\"read_ns_min\":0,\"read_limit_share\":null"));
  EXPECT_THAT(line, HasSubstr("\"verified\":false"));
}

TEST(SearchOutput, AttributesAreShown) {
  QueryAnswer answer{.epoch = 7, .neighbors = TwoNeighbors()};
  answer.neighbors.attributes = {
      {.attribute = "year", .values = std::vector<int64_t>{1999}, .presence = {false, true}},
      {.attribute = "tags",
       .values = std::vector<std::string>{"b", "a\x1b"},
       .presence = {},
       .list_sizes = {2, 0}}};
  const SearchCost cost;
  const SearchReport report = {.label = "query 0", .answer = &answer, .cost = &cost};
  EXPECT_THAT(FormatReport(report, {.json = true}),
              AllOf(HasSubstr("\"attributes\":{\"year\":null,\"tags\":[\"b\",\"a\\u001b\"]}}"),
                    HasSubstr("\"attributes\":{\"year\":1999,\"tags\":[]}}")));
  const std::string text = FormatReport(report, {});
  EXPECT_THAT(text, HasSubstr("#  id   score  year  tags"));
  EXPECT_THAT(text, HasSubstr("1  a\"b    0.5        [\"b\",\"a\\u001b\"]"));
  EXPECT_THAT(text, HasSubstr("2  c     -inf  1999  []"));
}

TEST(SearchOutput, AnExplanationNamesThePathAndTheShareOfTheReadLimit) {
  SearchCost cost{.queue_us = 5,
                  .device_us = 250,
                  .total_us = 300,
                  .batch_size = 3,
                  .backend = Backend::kGpu,
                  .scan_precision = ScanPrecision::kInt8,
                  .candidates = 1240,
                  .rows_scanned = 1000000,
                  .bytes_read = 1024000000,
                  .escalations = {.tighter = 2, .canonical = 1},
                  .read_ns_min = 225000};
  EXPECT_EQ(Explanation(cost, 7),
            "epoch 7; path gpu/int8; 1,240 candidates of 1,000,000 rows scanned, 1.02 GB read; "
            "escalations 2 tighter, 1 canonical\n"
            "queue 5 us, device 250 us (90% of the read limit), total 300 us, batch of 3\n");
  EXPECT_THAT(ToJson(cost).ToString(),
              HasSubstr("\"escalations\":{\"tighter\":2,\"canonical\":1},\"read_ns_min\":225000,"
                        "\"read_limit_share\":0.9}"));
  cost.escalations = {};
  cost.read_ns_min = 0;  // a server that does not know its bandwidth
  EXPECT_THAT(Explanation(cost, 7), HasSubstr("escalations none\n"));
  EXPECT_THAT(Explanation(cost, 7), HasSubstr("device 250 us, total"));
}

TEST(SearchOutput, ATableShowsChosenFields) {
  QueryAnswer answer{.epoch = 7, .neighbors = TwoNeighbors()};
  SearchCost cost;
  VerifyAnswer check{.equal = true, .rows_checked = 5000, .oracle_us = 1500};
  const std::string text =
      FormatReport({.label = "query 0", .answer = &answer, .cost = &cost, .check = &check},
                   {.with_payload = true, .fields = {"name", "year", "none"}});
  EXPECT_THAT(text, HasSubstr("#  id   score  name  year  none\n"));
  EXPECT_THAT(text, HasSubstr("1  a\"b    0.5  one   1999  \n"));
  EXPECT_THAT(text, HasSubstr("2  c     -inf"));
  EXPECT_THAT(text, HasSubstr("verified: ids and score bits are the oracle's (5,000 rows"));
}

// Regression: a page that a limit of the server ended looked like the last one.
TEST(SearchOutput, SaysWhetherRowsFollow) {
  QueryAnswer answer;
  answer.neighbors.ids = std::vector<uint64_t>{7};
  answer.neighbors.scores = {1.0f};
  const SearchCost cost;
  const SearchReport report{.label = "query 0", .answer = &answer, .cost = &cost};
  const auto text = [&] { return FormatReport(report, {.with_cursor = true}); };
  const auto json = [&] { return FormatReport(report, {.json = true, .with_cursor = true}); };
  EXPECT_THAT(text(), HasSubstr("\nno row follows\n"));
  EXPECT_THAT(json(), Not(HasSubstr("cut")));
  answer.neighbors.cut = true;
  EXPECT_THAT(text(), HasSubstr("\nrows follow beyond page_rows_max"));
  EXPECT_THAT(json(), HasSubstr("\"cut\":true"));
  answer.neighbors.cut = false;
  answer.neighbors.next_cursor = "2";
  EXPECT_THAT(text(), HasSubstr("\nnext page: --cursor Mg==\n"));
}

// Stored bytes of other users must not control the terminal.
TEST(TextOutput, NothingThatDrivesATerminalGetsThrough) {
  EXPECT_EQ(Printable("a\x1b[2Jb\x07\x7f\xc2\x9b"
                      "c\nd\xff\xc3\xa9"),
            "a?[2Jb???c d?\xc3\xa9");
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 20, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = Printable(bytes);
    ASSERT_TRUE(IsUtf8(text));
    for (const char c : text) ASSERT_TRUE(static_cast<uint8_t>(c) >= 0x20 && c != 0x7f);
  }
}

TEST(TextOutput, SizesTimesAndNumbers) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1536), "1.54 kB");
  EXPECT_EQ(HumanBytes(12.3e9), "12.3 GB");
  EXPECT_EQ(HumanBytes(999.9e6), "1.00 GB");
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(std::numeric_limits<uint64_t>::max()), "18,446,744,073,709,551,615");
  EXPECT_EQ(HumanSeconds(0.00085), "850 us");
  EXPECT_EQ(HumanSeconds(0.00125), "1.25 ms");
  EXPECT_EQ(HumanSeconds(3.21), "3.2 s");
  EXPECT_EQ(HumanSeconds(125), "2:05");
  EXPECT_EQ(HumanSeconds(3725), "1:02:05");
}

TEST(TextOutput, ShorteningCountsCharacters) {
  EXPECT_EQ(Shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(Shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(Shortened("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 4), "\xc3\xa9...");
  EXPECT_EQ(Shortened("abcdef", 2), "..");
}

TEST(PayloadColumns, FieldsOfWhateverThePayloadIs) {
  EXPECT_THAT(PayloadCells("{\"a\":\"x\",\"b\":[1, 2]}", {"b", "a"}), ElementsAre("[1,2]", "x"));
  EXPECT_THAT(PayloadCells("no json", {"a"}), ElementsAre(""));
  EXPECT_THAT(PayloadCells("[1]", {"a"}), ElementsAre(""));
  EXPECT_THAT(PayloadCells("no json", {}), ElementsAre("no json"));
}

UploadProgress ProgressAt(uint64_t rows, std::chrono::milliseconds elapsed) {
  UploadProgress progress;
  progress.rows_sent = rows;
  progress.bytes_sent = rows * 1000;
  progress.elapsed = elapsed;
  return progress;
}

TEST(Progress, TheLineTellsShareRateAndTimeLeft) {
  const std::string line = ProgressLine(ProgressAt(500000, std::chrono::seconds(4)), 1000000, 100);
  EXPECT_THAT(line, HasSubstr(" 50%  500,000 of 1,000,000 rows  125 MB/s  ETA 0:00:04"));
  EXPECT_THAT(line, HasSubstr("[####"));
  for (size_t width = 0; width < 120; ++width) {
    EXPECT_LE(ProgressLine(ProgressAt(500000, std::chrono::seconds(4)), 1000000, width).size(),
              width);
  }
}

TEST(Progress, NeverDividesByNothing) {
  for (const uint64_t total : {uint64_t{0}, uint64_t{1}}) {
    EXPECT_THAT(ProgressLine(ProgressAt(0, std::chrono::seconds(0)), total, 80),
                Not(HasSubstr("nan")));
    EXPECT_THAT(ProgressLine(ProgressAt(1, std::chrono::seconds(0)), total, 80),
                Not(HasSubstr("inf")));
  }
}

TEST(Progress, WritesSeldomAndAlwaysTheEnd) {
  for (const bool terminal : {false, true}) {
    std::string written;
    int writes = 0;
    ProgressPrinter printer(
        {.rows_total = 10000, .terminal = terminal, .write = [&](std::string_view text) {
           written += text;
           ++writes;
         }});
    for (uint64_t row = 1; row <= 10000; ++row) {
      printer.Show(ProgressAt(row, std::chrono::milliseconds(row)));  // ten seconds in all
    }
    printer.Show(ProgressAt(10000, std::chrono::milliseconds(10100)));  // the commit
    printer.Finish();
    EXPECT_THAT(written, HasSubstr("100%"));
    EXPECT_LE(writes, terminal ? 104 : 4);
    EXPECT_GE(writes, terminal ? 90 : 3);
    EXPECT_EQ(written.find('\r') != std::string::npos, terminal);
    EXPECT_EQ(written.back(), '\n');
  }
}

}  // namespace
}  // namespace nearfield::client

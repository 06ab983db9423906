// Tests of log lines: valid for any input of callers.
#include "server/telemetry/log.h"

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/telemetry/request_log.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

// A log whose lines the test reads.
struct Lines {
  explicit Lines(LogFormat format, LogLevel least = LogLevel::kInfo)
      : log(format, least, [this](const std::string& line) { lines.push_back(line); }) {}

  std::vector<std::string> lines;
  Log log;
};

RequestRecord Record(const std::string& collection) {
  return {.request_id = "r1",
          .method = "Search",
          .collection = collection,
          .peer = "ipv4:127.0.0.1:1",
          .queries = 3,
          .k = 10,
          .rows = 30,
          .queue_us = 1,
          .device_us = 2,
          .total_us = 4,
          .scan = "int8",
          .escalations_tighter = 5,
          .escalations_canonical = 6};
}

TEST(LogTest, ARequestIsOneJsonObjectWithAllFields) {
  Lines lines(LogFormat::kJson);
  LogRequest(&lines.log, Record("packages"), absl::NotFoundError("no collection"));
  ASSERT_EQ(lines.lines.size(), 1u);
  const auto line = nlohmann::json::parse(lines.lines[0]);
  const nlohmann::json expected = {
      {"request_id", "r1"},
      {"method", "Search"},
      {"collection", "packages"},
      {"status", "NOT_FOUND"},
      {"queries", 3},
      {"k", 10},
      {"rows", 30},
      {"queue_us", 1},
      {"device_us", 2},
      {"total_us", 4},
      {"scan", "int8"},
      {"escalations_tighter", 5},
      {"escalations_canonical", 6},
      {"peer", "ipv4:127.0.0.1:1"},
      {"error", "no collection"},
      {"level", "info"},
  };
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(line[key], value) << key;
}

TEST(LogTest, AnyBytesStayOneValidLine) {
  std::mt19937_64 random(nearfield::testing::TestSeed());
  for (int i = 0; i < 500; ++i) {
    std::string name(random() % 40, '\0');
    for (char& c : name) c = static_cast<char>(random());
    for (const LogFormat format : {LogFormat::kJson, LogFormat::kText}) {
      Lines lines(format);
      LogRequest(&lines.log, Record(name), absl::InternalError(name));
      ASSERT_EQ(lines.lines.size(), 1u);
      for (const char c : lines.lines[0]) EXPECT_FALSE(c >= 0 && c < ' ') << lines.lines[0];
      if (format == LogFormat::kJson) {
        EXPECT_EQ(nlohmann::json::parse(lines.lines[0])["level"], "error");
      }
    }
  }
}

TEST(LogTest, TextQuotesWhatCouldBeMistaken) {
  Lines lines(LogFormat::kText);
  LogRequest(&lines.log, Record("a status=OK\nb"), absl::OkStatus());
  EXPECT_THAT(lines.lines[0], HasSubstr("collection=\"a status=OK\\nb\" status=OK"));
}

TEST(LogTest, LongTextsAreCut) {
  Lines lines(LogFormat::kText);
  LogRequest(&lines.log, Record(std::string(100000, 'x')), absl::OkStatus());
  EXPECT_LT(lines.lines[0].size(), 1000u);
}

TEST(LogTest, LevelsBelowTheLeastAreLeftOut) {
  Lines lines(LogFormat::kText, LogLevel::kWarning);
  LogRequest(&lines.log, Record("a"), absl::OkStatus());
  lines.log.Write(LogLevel::kWarning, "kept");
  ASSERT_EQ(lines.lines.size(), 1u);
  EXPECT_THAT(lines.lines[0], HasSubstr("warning kept"));
}

// Regression: a line for each call filled the log with little information.
TEST(RequestLogTest, FailedSlowAndSampledCallsGetALine) {
  Lines lines(LogFormat::kText);
  RequestLog requests(&lines.log, {.all = false, .slow_us = 1000, .sample = 10});
  RequestRecord record = Record("a");
  const auto note = [&](int64_t total_us, const absl::Status& status) {
    lines.lines.clear();
    record.total_us = total_us;
    requests.Record(record, status);
    return lines.lines.size();
  };
  EXPECT_EQ(note(1, absl::NotFoundError("no collection")), 1u);
  EXPECT_EQ(note(1000, absl::OkStatus()), 1u);
  size_t sampled = 0;
  for (int i = 0; i < 100; ++i) sampled += note(999, absl::OkStatus());
  EXPECT_EQ(sampled, 10u);
  requests.SetPolicy({.all = false, .slow_us = 1000, .sample = 0});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(note(999, absl::OkStatus()), 0u);
  requests.SetPolicy({.all = true});
  EXPECT_EQ(note(0, absl::OkStatus()), 1u);
}

TEST(RequestIdTest, TheClientsIsTakenOnlyWhereItIsSane) {
  EXPECT_EQ(RequestId("abc-123"), "abc-123");
  for (const std::string& odd : {std::string(), std::string(129, 'x'), std::string("a b"),
                                 std::string("a\n"), std::string("\xc3\xa4")}) {
    EXPECT_EQ(RequestId(odd).size(), 16u);
  }
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(RequestId(""));
  EXPECT_EQ(ids.size(), 1000u);
}

}  // namespace
}  // namespace nearfield::server

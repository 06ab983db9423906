// Tests of log lines: valid for any input of callers.
#include "server/telemetry/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/telemetry/request_log.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Lines {
  Log log(LogFormat format, LogLevel least = LogLevel::kInfo) {
    return Log(format, least, [this](const std::string& line) { lines.push_back(line); });
  }
  std::vector<std::string> lines;
};

RequestRecord Record(const std::string& collection) {
  RequestRecord record;
  record.request_id = "r1";
  record.method = "Search";
  record.collection = collection;
  record.peer = "ipv4:127.0.0.1:1";
  record.queries = 3;
  record.k = 10;
  record.rows = 30;
  record.queue_us = 1;
  record.device_us = 2;
  record.total_us = 4;
  record.scan = "int8";
  record.escalations_tighter = 5;
  record.escalations_canonical = 6;
  return record;
}

TEST(LogTest, ARequestIsOneJsonObjectWithAllFields) {
  Lines lines;
  Log log = lines.log(LogFormat::kJson);
  LogRequest(&log, Record("packages"), absl::NotFoundError("no collection"));
  ASSERT_EQ(lines.lines.size(), 1u);
  const auto line = nlohmann::json::parse(lines.lines[0]);
  EXPECT_EQ(line["request_id"], "r1");
  EXPECT_EQ(line["method"], "Search");
  EXPECT_EQ(line["collection"], "packages");
  EXPECT_EQ(line["status"], "NOT_FOUND");
  EXPECT_EQ(line["queries"], 3);
  EXPECT_EQ(line["k"], 10);
  EXPECT_EQ(line["rows"], 30);
  EXPECT_EQ(line["queue_us"], 1);
  EXPECT_EQ(line["device_us"], 2);
  EXPECT_EQ(line["total_us"], 4);
  EXPECT_EQ(line["scan"], "int8");
  EXPECT_EQ(line["escalations_tighter"], 5);
  EXPECT_EQ(line["escalations_canonical"], 6);
  EXPECT_EQ(line["peer"], "ipv4:127.0.0.1:1");
  EXPECT_EQ(line["error"], "no collection");
  EXPECT_EQ(line["level"], "info");
}

TEST(LogTest, AnyBytesStayOneValidLine) {
  std::mt19937_64 random(nearfield::testing::TestSeed());
  for (int i = 0; i < 500; ++i) {
    std::string name(random() % 40, '\0');
    for (char& c : name) c = static_cast<char>(random());
    for (const LogFormat format : {LogFormat::kJson, LogFormat::kText}) {
      Lines lines;
      Log log = lines.log(format);
      LogRequest(&log, Record(name), absl::InternalError(name));
      ASSERT_EQ(lines.lines.size(), 1u);
      for (const char c : lines.lines[0]) EXPECT_FALSE(c >= 0 && c < ' ') << lines.lines[0];
      if (format == LogFormat::kJson) {
        EXPECT_EQ(nlohmann::json::parse(lines.lines[0])["level"], "error");
      }
    }
  }
}

TEST(LogTest, TextQuotesWhatCouldBeMistaken) {
  Lines lines;
  Log log = lines.log(LogFormat::kText);
  LogRequest(&log, Record("a status=OK\nb"), absl::OkStatus());
  EXPECT_THAT(lines.lines[0], HasSubstr("collection=\"a status=OK\\nb\" status=OK"));
}

TEST(LogTest, LongTextsAreCut) {
  Lines lines;
  Log log = lines.log(LogFormat::kText);
  LogRequest(&log, Record(std::string(100000, 'x')), absl::OkStatus());
  EXPECT_LT(lines.lines[0].size(), 1000u);
}

TEST(LogTest, LevelsBelowTheLeastAreLeftOut) {
  Lines lines;
  Log log = lines.log(LogFormat::kText, LogLevel::kWarning);
  LogRequest(&log, Record("a"), absl::OkStatus());
  log.Write(LogLevel::kWarning, "kept");
  ASSERT_EQ(lines.lines.size(), 1u);
  EXPECT_THAT(lines.lines[0], HasSubstr("warning kept"));
}

// Regression: a line for each call filled the log with little information.
TEST(RequestLogTest, FailedSlowAndSampledCallsGetALine) {
  Lines lines;
  Log log = lines.log(LogFormat::kText);
  RequestLog requests(&log, {.all = false, .slow_us = 1000, .sample = 10});
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

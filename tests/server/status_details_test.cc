// Tests of error details, which programs read instead of the message.
#include "server/grpc/status_details.h"

#include <optional>
#include <string>

#include "engine/base/argument_error.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/convert/text.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

template <typename Detail>
std::optional<Detail> Find(const google::rpc::Status& status) {
  Detail found;
  for (const auto& detail : status.details()) {
    if (detail.UnpackTo(&found)) return found;
  }
  return std::nullopt;
}

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(details.message(), status.error_message());
  return details;
}

TEST(StatusDetails, ARefusedArgumentNamesFieldValueAndLimit) {
  const grpc::Status status = WithDetails(MustBe("k", "5000", "1 .. 4096"), std::nullopt);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "k = 5000, must be 1 .. 4096");
  const google::rpc::Status details = DetailsOf(status);
  const auto info = Find<google::rpc::ErrorInfo>(details);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason(), "INVALID_ARGUMENT");
  EXPECT_EQ(info->domain(), "nearfield");
  EXPECT_THAT(info->metadata(), UnorderedElementsAre(Pair("field", "k"), Pair("value", "5000"),
                                                     Pair("limit", "1 .. 4096")));
  const auto bad = Find<google::rpc::BadRequest>(details);
  ASSERT_TRUE(bad.has_value());
  ASSERT_EQ(bad->field_violations_size(), 1);
  EXPECT_EQ(bad->field_violations(0).field(), "k");
  EXPECT_EQ(bad->field_violations(0).description(), "5000, must be 1 .. 4096");
  EXPECT_FALSE(Find<google::rpc::RetryInfo>(details).has_value());
}

TEST(StatusDetails, AnErrorOfTheEngineNamesTheFieldThatItBeginsWith) {
  const auto info = Find<google::rpc::ErrorInfo>(DetailsOf(WithDetails(
      absl::InvalidArgumentError("queries[3].row_id = 7 names a row of zeros"), std::nullopt)));
  ASSERT_TRUE(info.has_value());
  EXPECT_THAT(info->metadata(), UnorderedElementsAre(Pair("field", "queries[3].row_id")));
}

TEST(StatusDetails, ATransientRefusalSaysWhenToRetry) {
  const google::rpc::Status details =
      DetailsOf(WithDetails(absl::ResourceExhaustedError("the queue is full"), 12345));
  const auto retry = Find<google::rpc::RetryInfo>(details);
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->retry_delay().seconds(), 12);
  EXPECT_EQ(retry->retry_delay().nanos(), 345000000);
  const auto info = Find<google::rpc::ErrorInfo>(details);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason(), "RESOURCE_EXHAUSTED");
  EXPECT_THAT(info->metadata(), IsEmpty());
  EXPECT_FALSE(Find<google::rpc::BadRequest>(details).has_value());
}

TEST(StatusDetails, OkHasNone) {
  const grpc::Status status = WithDetails(absl::OkStatus(), std::nullopt);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.error_details(), "");
}

// Libraries reject details whose message differs from that of the status, or is not UTF-8.
TEST(StatusDetails, LongMessagesAreCutBetweenCharacters) {
  std::string text = "é";
  while (text.size() < 3000) text += "é";
  for (const std::string& field : {std::string("f"), std::string("fi")}) {
    const grpc::Status status = WithDetails(ArgumentError(field, text, text), std::nullopt);
    EXPECT_TRUE(IsUtf8(status.error_message()));
    EXPECT_GE(status.error_message().size(), 1023u);
    EXPECT_LE(status.error_message().size(), 1024u);
    const google::rpc::Status details = DetailsOf(status);
    const auto bad = Find<google::rpc::BadRequest>(details);
    ASSERT_TRUE(bad.has_value());
    EXPECT_TRUE(IsUtf8(bad->field_violations(0).description()));
    EXPECT_LE(status.error_details().size(), 3000u) << "headers are 8 KiB in all";
  }
  const grpc::Status bytes = WithDetails(absl::InternalError("a\xff\x80z"), std::nullopt);
  EXPECT_EQ(bytes.error_message(), "a\?\?z");
  DetailsOf(bytes);
}

TEST(ArgumentError, FactsThatAreThereStay) {
  const absl::Status status = WithArgument(MustBe("a", "1", "2"), {.field = "b", .value = "3"});
  EXPECT_EQ(ArgumentFactsOf(status).field, "a");
  EXPECT_EQ(ArgumentFactsOf(status).value, "1");
  EXPECT_EQ(ArgumentFactsOf(WithArgument(absl::InternalError("x"), {.field = "b"})).field, "");
  EXPECT_EQ(WithArgument(absl::OkStatus(), {.field = "b"}), absl::OkStatus());
}

}  // namespace
}  // namespace nearfield::server

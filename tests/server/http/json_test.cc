// Tests of the JSON form of messages. Protobuf's own conversion is the reference.
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/argument_error.h"
#include "server/http/json_reader.h"
#include "server/http/json_writer.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/message_builder.h"
#include "tests/server/http/service_methods.h"
#include "tests/server/server_fixture.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
namespace util = google::protobuf::util;

absl::Status NoLimit(int64_t /*bytes*/) { return absl::OkStatus(); }

std::string JsonOf(const Message& message) {
  std::string json;
  EXPECT_OK(ToJson(message, NoLimit, &json));
  return json;
}

absl::Status ReadSearch(const std::string& json, pb::SearchRequest* message) {
  message->Clear();
  return FromJson(json, NoLimit, message);
}

// Returns the types of all requests and responses.
std::vector<const Descriptor*> Types() {
  std::vector<const Descriptor*> types;
  for (const auto* const method : ServiceMethods()) {
    types.push_back(method->input_type());
    types.push_back(method->output_type());
  }
  return types;
}

std::unique_ptr<Message> RandomMessage(const Descriptor& type, testing::Random& random) {
  std::string bytes(static_cast<size_t>(random.Between(0, 300)), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Bits() % (random.OneIn(2) ? 256 : 100));
  fuzz::InputReader input(bytes);
  fuzz::MessageBuilder builder(
      {"c", "", "\"\\/\b\f\n\r\t\x01", "\u00e9\u20ac\U0001f600", "</script>"}, &input);
  std::unique_ptr<Message> message = NewMessage(type);
  builder.Fill(6, message.get());
  // No message on the wire has texts that are not UTF-8.
  if (!NewMessage(type)->ParseFromString(message->SerializeAsString())) message->Clear();
  return message;
}

TEST(JsonTest, EveryMessageReadsBackToTheBitAndAsProtobufReadsIt) {
  testing::Random random(testing::TestSeed());
  for (int round = 0; round < 60; ++round) {
    for (const Descriptor* const type : Types()) {
      const std::unique_ptr<Message> message = RandomMessage(*type, random);
      const std::string bytes = message->SerializeAsString();
      const std::string json = JsonOf(*message);
      EXPECT_EQ(json.back(), '\n');
      EXPECT_EQ(json.find('\n'), json.size() - 1);
      const std::unique_ptr<Message> own = NewMessage(*type);
      ASSERT_OK(FromJson(json, NoLimit, own.get())) << json;
      EXPECT_EQ(own->SerializeAsString(), bytes) << json;
      const std::unique_ptr<Message> reference = NewMessage(*type);
      ASSERT_TRUE(util::JsonStringToMessage(json, reference.get()).ok()) << json;
      EXPECT_EQ(reference->SerializeAsString(), bytes) << json;
    }
  }
}

TEST(JsonTest, TheFormThatProtobufWritesIsRead) {
  testing::Random random(testing::TestSeed() + 1);
  for (int round = 0; round < 60; ++round) {
    for (const Descriptor* const type : Types()) {
      const std::unique_ptr<Message> message = RandomMessage(*type, random);
      for (const bool camel_case : {false, true}) {
        util::JsonPrintOptions options;
        options.preserve_proto_field_names = !camel_case;
        options.add_whitespace = camel_case;
        std::string json;
        ASSERT_TRUE(util::MessageToJsonString(*message, &json, options).ok());
        const std::unique_ptr<Message> own = NewMessage(*type);
        ASSERT_OK(FromJson(json, NoLimit, own.get())) << json;
        const std::unique_ptr<Message> reference = NewMessage(*type);
        ASSERT_TRUE(util::JsonStringToMessage(json, reference.get()).ok()) << json;
        // Its writer turns -0.0 into -0, which its reader takes for the integer 0.
        if (json.find("-0") == std::string::npos) {
          EXPECT_EQ(own->SerializeAsString(), reference->SerializeAsString()) << json;
        }
      }
    }
  }
}

TEST(JsonTest, MinusZeroKeepsItsSign) {
  pb::QueryResult result;
  result.add_scores(-0.0f);
  result.add_scores(0.0f);
  EXPECT_EQ(JsonOf(result), "{\"scores\":[-0.0,0]}\n");
}

TEST(JsonTest, NumbersOfSixtyFourBitsAreTexts) {
  pb::IdList ids;
  ids.add_numbers(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(JsonOf(ids), "{\"numbers\":[\"18446744073709551615\"]}\n");
}

TEST(JsonTest, InfinitiesAreTexts) {
  pb::QueryResult result;
  result.add_scores(std::numeric_limits<float>::infinity());
  result.add_scores(-std::numeric_limits<float>::infinity());
  result.add_scores(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(JsonOf(result), "{\"scores\":[\"Infinity\",\"-Infinity\",\"NaN\"]}\n");
}

TEST(JsonTest, NumbersAreRoundedAsProtobufRoundsThem) {
  testing::Random random(testing::TestSeed() + 2);
  for (int i = 0; i < 3000; ++i) {
    std::string number = random.OneIn(2) ? "-" : "";
    number += std::to_string(random.Between(0, 10));
    if (random.OneIn(2)) number += "." + std::to_string(random.Bits() >> random.Between(0, 63));
    if (random.OneIn(2)) number += "e" + std::to_string(random.Between(-330, 38));
    for (const std::string& text : {number, "\"" + number + "\""}) {
      const std::string json = R"({"double_values": [)" + text + "]}";
      pb::AttributeValues own;
      pb::AttributeValues reference;
      const bool reads = util::JsonStringToMessage(json, &reference).ok();
      EXPECT_EQ(FromJson(json, NoLimit, &own).ok(), reads) << json;
      if (reads && number != "-0") {
        EXPECT_EQ(own.SerializeAsString(), reference.SerializeAsString()) << json;
      }
    }
  }
}

struct Refused {
  std::string json;
  std::string field;
  std::string problem;
};

TEST(JsonTest, RefusalsNameTheFieldAndTheProblem) {
  const std::vector<Refused> cases = {
      {"", "body", "an object must begin here"},
      {"[1]", "body", "an object must begin here"},
      {"{", "body", "the name of a field must begin here"},
      {"{}x", "body", "there is text after the object"},
      {"{\"\":1}", "body", "a field without a name"},
      {"{k:1}", "body", "the name of a field must begin here"},
      {"{\"k\":1,}", "body", "the name of a field must begin here"},
      {"{\"k\" 1}", "body", "':' must follow"},
      {"{\"k\":1 \"x\":1}", "body", "',' or '}' must follow"},
      {"{\"k\":}", "k", "}"},
      {"{\"x\":1}", "x", "SearchRequest has no such field"},
      {"{\"queries\":[{\"vector\":{\"x\":1}}]}", "queries[0].vector.x", "no such field"},
      {"{\"k\":1,\"k\":2}", "k", "more than once"},
      {"{\"queries\":[{\"vector\":{},\"row_id\":{}}]}", "queries[0].row_id", "vector is given"},
      {"{\"k\":-1}", "k", "0 .. 4294967295"},
      {"{\"k\":1.5}", "k", "a whole number"},
      {"{\"k\":01}", "body", "must follow"},
      {"{\"k\":true}", "k", "a whole number"},
      {"{\"min_epoch\":18446744073709551616}", "min_epoch", "18446744073709551615"},
      {"{\"min_epoch\":1.9e19}", "min_epoch", "18446744073709551615"},
      {"{\"score_threshold\":1e39}", "score_threshold", "a number of 32 bits"},
      {"{\"score_threshold\":\"inf\"}", "score_threshold", "Infinity"},
      {"{\"score_threshold\":NaN}", "score_threshold", "a number"},
      {"{\"with_payload\":1}", "with_payload", "true or false"},
      {"{\"collection\":1}", "collection", "a text"},
      {"{\"collection\":\"a", "collection", "does not end"},
      {"{\"collection\":\"a\\\"", "collection", "does not end"},
      {"{\"collection\":\"\\x\"}", "collection", "an unknown escape"},
      {"{\"collection\":\"\\u12g4\"}", "collection", "an unknown escape"},
      {"{\"collection\":\"\\ud800\"}", "collection", "not UTF-8"},
      {"{\"collection\":\"\xff\"}", "collection", "not UTF-8"},
      {"{\"collection\":\"\n\"}", "collection", "control character"},
      {"{\"cursor\":\"a$\"}", "cursor", "base64"},
      {"{\"priority\":\"x\"}", "priority", "SEARCH_PRIORITY_BATCH"},
      {"{\"queries\":{}}", "queries", "a list"},
      {"{\"queries\":[1]}", "queries[0]", "an object"},
      {"{\"queries\":[null]}", "queries[0]", "an object"},
      {"{\"queries\":[{}", "queries[0]", "',' or ']' must follow"},
      {"{\"attributes\":[\"a\",2]}", "attributes[1]", "a text"},
      {"{\"queries\":[{\"vector\":{\"values\":[1,\"a\"]}}]}", "queries[0].vector.values[1]",
       "\"a\""},
  };
  for (const Refused& each : cases) {
    pb::SearchRequest message;
    const absl::Status status = ReadSearch(each.json, &message);
    EXPECT_THAT(status, FailsWith(kInvalidArgument, each.problem)) << each.json;
    EXPECT_EQ(ArgumentFactsOf(status).field, each.field) << each.json << " " << status;
  }
}

TEST(JsonTest, OtherFormsOfTheSameValueAreRead) {
  pb::SearchRequest message;
  ASSERT_OK(ReadSearch(
      " {\"withPayload\" : true , \"k\":\"12\",\"min_epoch\":1e3,\n\t\"cursor\":\"-_8\","
      "\"priority\":2,\"at_epoch\":null,\"collection\":\"\\u00e9\\ud83d\\ude00\\n\"}\r\n",
      &message));
  const pb::SearchRequest expected = FromText(
      "with_payload: true k: 12 min_epoch: 1000 cursor: '\\373\\377' priority: "
      "SEARCH_PRIORITY_BATCH collection: '\u00e9\U0001f600\\n'");
  EXPECT_EQ(message.SerializeAsString(), expected.SerializeAsString());
}

// A hostile text may take fifty times its bytes.
TEST(JsonTest, MemoryIsReservedBeforeItIsUsed) {
  struct Shape {
    std::string begin;
    std::string element;
    std::string end;
  };
  const std::vector<Shape> shapes = {
      {"{\"queries\":[", "{}", "]}"},
      {"{\"attributes\":[", "\"\"", "]}"},
      {"{\"attributes\":[", "\"" + std::string(40, 'a') + "\"", "]}"},
      {"{\"queries\":[{\"vector\":{\"values\":[", "1", "]}}]}"}};
  for (const Shape& shape : shapes) {
    for (const int count : {1, 100, 20000}) {
      std::string json = shape.begin + shape.element;
      for (int i = 1; i < count; ++i) json += "," + shape.element;
      json += shape.end;
      int64_t reserved = 0;
      pb::SearchRequest message;
      ASSERT_OK(FromJson(
          json,
          [&](int64_t bytes) {
            EXPECT_GT(bytes, reserved);
            reserved = bytes;
            return absl::OkStatus();
          },
          &message));
      const auto used = static_cast<int64_t>(message.SpaceUsedLong() - sizeof(message));
      EXPECT_GE(reserved, used) << shape.element << " " << count;
      pb::SearchRequest refused;
      const absl::Status full = FromJson(
          json,
          [&](int64_t bytes) {
            return bytes < reserved ? absl::OkStatus() : absl::ResourceExhaustedError("full");
          },
          &refused);
      EXPECT_THAT(full, FailsWith(kResourceExhausted, "full"));
      EXPECT_LE(static_cast<int64_t>(refused.SpaceUsedLong() - sizeof(refused)), reserved);
    }
  }
}

TEST(JsonTest, MemoryOfAReplyIsReservedBeforeItIsUsed) {
  pb::QueryResult result;
  for (int i = 0; i < 20000; ++i) result.add_scores(0.1f * static_cast<float>(i));
  int64_t reserved = 0;
  std::string json;
  ASSERT_OK(ToJson(
      result,
      [&](int64_t bytes) {
        reserved = bytes;
        return absl::OkStatus();
      },
      &json));
  EXPECT_GE(reserved, static_cast<int64_t>(json.capacity()));
  json.clear();
  json.shrink_to_fit();
  const absl::Status full = ToJson(
      result,
      [](int64_t bytes) {
        return bytes < 10000 ? absl::OkStatus() : absl::ResourceExhaustedError("full");
      },
      &json);
  EXPECT_THAT(full, FailsWith(kResourceExhausted, "full"));
  EXPECT_LT(json.capacity(), 10000u);
}

// FromJson and ToJson require this of the types.
TEST(JsonTest, NoMessageIsRecursiveOrHasAMapOrManyFields) {
  std::set<const Descriptor*> open;
  const std::function<void(const Descriptor&)> visit = [&](const Descriptor& type) {
    EXPECT_LT(type.field_count(), 64) << type.full_name();
    ASSERT_TRUE(open.insert(&type).second) << type.full_name() << " contains itself";
    for (int i = 0; i < type.field_count(); ++i) {
      EXPECT_FALSE(type.field(i)->is_map()) << type.field(i)->full_name();
      EXPECT_TRUE(type.field(i)->message_type() == nullptr ||
                  type.field(i)->message_type()->file()->package() == "nearfield.v1");
      if (type.field(i)->message_type() != nullptr) visit(*type.field(i)->message_type());
    }
    open.erase(&type);
  };
  for (const Descriptor* const type : Types()) visit(*type);
}

}  // namespace
}  // namespace nearfield::server

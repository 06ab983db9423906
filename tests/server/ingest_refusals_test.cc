// Tests of refused uploads: the status code, the message, and that no rows or memory remain.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/server/ingest_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

// An upload that must be refused, with its code and message.
struct BadUpload {
  std::vector<pb::UploadRequest> requests;
  grpc::StatusCode code;
  std::string message;
};

class IngestRefusalsTest : public IngestServiceTest {
 protected:
  static pb::UploadRequest BeginWith(const std::function<void(pb::UploadBegin&)>& change) {
    pb::UploadRequest request = Begin("c", 10, 100);
    change(*request.mutable_begin());
    return request;
  }
  static pb::UploadRequest BlockWith(const std::function<void(pb::UploadBlock&)>& change) {
    pb::UploadRequest request = Block({1, 2}, "p");
    change(*request.mutable_block());
    return request;
  }

  static std::vector<BadUpload> BadOrdersAndCounts() {
    pb::UploadRequest wrong_count = Commit();
    wrong_count.mutable_commit()->set_rows_count(3);
    return {
        {{}, kInvalid, "ended before commit"},
        {{Begin("c", 1)}, kInvalid, "ended before commit"},
        {{Begin("c", 2), Block({1, 2})}, kInvalid, "ended before commit"},
        {{Block({1})}, kInvalid, "a block where begin"},
        {{Commit()}, kInvalid, "commit where begin"},
        {{Begin("c", 1), Begin("c", 1)}, kInvalid, "a second begin"},
        {{pb::UploadRequest()}, kInvalid, "none of begin"},
        {{Begin("c", 1), Block({1, 2})}, kInvalid, "begin.rows_max declared 1"},
        {{Begin("c", 2), Block({1, 2}), Block({3})}, kInvalid, "1 rows after 2"},
        {{Begin("c", 2), Block({1, 2}), wrong_count},
         kInvalid,
         "commit.rows_count: 3, the upload has 2"},
        {{Begin("c", 2), Block({1, 1}), Commit()},
         grpc::StatusCode::ALREADY_EXISTS,
         "id 1 is twice in the upload"},
        {{Begin("c", 2), Block({1, 7}), Commit()},
         grpc::StatusCode::ALREADY_EXISTS,
         "id 7 is already in the collection"},
    };
  }

  static std::vector<BadUpload> BadBegins() {
    return {
        {{BeginWith([](auto& b) { b.clear_rows_max(); })}, kInvalid, "begin.rows_max = absent"},
        {{BeginWith([](auto& b) { b.set_rows_max(0); })},
         kInvalid,
         "begin.rows_max = 0, must be 1 .. 4294967294"},
        {{BeginWith([](auto& b) { b.set_rows_max(~uint64_t{0}); })},
         kInvalid,
         "begin.rows_max = 18446744073709551615"},
        {{BeginWith([](auto& b) { b.clear_payload_bytes_max(); })},
         kInvalid,
         "begin.payload_bytes_max = absent"},
        {{BeginWith([](auto& b) { b.set_payload_bytes_max(~uint64_t{0}); })},
         kInvalid,
         "begin.payload_bytes_max = 184"},
        {{BeginWith([](auto& b) { b.set_collection("nope"); })},
         grpc::StatusCode::NOT_FOUND,
         "nope"},
        {{BeginWith([](auto& b) { b.set_mode(static_cast<pb::UploadMode>(77)); })},
         kInvalid,
         "begin.mode = 77, must be INSERT, UPSERT or REPLACE"},
        {{BeginWith([](auto& b) { b.set_upload_token(""); })},
         kInvalid,
         "begin.upload_token = 0 bytes, must be 1 .. 256"},
        {{BeginWith([](auto& b) { b.set_upload_token(std::string(257, 't')); })},
         kInvalid,
         "begin.upload_token = 257 bytes"},
        {{BeginWith([](auto& b) { b.set_upload_token("t"); })},
         grpc::StatusCode::FAILED_PRECONDITION,
         "data_dir is none"},
        {{Begin("c", 1 << 30)}, grpc::StatusCode::RESOURCE_EXHAUSTED, "bytes are free"},
    };
  }

  static std::vector<BadUpload> BadBlocks() {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    return {
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT16); })},
         kInvalid,
         "dtype: float16, the collection has float32"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.mutable_vectors()->clear_dtype(); })},
         kInvalid,
         "dtype: 0"},
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.mutable_vectors()->mutable_data()->pop_back(); })},
         kInvalid,
         "15 bytes for 2 ids"},
        {{BeginWith([](auto&) {}), BlockWith([&](auto& b) {
            b.mutable_vectors()->set_data(Bytes({1, 1, nan, 1}));
          })},
         kInvalid,
         "row 1"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.mutable_ids()->clear_numbers(); })},
         kInvalid,
         "block.ids = 0 ids"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.mutable_ids()->add_texts("a"); })},
         kInvalid,
         "block.ids.texts: 1"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.add_payloads("more"); })},
         kInvalid,
         "block.payloads: 3 for 2"},
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.set_payloads(1, std::string(1025, 'x')); })},
         kInvalid,
         "block.payloads[1]: 1025 bytes, must be at most 1024"},
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.set_payloads(1, std::string(100, 'x')); })},
         kInvalid,
         "begin.payload_bytes_max declared 100"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.set_block_number(1); })},
         kInvalid,
         "block.block_number: 1, the next block is 0"},
    };
  }

  void ExpectRefused(const std::vector<BadUpload>& uploads) {
    for (const BadUpload& each : uploads) {
      EXPECT_THAT(Send(each.requests), HasCodeAndMessage(each.code, HasSubstr(each.message)));
    }
  }
};

TEST_F(IngestRefusalsTest, IsNamedAndLeavesNothing) {
  Set(settings_.payload_bytes_max, "1KiB");
  ServeEmpty();
  ASSERT_THAT(CreateCollection("texts", 2, pb::METRIC_DOT, pb::ID_TYPE_STRING),
              HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {7}), HasCode(grpc::StatusCode::OK));
  ExpectRefused(BadOrdersAndCounts());
  ExpectRefused(BadBegins());
  ExpectRefused(BadBlocks());
  for (const std::string& text : {std::string(), std::string(513, 'x')}) {
    pb::UploadRequest texts = Block({1});
    texts.mutable_block()->mutable_ids()->clear_numbers();
    texts.mutable_block()->mutable_ids()->add_texts(text);
    EXPECT_THAT(Send({Begin("texts", 1), texts}),
                HasCodeAndMessage(kInvalid, HasSubstr("block.ids.texts[0]")));
  }
  AwaitNoUpload();
  EXPECT_EQ(RowsCount(), 1u);
  EXPECT_EQ(script_->device->bytes_used(), kDeviceRowBytes);
}

// A test gap: only a payload one byte above the limit was tested, so the limit itself could have
// been refused.
TEST_F(IngestRefusalsTest, APayloadOfExactlyTheLimitIsTaken) {
  Set(settings_.payload_bytes_max, "1KiB");
  ServeEmpty();
  EXPECT_THAT(Send({Begin("c", 1, 1024), Block({1}, std::string(1024, 'x')), Commit()}),
              HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(Send({Begin("c", 1, 2048), Block({2}, std::string(1025, 'x')), Commit()}),
              HasCodeAndMessage(kInvalid, HasSubstr("block.payloads[0]: 1025 bytes")));
  EXPECT_EQ(RowsCount(), 1u);
}

// Regression: blocks of up to 11 bytes more than upload_block_bytes_max were accepted.
TEST_F(IngestRefusalsTest, ABlockIsBoundedToTheByte) {
  constexpr size_t kBlockMax = (64 << 10) - 16;
  Set(settings_.request_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "16KiB");
  ServeEmpty();
  const std::string payload(13000, 'x');
  pb::UploadRequest request = Block({1, 2, 3, 4, 5}, payload);
  pb::UploadBlock& block = *request.mutable_block();
  block.mutable_payloads(4)->append(kBlockMax - block.ByteSizeLong(), 'y');
  ASSERT_EQ(block.ByteSizeLong(), kBlockMax);
  EXPECT_THAT(Send({Begin("c", 5, 1 << 20), request, Commit()}), HasCode(grpc::StatusCode::OK));
  block.mutable_payloads(4)->push_back('z');
  EXPECT_THAT(Send({Begin("c", 5, 1 << 20), request, Commit()}),
              HasCodeAndMessage(kInvalid, HasSubstr("block: 65521 bytes, the limit "
                                                    "upload_block_bytes_max is 65520")));
  EXPECT_EQ(RowsCount(), 5u);
}

}  // namespace
}  // namespace nearfield::server

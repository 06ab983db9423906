// Tests of calls by way of the C ABI that run out of memory: no exception leaves a function, and
// the server goes on.
#include <cstdint>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/c_abi/nearfield.h"
#include "tests/testing/allocation_failure.h"

namespace nearfield::server {
namespace {

using ::testing::AnyOf;

namespace pb = ::nearfield::v1;

constexpr auto kOutOfMemory = static_cast<int32_t>(absl::StatusCode::kResourceExhausted);

class CAbiAllocationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    nf_reply reply = {};
    ASSERT_EQ(nf_open("data_dir = none\nbackend = cpu\nthreads = 1\n", &server_, &reply), NF_OK)
        << reply.message;
    nf_free(&reply);
    pb::CreateCollectionRequest create;
    create.set_name("c");
    create.set_dim(2);
    create.set_dtype(pb::DATA_TYPE_FLOAT32);
    create.set_metric(pb::METRIC_DOT);
    create.set_id_type(pb::ID_TYPE_UINT64);
    ASSERT_EQ(Call("/nearfield.v1.Admin/CreateCollection", create), NF_OK);
  }
  void TearDown() override { nf_close(server_); }

  int32_t Call(const char* method, const google::protobuf::Message& request) {
    const std::string bytes = request.SerializeAsString();
    nf_reply reply = {};
    const int32_t code = nf_call(server_, method, bytes.data(), bytes.size(), nullptr, &reply);
    nf_free(&reply);
    return code;
  }

  // Lets each allocation of `function` on this thread fail, one by one, until it makes none more.
  // The function returns a code.
  static void FailEach(const std::function<int32_t()>& function) {
    // Protobuf's first use of a message does not survive a lack of memory.
    ASSERT_EQ(function(), NF_OK);
    bool happened = true;
    for (int64_t n = 1; happened; ++n) {
      int32_t code = 0;
      {
        const nearfield::testing::AllocationFailure failure(n);
        code = function();
        happened = failure.happened();
      }
      ASSERT_THAT(code, AnyOf(NF_OK, kOutOfMemory)) << "allocation " << n;
    }
  }

  nf_server server_ = 0;
};

TEST_F(CAbiAllocationTest, ACallReportsThatMemoryIsExhausted) {
  const pb::GetLimitsRequest request;
  const std::string bytes = request.SerializeAsString();
  FailEach([&] {
    nf_reply reply = {};
    const int32_t code = nf_call(server_, "/nearfield.v1.Retrieval/GetLimits", bytes.data(),
                                 bytes.size(), nullptr, &reply);
    nf_free(&reply);
    return code;
  });
  EXPECT_EQ(Call("/nearfield.v1.Retrieval/GetLimits", request), NF_OK);
}

TEST_F(CAbiAllocationTest, APlainSearchReportsThatMemoryIsExhausted) {
  const float queries[] = {1, 2, 3, 4};
  uint64_t ids[2];
  float scores[2];
  uint32_t counts[2];
  const nf_plain_search search = {.collection = "c",
                                  .queries = queries,
                                  .queries_count = 2,
                                  .dim = 2,
                                  .k = 1,
                                  .min_epoch = 0,
                                  .incarnation = 0,
                                  .ids = ids,
                                  .scores = scores,
                                  .counts = counts};
  FailEach([&] {
    nf_plain_result result = {};
    nf_reply reply = {};
    const int32_t code = nf_search(server_, &search, nullptr, &result, &reply);
    nf_free(&reply);
    return code;
  });
}

TEST_F(CAbiAllocationTest, AStreamReportsThatMemoryIsExhausted) {
  pb::ScanRequest request;
  request.set_collection("c");
  const std::string bytes = request.SerializeAsString();
  FailEach([&] {
    nf_stream stream = 0;
    nf_reply reply = {};
    int32_t code = nf_begin(server_, "/nearfield.v1.Retrieval/Scan", bytes.data(), bytes.size(),
                            nullptr, &stream, &reply);
    nf_free(&reply);
    while (code == NF_OK && nf_receive(stream, &reply) == 1) nf_free(&reply);
    if (code == NF_OK) code = reply.code;
    nf_free(&reply);
    nf_end(stream);
    return code;
  });
  pb::CountRequest count;
  count.set_collection("c");
  EXPECT_EQ(Call("/nearfield.v1.Retrieval/Count", count), NF_OK);
}

}  // namespace
}  // namespace nearfield::server

// Tests of calls by way of the C ABI that run out of memory: no exception leaves a function, and
// the server goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/c_abi/nearfield.h"
#include "tests/testing/allocation_failure.h"

// For LeakSanitizer. These are leaks of protobuf: a list of messages that cannot grow loses the new
// message, and a copy that cannot be completed loses its lists and texts.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:google::protobuf::internal::MergeFromImpl\n"
         "leak:google::protobuf::internal::RepeatedPtrFieldBase\n"
         "leak:google::protobuf::internal::ArenaStringPtr::Set\n";
}

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
    pb::AttributeSpec* const attribute = create.add_attributes();
    attribute->set_name("n");
    attribute->set_type(pb::ATTRIBUTE_TYPE_INT64);
    ASSERT_EQ(Call("/nearfield.v1.Admin/CreateCollection", create), NF_OK);
  }
  void TearDown() override { nf_close(server_); }

  int32_t Call(const char* method, const google::protobuf::Message& request) {
    return CallWith(method, request.SerializeAsString());
  }
  // As Call, for an encoded request: takes no memory in the test.
  int32_t CallWith(const char* method, const std::string& bytes) {
    nf_reply reply = {};
    const int32_t code = nf_call(server_, method, bytes.data(), bytes.size(), nullptr, &reply);
    nf_free(&reply);
    return code;
  }

  // Reads a stream to its end; returns its code.
  int32_t CodeOfStream(const char* method, const std::string& request) {
    nf_stream stream = 0;
    nf_reply reply = {};
    int32_t code =
        nf_begin(server_, method, request.data(), request.size(), nullptr, &stream, &reply);
    nf_free(&reply);
    while (code == NF_OK && nf_receive(stream, &reply) == 1) nf_free(&reply);
    if (code == NF_OK) code = reply.code;
    nf_free(&reply);
    nf_end(stream);
    return code;
  }
  void Upload(uint64_t rows) {
    std::vector<pb::UploadRequest> requests(3);
    requests[0].mutable_begin()->set_collection("c");
    requests[0].mutable_begin()->set_rows_max(rows);
    requests[0].mutable_begin()->set_payload_bytes_max(0);
    pb::UploadBlock* const block = requests[1].mutable_block();
    for (uint64_t id = 0; id < rows; ++id) block->mutable_ids()->add_numbers(id);
    block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    block->mutable_vectors()->set_data(std::string(rows * 2 * sizeof(float), '\0'));
    requests[2].mutable_commit();
    nf_stream stream = 0;
    nf_reply reply = {};
    ASSERT_EQ(
        nf_begin(server_, "/nearfield.v1.Ingest/Upload", nullptr, 0, nullptr, &stream, &reply),
        NF_OK);
    nf_free(&reply);
    for (const pb::UploadRequest& request : requests) {
      const std::string bytes = request.SerializeAsString();
      ASSERT_EQ(nf_send(stream, bytes.data(), bytes.size()), 1);
    }
    while (nf_receive(stream, &reply) == 1) nf_free(&reply);
    EXPECT_EQ(reply.code, NF_OK) << reply.message;
    nf_free(&reply);
    nf_end(stream);
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
  FailEach([&] { return CallWith("/nearfield.v1.Retrieval/GetLimits", bytes); });
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

TEST_F(CAbiAllocationTest, GroupsAndFacetsReportThatMemoryIsExhausted) {
  pb::SearchRequest search;
  search.set_collection("c");
  search.add_queries()->mutable_vector()->mutable_values()->Resize(2, 1.0f);
  search.set_group_by("n");
  for (const bool verify : {false, true}) {
    search.set_verify(verify);
    const std::string bytes = search.SerializeAsString();
    FailEach([&] { return CallWith("/nearfield.v1.Retrieval/Search", bytes); });
  }
  pb::FacetsRequest facets;
  facets.set_collection("c");
  facets.add_attributes("n");
  *facets.mutable_query() = search.queries(0);
  facets.set_score_threshold(1);
  const std::string bytes = facets.SerializeAsString();
  FailEach([&] { return CallWith("/nearfield.v1.Retrieval/Facets", bytes); });
  EXPECT_EQ(Call("/nearfield.v1.Retrieval/Search", search), NF_OK);
}

TEST_F(CAbiAllocationTest, AStreamReportsThatMemoryIsExhausted) {
  pb::ScanRequest request;
  request.set_collection("c");
  const std::string bytes = request.SerializeAsString();
  FailEach([&] { return CodeOfStream("/nearfield.v1.Retrieval/Scan", bytes); });
  pb::CountRequest count;
  count.set_collection("c");
  EXPECT_EQ(Call("/nearfield.v1.Retrieval/Count", count), NF_OK);
}

// Regression: the end of the stream waited for ever after a reply that was not read.
TEST_F(CAbiAllocationTest, AStreamOfSeveralRepliesEndsWithoutMemory) {
  Upload(3);
  pb::SearchAllRequest request;
  request.mutable_search()->set_collection("c");
  request.mutable_search()->add_queries()->mutable_vector()->mutable_values()->Resize(2, 1.0f);
  request.mutable_search()->set_k(1);
  const std::string bytes = request.SerializeAsString();
  FailEach([&] { return CodeOfStream("/nearfield.v1.Retrieval/SearchAll", bytes); });
  EXPECT_EQ(CodeOfStream("/nearfield.v1.Retrieval/SearchAll", bytes), NF_OK);
}

// Regression: it waited for threads that it does not have.
TEST_F(CAbiAllocationTest, AForkedProcessCannotUseAStream) {
  nf_stream stream = 0;
  nf_reply reply = {};
  ASSERT_EQ(nf_begin(server_, "/nearfield.v1.Ingest/Upload", nullptr, 0, nullptr, &stream, &reply),
            NF_OK);
  nf_free(&reply);
  const pid_t child = fork();
  if (child == 0) {
    nf_cancel(stream);
    const bool refused = nf_send(stream, nullptr, 0) == 0 && nf_receive(stream, &reply) == 0 &&
                         reply.code == static_cast<int32_t>(absl::StatusCode::kFailedPrecondition);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  nf_end(stream);
}

TEST_F(CAbiAllocationTest, ATimeoutOfManyYearsIsNone) {
  pb::CountRequest count;
  count.set_collection("c");
  const std::string bytes = count.SerializeAsString();
  for (const int64_t timeout_us : {int64_t{10'000'000'000'000'000}, INT64_MAX}) {
    nf_options options = {};
    options.timeout_us = timeout_us;
    nf_reply reply = {};
    EXPECT_EQ(nf_call(server_, "/nearfield.v1.Retrieval/Count", bytes.data(), bytes.size(),
                      &options, &reply),
              NF_OK)
        << reply.message;
    nf_free(&reply);
  }
}

}  // namespace
}  // namespace nearfield::server

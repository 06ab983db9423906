// Tests of the C ABI on a GPU: a ragged selection, and refusals that need a selector.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/cuda/probe_gpu.h"
#include "nearfield/nearfield_topk.h"
#include "tests/engine/prelude.h"
#include "tests/engine/topk/kit/select_cuda.h"

namespace nearfield::select {
namespace {

class TopkCApiDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status usable = gpu::ProbeGpu(0);
    if (!usable.ok()) GTEST_SKIP() << usable.message();
    ASSERT_EQ(nf_topk_create(0, &selector_), NF_TOPK_OK) << nf_topk_last_error();
  }
  void TearDown() override { nf_topk_destroy(selector_); }

  template <typename T>
  void Upload(DeviceMemory& memory, const std::vector<T>& values) {
    const auto bytes = values.size() * sizeof(T);
    ASSERT_OK(memory.Allocate(static_cast<int64_t>(bytes)));
    ASSERT_EQ(cudaMemcpy(memory.as<void>(), values.data(), bytes, cudaMemcpyDefault), cudaSuccess);
  }
  template <typename T>
  std::vector<T> Download(const DeviceMemory& memory) {
    std::vector<T> values(static_cast<std::size_t>(memory.bytes()) / sizeof(T));
    EXPECT_EQ(
        cudaMemcpy(values.data(), memory.as<void>(), values.size() * sizeof(T), cudaMemcpyDefault),
        cudaSuccess);
    return values;
  }

  nf_topk_selector* selector_ = nullptr;
};

TEST_F(TopkCApiDeviceTest, RaggedRowsOfIntegers) {
  const nf_topk_shape shape = {.struct_bytes = sizeof(nf_topk_shape),
                               .type = NF_TOPK_INT32,
                               .batch = 3,
                               .n = 5,
                               .k = 3,
                               .ragged = 1};
  DeviceMemory scores, begin, end, values, indices, workspace;
  Upload<int32_t>(scores, {9, -1, 7, 7, 8, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6});
  Upload<int32_t>(begin, {1, 4, 2});
  Upload<int32_t>(end, {5, 5, 1});
  ASSERT_OK(values.Allocate(9 * int64_t{sizeof(int32_t)}));
  ASSERT_OK(indices.Allocate(9 * int64_t{sizeof(uint32_t)}));
  int64_t bytes = 0;
  ASSERT_EQ(nf_topk_workspace_bytes(selector_, &shape, nullptr, &bytes), NF_TOPK_OK)
      << nf_topk_last_error();
  ASSERT_OK(workspace.Allocate(bytes));
  ASSERT_EQ(nf_topk_init_workspace(selector_, workspace.as<void>(), bytes, nullptr), NF_TOPK_OK);
  nf_topk_buffers buffers = {.struct_bytes = sizeof(nf_topk_buffers),
                             .scores = scores.as<void>(),
                             .row_begin = begin.as<int32_t>(),
                             .row_end = end.as<int32_t>(),
                             .values = values.as<void>(),
                             .indices = indices.as<uint32_t>(),
                             .workspace = workspace.as<void>(),
                             .workspace_bytes = bytes};
  ASSERT_EQ(nf_topk_run(selector_, &shape, &buffers, nullptr, nullptr), NF_TOPK_OK)
      << nf_topk_last_error();
  ASSERT_EQ(nf_topk_wait(selector_, nullptr), NF_TOPK_OK);
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(Download<int32_t>(values),
              ElementsAre(8, 7, 7, 5, kLowest, kLowest, kLowest, kLowest, kLowest));
  constexpr uint32_t kNone = NF_TOPK_NO_INDEX;
  EXPECT_THAT(Download<uint32_t>(indices),
              ElementsAre(3, 1, 2, 0, kNone, kNone, kNone, kNone, kNone));

  buffers.workspace_bytes = 1;
  EXPECT_EQ(nf_topk_run(selector_, &shape, &buffers, nullptr, nullptr), NF_TOPK_INVALID_ARGUMENT);
  EXPECT_THAT(nf_topk_last_error(), HasSubstr("workspace_bytes = 1"));
}

TEST_F(TopkCApiDeviceTest, WrongFieldsAreNamed) {
  nf_topk_shape shape = {
      .struct_bytes = sizeof(nf_topk_shape), .type = NF_TOPK_FLOAT32, .batch = 1, .n = 10, .k = 5};
  EXPECT_EQ(nf_topk_supports(selector_, &shape, nullptr), NF_TOPK_OK) << nf_topk_last_error();
  EXPECT_EQ(nf_topk_supports(selector_, &shape, "none such"), NF_TOPK_NOT_FOUND);
  nf_topk_buffers buffers = {.struct_bytes = sizeof(nf_topk_buffers)};
  EXPECT_EQ(nf_topk_run(selector_, &shape, &buffers, nullptr, nullptr), NF_TOPK_INVALID_ARGUMENT);
  EXPECT_THAT(nf_topk_last_error(), HasSubstr("scores is null"));
  const int32_t row = 0;
  buffers.row_begin = &row;
  EXPECT_EQ(nf_topk_run(selector_, &shape, &buffers, nullptr, nullptr), NF_TOPK_INVALID_ARGUMENT);
  EXPECT_THAT(nf_topk_last_error(), HasSubstr("ragged = 0"));
  shape.k = 11;
  EXPECT_EQ(nf_topk_supports(selector_, &shape, nullptr), NF_TOPK_INVALID_ARGUMENT);
  EXPECT_THAT(nf_topk_last_error(), AllOf(HasSubstr("k = 11"), HasSubstr("10")));
  shape.type = 6;
  EXPECT_EQ(nf_topk_supports(selector_, &shape, nullptr), NF_TOPK_INVALID_ARGUMENT);
  EXPECT_THAT(nf_topk_last_error(), HasSubstr("type = 6"));
  shape.struct_bytes = 4;
  EXPECT_EQ(nf_topk_supports(selector_, &shape, nullptr), NF_TOPK_INVALID_ARGUMENT);
  EXPECT_THAT(nf_topk_last_error(), HasSubstr("shape.struct_bytes = 4"));
}

TEST_F(TopkCApiDeviceTest, TheChoiceIsInTheList) {
  const nf_topk_shape shape = {.struct_bytes = sizeof(nf_topk_shape),
                               .type = NF_TOPK_FLOAT16,
                               .batch = 64,
                               .n = 100'000,
                               .k = 2048};
  const char* choice = nullptr;
  ASSERT_EQ(nf_topk_choice(selector_, &shape, &choice), NF_TOPK_OK) << nf_topk_last_error();
  std::vector<std::string> names;
  for (int32_t i = 0; nf_topk_algorithm_name(selector_, i) != nullptr; ++i) {
    names.emplace_back(nf_topk_algorithm_name(selector_, i));
    EXPECT_STRNE(nf_topk_algorithm_summary(selector_, i), "");
  }
  EXPECT_EQ(names.front(), "adaptive");
  EXPECT_THAT(names, ::testing::Contains(std::string(choice)));
}

}  // namespace
}  // namespace nearfield::select

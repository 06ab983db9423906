// Checks that a build without CUDA reports it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/gpu/make_gpu_topk_engine.h"
#include "engine/gpu/runtime/probe_gpu.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::gpu {
namespace {

using ::absl_testing::StatusIs;
using ::testing::HasSubstr;

TEST(GpuStubTest, SaysThatItWasBuiltWithoutCuda) {
  EXPECT_THAT(ProbeGpu(0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("built without CUDA")));
  EXPECT_THAT(MakeGpuTopkEngine({}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("built without CUDA")));
}

}  // namespace
}  // namespace nearfield::gpu

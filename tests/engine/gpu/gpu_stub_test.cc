// Checks that a build without CUDA reports it.

#include "engine/cuda/probe_gpu.h"
#include "engine/gpu/make_gpu_topk_engine.h"
#include "tests/engine/prelude.h"

namespace nearfield::gpu {
namespace {

TEST(GpuStubTest, SaysThatItWasBuiltWithoutCuda) {
  EXPECT_THAT(ProbeGpu(0), StatusIs(kFailedPrecondition, HasSubstr("built without CUDA")));
  EXPECT_THAT(MakeGpuTopkEngine({}),
              StatusIs(kFailedPrecondition, HasSubstr("built without CUDA")));
}

}  // namespace
}  // namespace nearfield::gpu

#include "tests/testing/gpu_capability.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "engine/base/check.h"

namespace nearfield::testing {

int32_t GpuCapabilityMax() {
  const char* const value =
      std::getenv("NEARFIELD_TEST_GPU_CAPABILITY");  // NOLINT(concurrency-mt-unsafe): no setenv
  int32_t capability = 0;
  if (value != nullptr) CHECK(absl::SimpleAtoi(value, &capability));
  return capability;
}

}  // namespace nearfield::testing

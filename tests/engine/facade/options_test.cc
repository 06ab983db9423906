#include "engine/options.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/physical_memory.h"
#include "engine/engine_core.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

TEST(EngineOptionsTest, EachOneOutOfRangeIsNamedWithValueAndLimit) {
  struct Case {
    std::function<void(EngineOptions*)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](auto* o) { o->k_max = 0; }, "k_max = 0, must be 1 .. 4096"},
      {[](auto* o) { o->k_max = 4097; }, "k_max = 4097, must be 1 .. 4096"},
      {[](auto* o) { o->batch_max = 0; }, "batch_max = 0, must be 1 .. 65536"},
      {[](auto* o) { o->batch_max = 65537; }, "batch_max = 65537"},
      {[](auto* o) { o->gpu_capability_max = -1; }, "gpu_capability_max = -1, must be 0 .. 999"},
      {[](auto* o) { o->ordinals_max = 0; }, "ordinals_max = 0, must be 1 .. 4294967296"},
      {[](auto* o) { o->ordinals_max = 4'294'967'297; }, "ordinals_max = 4294967297"},
      {[](auto* o) { o->threads = -1; }, "threads = -1, must be 0 .. "},
      {[](auto* o) { o->device = -1; }, "device = -1"},
      {[](auto* o) { o->memory_bytes = -5; }, "memory_bytes = -5"},
      {[](auto* o) { o->host_memory_bytes = -7; }, "host_memory_bytes = -7"},
      {[](auto* o) { o->host_memory_bytes = INT64_MAX; }, ", the memory that this process may use"},
      {[](auto* o) { o->host_rows_bytes = -9; }, "host_rows_bytes = -9"},
      {[](auto* o) { o->backend = static_cast<BackendChoice>(9); }, "backend = 9"},
  };
  for (const Case& bad : cases) {
    EngineOptions options;
    EXPECT_OK(CheckOptions(options));
    bad.change(&options);
    EXPECT_THAT(CheckOptions(options), StatusIs(kInvalidArgument, HasSubstr(bad.message)));
    EXPECT_THAT(
        MakeEngine(MakeFakeBackend(std::make_shared<FakeDevice>(FakeDeviceOptions{})), options, ""),
        StatusIs(kInvalidArgument));
  }
}

TEST(EngineOptionsTest, DefaultsOfMemoryAreSharesOfWhatThereIs) {
  const int64_t physical = PhysicalMemoryBytes();
  EXPECT_GT(physical, int64_t{1} << 20);
  EXPECT_LT(physical, int64_t{1} << 60);
  EXPECT_EQ(CpuMemoryBytes({}), physical / 2);
  EXPECT_EQ(HostMemoryBytes({}), physical / 4);
  EXPECT_EQ(CpuMemoryBytes({.memory_bytes = 17}), 17);
  EXPECT_EQ(HostMemoryBytes({.host_memory_bytes = 19}), 19);
}

TEST(EngineOptionsTest, TheCpuBackendPromisesNoMoreMemoryThanThereIs) {
  const int64_t physical = PhysicalMemoryBytes();
  EXPECT_OK(CheckCpuMemory({.memory_bytes = physical}));
  EXPECT_THAT(
      CheckCpuMemory({.memory_bytes = physical + 1}),
      StatusIs(kInvalidArgument, absl::StrCat("memory_bytes = ", physical + 1, ", must be at most ",
                                              physical, ", the memory that this process may use")));
}

TEST(EngineOptionsTest, ABackendMadeForFewerNeighborsIsRefused) {
  const auto device = std::make_shared<FakeDevice>(FakeDeviceOptions{.k_max = 100});
  EXPECT_THAT(MakeEngine(MakeFakeBackend(device), {.k_max = 100}, ""),
              StatusIs(kInvalidArgument, HasSubstr("k_max = 100")));
  EXPECT_OK(MakeEngine(MakeFakeBackend(device), {.k_max = 99}, ""));
}

TEST(EngineOptionsTest, InfoAndCapacityTellThem) {
  FakeEngineOptions options;
  options.engine = {.host_memory_bytes = 12345, .k_max = 50, .batch_max = 7};
  options.device.read_bytes_per_second = 4.5e12;
  const FakeEngine fake = MakeFakeEngine(options);
  const EngineInfo info = fake.engine->Info();
  EXPECT_EQ(info.k_max, 50);
  EXPECT_EQ(info.batch_max, 7);
  EXPECT_EQ(info.note, "for a test");
  EXPECT_EQ(info.device_name, "a fake");
  EXPECT_EQ(info.read_bytes_per_second, 4.5e12);
  EXPECT_EQ(fake.engine->GetCapacity().host_bytes_total, 12345);
  EXPECT_EQ(fake.engine->GetCapacity().device_bytes_total, int64_t{64} << 20);
}

}  // namespace
}  // namespace nearfield::testing

// Tests of the memory plan: the sum of its parts fits every machine, and a sum that does not fit is
// refused.
#include "server/config/memory_plan.h"

#include "server/config/load.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

absl::StatusOr<LoadOutcome> Load(std::vector<const char*> arguments, const HostMachine& machine,
                                 Settings* settings) {
  arguments.insert(arguments.begin(), "nearfield-server");
  return LoadSettings(static_cast<int>(arguments.size()), arguments.data(), {}, settings, machine);
}

// Regression: the defaults let a server of 1 GiB hold 1 GiB of replies, and rows and uploads in
// addition.
TEST(MemoryPlan, TheDefaultsFitSmallAndLargeMachines) {
  for (const int64_t gib : {1, 2, 4, 8, 16, 64, 128, 1024}) {
    for (const bool gpu : {false, true}) {
      if (gpu && gib < 4) continue;  // no such machine
      const HostMachine machine = {.memory_bytes = gib * kGiB, .cores = 2 * gib, .has_gpu = gpu};
      Settings settings;
      ASSERT_OK(Load({}, machine, &settings)) << gib << " GiB, GPU " << gpu;
      const MemoryPlan plan = PlanMemory(settings, machine);
      EXPECT_LE(plan.total_bytes, machine.memory_bytes) << plan.Text();
      EXPECT_GE(plan.host_memory_bytes, machine.memory_bytes / 16) << plan.Text();
      EXPECT_GE(plan.attribute_memory_bytes, machine.memory_bytes / 32) << plan.Text();
      if (gpu) {
        EXPECT_EQ(plan.memory_bytes, 0) << "rows lie in the GPU's memory";
      } else {
        EXPECT_GE(plan.memory_bytes, machine.memory_bytes / 4) << plan.Text();
      }
    }
  }
}

TEST(MemoryPlan, LargeMachinesHaveTheDefaultsThatAreDocumented) {
  Settings settings;
  ASSERT_OK(Load({}, {.memory_bytes = 64 * kGiB, .cores = 8}, &settings));
  EXPECT_EQ(settings.request_bytes_max.value(), 64 * kMiB);
  EXPECT_EQ(settings.response_bytes_max.value(), 64 * kMiB);
  EXPECT_EQ(settings.replies_bytes_max.value(), kGiB);
  EXPECT_EQ(settings.requests_bytes_max.value(), 512 * kMiB);
  EXPECT_EQ(settings.transport_bytes_max.value(), 512 * kMiB);
  EXPECT_EQ(settings.queue_bytes_max.value(), 256 * kMiB);
  EXPECT_EQ(settings.filter_cache_bytes.value(), 256 * kMiB);
}

TEST(MemoryPlan, WhatWasSetStaysAndOtherDefaultsGiveWay) {
  const HostMachine machine = {.memory_bytes = 16 * kGiB, .cores = 4};
  Settings settings;
  ASSERT_OK(Load({"--memory-bytes=14GiB", "--replies-bytes-max=256MiB"}, machine, &settings));
  const MemoryPlan plan = PlanMemory(settings, machine);
  EXPECT_EQ(plan.memory_bytes, 14 * kGiB);
  EXPECT_EQ(settings.replies_bytes_max.value(), 256 * kMiB);
  EXPECT_LT(settings.request_bytes_max.value(), 64 * kMiB);
  EXPECT_LE(plan.total_bytes, machine.memory_bytes);
}

// Regression: each setting was checked alone, and their sum was not compared with the memory.
TEST(MemoryPlan, ASumBeyondTheMemoryIsRefusedAndNamesItsParts) {
  Settings settings;
  EXPECT_THAT(Load({"--backend=cpu", "--memory-bytes=3GiB", "--replies-bytes-max=2GiB"},
                   {.memory_bytes = 4 * kGiB, .cores = 2}, &settings),
              FailsWith(kInvalidArgument, "this process may use 4294967296",
                        "memory_bytes 3221225472", "replies_bytes_max 2147483648"));
  Settings no_room;
  EXPECT_THAT(Load({"--backend=cpu", "--memory-bytes=3GiB"},
                   {.memory_bytes = 3 * kGiB + 200 * kMiB, .cores = 2}, &no_room),
              FailsWith(kInvalidArgument, "leaves nothing for data"));
}

TEST(MemoryPlan, CheckConfigPrintsTheSumWithItsParts) {
  const HostMachine machine = {.memory_bytes = 8 * kGiB, .cores = 4};
  Settings settings;
  ASSERT_OK_AND_ASSIGN(const auto printed, Load({"--check-config"}, machine, &settings));
  const MemoryPlan plan = PlanMemory(settings, machine);
  int64_t sum = 0;
  for (const MemoryPart& part : plan.parts) {
    sum += part.bytes;
    EXPECT_THAT(printed.output, HasSubstr("#   " + part.name + ": " + std::to_string(part.bytes)));
  }
  EXPECT_EQ(sum, plan.total_bytes);
  EXPECT_THAT(printed.output,
              HasSubstr("# memory sum: " + std::to_string(sum) + " of 8589934592\n"));
}

}  // namespace
}  // namespace nearfield::server

// Tests of the memory plan: the sum of its parts fits every machine, and a sum that does not fit is
// refused.
#include "server/config/memory_plan.h"

#include <sstream>
#include <string>
#include <vector>

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
  EXPECT_EQ(settings.term_memory_bytes.value(), 512 * kMiB);
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

// The lines that --check-config prints after `heading`, until the next one, and their sum.
struct PrintedParts {
  std::vector<std::string> names;
  int64_t sum = 0;
  int64_t printed_sum = 0;
};
PrintedParts PartsAfter(const std::string& text, const std::string& heading) {
  PrintedParts parts;
  const size_t at = text.find(heading);
  EXPECT_NE(at, std::string::npos) << text;
  std::istringstream lines(text.substr(at + heading.size()));
  std::string line;
  std::getline(lines, line);  // the end of the heading
  while (std::getline(lines, line) && line.starts_with("#   ")) {
    const size_t colon = line.find(": ");
    const std::string name = line.substr(4, colon - 4);
    const int64_t bytes = std::stoll(line.substr(colon + 2));
    if (name == "sum") {
      parts.printed_sum = bytes;
    } else {
      parts.names.push_back(name);
      parts.sum += bytes;
    }
  }
  return parts;
}

// Regression: one list and one sum, 94% of the machine, which a server without rows never takes.
TEST(MemoryPlan, CheckConfigTellsReservationsFromLimitsWithASumOfEach) {
  for (const bool gpu : {false, true}) {
    const HostMachine machine = {.memory_bytes = 8 * kGiB, .cores = 4, .has_gpu = gpu};
    Settings settings;
    ASSERT_OK_AND_ASSIGN(const auto printed,
                         Load({"--check-config", "--host-rows-bytes=64MiB"}, machine, &settings));
    const PrintedParts taken = PartsAfter(printed.output, "# Taken when it starts");
    const PrintedParts limits =
        PartsAfter(printed.output, "# Limits: an empty, idle server takes none of this");
    if (gpu) {
      EXPECT_THAT(taken.names, ElementsAre("memory_bytes", "host_rows_bytes", "process"));
      EXPECT_GE(taken.sum, 64 * kMiB);
      EXPECT_THAT(printed.output, HasSubstr("in the memory of each GPU"));
    } else {
      EXPECT_THAT(taken.names, ElementsAre("process"));  // the CPU backend takes rows as they come
      EXPECT_THAT(limits.names, Contains("memory_bytes"));
    }
    EXPECT_THAT(limits.names,
                ::testing::IsSupersetOf({"host_memory_bytes", "replies_bytes_max", "connections",
                                         "filter_cache_bytes", "term_memory_bytes"}));
    EXPECT_EQ(taken.printed_sum, taken.sum);
    EXPECT_EQ(limits.printed_sum, limits.sum);
    const MemoryPlan plan = PlanMemory(settings, machine);
    EXPECT_EQ(taken.sum + limits.sum, plan.total_bytes);
    EXPECT_THAT(printed.output, HasSubstr("# memory sum: " + std::to_string(plan.total_bytes) +
                                          " of 8589934592, if every limit is reached"));
  }
}

}  // namespace
}  // namespace nearfield::server

// The bytes of host memory that the server may hold: its parts, their sum, and defaults that fit.
#ifndef NEARFIELD_SERVER_CONFIG_MEMORY_PLAN_H_
#define NEARFIELD_SERVER_CONFIG_MEMORY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/config/settings.h"

namespace nearfield::server {

// The machine, or as much of it as the process's cgroup allows.
struct HostMachine {
  int64_t memory_bytes = 0;
  int64_t cores = 1;
  bool has_gpu = false;  // a device node is there: with backend = auto, rows lie in its memory
};
HostMachine ThisMachine();

struct MemoryPart {
  std::string name;   // the setting that bounds it, or what it is
  std::string bound;  // how the bytes follow from settings
  int64_t bytes = 0;
};

struct MemoryPlan {
  // Settings that are 0, resolved: shares of what all other parts leave.
  int64_t memory_bytes = 0;  // of rows on the CPU backend; 0: rows lie in a GPU's memory
  int64_t host_memory_bytes = 0;
  int64_t attribute_memory_bytes = 0;

  // The other parts leave next to nothing for settings that are 0.
  bool starved = false;

  std::vector<MemoryPart> parts;
  int64_t total_bytes = 0;
  int64_t physical_bytes = 0;

  // One comment line for each part, and one for the sum.
  std::string Text() const;
};

// Replaces defaults that are too large for the machine. What was set stays.
void ScaleDefaults(const HostMachine& machine, Settings* settings);

// Requires validated settings.
MemoryPlan PlanMemory(const Settings& settings, const HostMachine& machine);

// Errors: InvalidArgument (the sum exceeds the machine's memory; names sum, memory and parts).
absl::Status CheckFits(const MemoryPlan& plan);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONFIG_MEMORY_PLAN_H_

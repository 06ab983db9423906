// MemoryPlan: the host memory that the server may hold. Computes its parts, their sum, and defaults
// that fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/config/settings.h"

namespace nearfield::server {

// The machine, limited to what the process's cgroup allows.
struct HostMachine {
  int64_t memory_bytes = 0;
  int64_t cores = 1;
  bool has_gpu = false;  // a device node exists: with backend = auto, rows are in GPU memory
};
HostMachine ThisMachine();

struct MemoryPart {
  std::string name;   // the setting that limits it, or a description
  std::string bound;  // what takes it, or how the bytes follow from settings
  int64_t bytes = 0;
  bool is_reserved = false;  // taken when the server starts; false: an upper limit
};

struct MemoryPlan {
  // The values of these settings. A setting of 0 (automatic) is replaced by a share of what all
  // other parts leave.
  int64_t memory_bytes = 0;  // 0 if the rows are in GPU memory
  int64_t host_memory_bytes = 0;
  int64_t attribute_memory_bytes = 0;

  // True if the other parts leave almost nothing for the automatic values.
  bool starved = false;

  std::vector<MemoryPart> parts;
  int64_t reserved_bytes = 0;  // of the parts that are taken at the start
  int64_t total_bytes = 0;     // of all parts
  int64_t physical_bytes = 0;

  // Returns comment lines: the parts that are taken at the start, those that are limits, and a sum
  // of each and of both.
  std::string Text() const;
};

// Lowers defaults that are too large for the machine. Values that were set explicitly do not
// change.
void ScaleDefaults(const HostMachine& machine, Settings* settings);

// Requires: validated settings.
MemoryPlan PlanMemory(const Settings& settings, const HostMachine& machine);

// Errors: InvalidArgument (the sum exceeds the machine's memory; names sum, memory and parts).
absl::Status CheckFits(const MemoryPlan& plan);

}  // namespace nearfield::server

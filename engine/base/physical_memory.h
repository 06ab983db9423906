// The memory of the machine, as far as it is this process's to use.
#ifndef NEARFIELD_ENGINE_BASE_PHYSICAL_MEMORY_H_
#define NEARFIELD_ENGINE_BASE_PHYSICAL_MEMORY_H_

#include <cstdint>

namespace nearfield {

// Bytes of memory this process may use: the machine's, or less where its cgroup (a container)
// allows less.
int64_t PhysicalMemoryBytes();

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_BASE_PHYSICAL_MEMORY_H_

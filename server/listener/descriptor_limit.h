// Raises and reads the limit on the process's descriptors.
#pragma once

#include <cstdint>

namespace nearfield::server {

// Raises the soft limit of descriptors to the hard limit.
void RaiseDescriptorLimit();

// Returns the soft limit.
int64_t DescriptorLimit();

}  // namespace nearfield::server

// Raises and reads the limit on the process's descriptors.
#ifndef NEARFIELD_SERVER_EDGE_DESCRIPTOR_LIMIT_H_
#define NEARFIELD_SERVER_EDGE_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace nearfield::server {

// Raises the soft limit of descriptors to the hard limit.
void RaiseDescriptorLimit();

// Returns the soft limit.
int64_t DescriptorLimit();

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_EDGE_DESCRIPTOR_LIMIT_H_

// AcceptCounts: counts of a server's connections.
#pragma once

#include <cstdint>

namespace nearfield::server {

struct AcceptCounts {
  int64_t open = 0;  // now
  int64_t accepted = 0;
  int64_t refused = 0;  // closed immediately, because connections_max were open
  int64_t pauses = 0;   // of accepting, for lack of descriptors or memory
};

}  // namespace nearfield::server

// AcceptCounts: counts of a server's connections.
#ifndef NEARFIELD_SERVER_EDGE_ACCEPT_COUNTS_H_
#define NEARFIELD_SERVER_EDGE_ACCEPT_COUNTS_H_

#include <cstdint>

namespace nearfield::server {

struct AcceptCounts {
  int64_t open = 0;  // now
  int64_t accepted = 0;
  int64_t refused = 0;  // closed immediately, because connections_max were open
  int64_t pauses = 0;   // for lack of descriptors or memory
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_EDGE_ACCEPT_COUNTS_H_

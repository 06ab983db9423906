// QueryAnswer: the answer to one query, with its epoch.
#ifndef NEARFIELD_CLIENT_CLI_QUERY_ANSWER_H_
#define NEARFIELD_CLIENT_CLI_QUERY_ANSWER_H_

#include <cstdint>

#include "nearfield/client/replies.h"

namespace nearfield::client {

struct QueryAnswer {
  uint64_t epoch = 0;
  Neighbors neighbors;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_QUERY_ANSWER_H_

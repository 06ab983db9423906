// QueryAnswer: the answer to one query, with its epoch.
#pragma once

#include <cstdint>

#include "nearfield/client/replies.h"

namespace nearfield::client {

struct QueryAnswer {
  uint64_t epoch = 0;
  Neighbors neighbors;
};

}  // namespace nearfield::client

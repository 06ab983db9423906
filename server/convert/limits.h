// RequestLimits: the limits on one request and its reply. GetLimits reports these and others.
#pragma once

#include <cstdint>

namespace nearfield::server {

struct RequestLimits {
  int64_t k_max = 0;
  int64_t queries_max = 0;    // in one search
  int64_t fetch_ids_max = 0;  // in one fetch or delete
  int64_t response_bytes_max = 0;
  int64_t payload_bytes_max = 0;  // of one row
  int64_t upload_block_bytes_max = 0;
  int64_t page_rows_max = 0;
};

}  // namespace nearfield::server

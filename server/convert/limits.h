// RequestLimits: what this server accepts in one request, as GetLimits reports it.
#pragma once

#include <cstdint>

namespace nearfield::server {

struct RequestLimits {
  int64_t k_max = 0;
  int64_t queries_max = 0;    // in one search
  int64_t fetch_ids_max = 0;  // in one fetch or delete
  int64_t request_bytes_max = 0;
  int64_t response_bytes_max = 0;
  int64_t payload_bytes_max = 0;  // of one row
  int64_t upload_block_bytes_max = 0;
  int64_t collections_max = 0;
  int64_t queue_requests_max = 0;
  int64_t cursor_ms = 0;
  int64_t page_rows_max = 0;
  int64_t epochs_kept_max = 0;
  int64_t epochs_kept_percent = 0;
  int64_t uploads_max = 0;
  int64_t verify_max = 0;
  int64_t upload_tokens_max = 0;
  int64_t upload_token_s = 0;
  int64_t upload_idle_ms = 0;
  int64_t caller_share_percent = 0;
  int64_t search_ms_max = 0;
  int64_t reply_unread_ms = 0;
  int64_t requests_bytes_max = 0;
  int64_t replies_bytes_max = 0;
  int64_t streams_max = 0;
  int64_t snapshots_max = 0;
};

}  // namespace nearfield::server

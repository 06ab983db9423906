// Limits: what a server accepts at most.
#pragma once

#include <cstdint>

namespace nearfield::client {

// common.proto, GetLimitsResponse.
struct Limits {
  uint32_t dim_max = 0;
  uint32_t k_max = 0;
  uint32_t queries_max = 0;
  uint32_t fetch_ids_max = 0;
  uint64_t request_bytes_max = 0;
  uint64_t response_bytes_max = 0;
  uint32_t id_bytes_max = 0;
  uint32_t payload_bytes_max = 0;
  uint32_t collection_name_bytes_max = 0;
  uint64_t upload_block_bytes_max = 0;
  uint64_t rows_per_collection_max = 0;
  uint32_t collections_max = 0;
  uint32_t queue_requests_max = 0;
  uint64_t cursor_ms = 0;        // milliseconds for which the epoch of a cursor is kept
  uint64_t page_rows_max = 0;    // rows of one ranking that pages of Search may reach
  uint32_t epochs_kept_max = 0;  // for the cursors and SearchAll streams of one caller
  // Maximum percent of the row memory for rows that exist only in kept epochs.
  uint32_t epochs_kept_percent = 0;
  uint32_t uploads_max = 0;
  uint32_t verify_max = 0;
  uint32_t aliases_max = 0;
  uint32_t upload_token_bytes_max = 0;
  uint32_t attributes_max = 0;
  uint32_t attribute_keyword_bytes_max = 0;
  uint32_t attribute_list_values_max = 0;
  uint32_t attribute_row_bytes_max = 0;
  uint32_t filter_levels_max = 0;
  uint32_t filter_conditions_max = 0;
  uint32_t filter_values_max = 0;
  uint32_t filter_bytes_max = 0;
  uint32_t facet_values_max = 0;  // values of one attribute that Facets returns
  uint32_t upload_tokens_max = 0;
  uint64_t upload_token_s = 0;
  uint64_t upload_tokens_committed_max = 0;
  uint64_t upload_idle_ms = 0;
  uint32_t caller_share_percent = 0;
  uint64_t search_ms_max = 0;
  uint64_t reply_unread_ms = 0;
  uint64_t requests_bytes_max = 0;
  uint64_t replies_bytes_max = 0;
  uint32_t streams_max = 0;
  uint32_t snapshots_max = 0;
};

}  // namespace nearfield::client

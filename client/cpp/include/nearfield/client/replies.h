// What is asked for and what comes back, as plain values.
#ifndef NEARFIELD_CLIENT_REPLIES_H_
#define NEARFIELD_CLIENT_REPLIES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// One vector as bytes of a narrow or wide type; the server widens it exactly.
struct EncodedQuery {
  DataType dtype = DataType::kFloat32;
  std::string_view bytes;
};

// An fp32 vector, an encoded vector, or the id of a stored row (which is then left out of the
// answer).
using Query = std::variant<std::span<const float>, EncodedQuery, Id>;

// Who goes first where two searches wait for the device. The answer is the same.
enum class SearchPriority : uint8_t {
  kInteractive = 1,  // somebody waits for the answer
  kBatch = 2,        // work in bulk: waits for the others; give it a deadline to match
};

struct SearchOptions {
  uint32_t k = 10;
  bool with_payload = false;
  bool with_vectors = false;
  std::optional<Filter> filter;          // only rows that pass are in the answer
  std::optional<float> score_threshold;  // only neighbors with at least this score; not NaN
  // Wait until the collection has reached this epoch: to read what was written. Errors:
  // FailedPrecondition where it has not within the deadline.
  std::optional<uint64_t> min_epoch;
  // Of which min_epoch is (CollectionInfo). Errors: FailedPrecondition where the collection has
  // another one, as it was created anew or restored.
  std::optional<uint64_t> incarnation;
  SearchPriority priority = SearchPriority::kInteractive;
  // Pages: Neighbors::next_cursor names the place behind an answer, and a search with that cursor
  // and the same query, filter and threshold goes on there, in the same epoch.
  bool with_cursor = false;
  std::string cursor;  // empty: begin
  // Ask for the digest of the answer; it is recomputed here, and a reply that does not fit its own
  // digest is DataLoss.
  bool with_digest = false;
  // The server's oracle checks the answer before it is sent: slow, and DataLoss where it is wrong.
  bool verify = false;
  std::optional<std::chrono::milliseconds> deadline;  // absent: that of the client
};

// Neighbors of one query, best first: place i of each column belongs to neighbor i.
struct Neighbors {
  IdColumn ids;
  std::vector<float> scores;          // higher is better; infinities are legal
  std::vector<std::string> payloads;  // with_payload: one a neighbor, empty where the row has none
  EncodedVectors vectors;             // with_vectors: one row a neighbor, in the collection's dtype
  std::string next_cursor;  // where one was asked for; empty: no row follows, or `cut` is set
  // Rows follow, but Limits::page_rows_max lets Search give no cursor to them: SearchAll gives
  // them.
  bool cut = false;
  // With a filter: rows of the collection that pass it, without the row of a query by id.
  std::optional<uint64_t> matched_rows;
};

// Queries whose candidates were too many for the room there is, by what was done about it.
struct ScanEscalations {
  uint64_t tighter = 0;    // collected once more, with a threshold of exact scores
  uint64_t canonical = 0;  // scanned over the exact rows
};

// Where the time went, and which path served the search. Device time, candidates, bytes and
// escalations are those of the whole pass, which `batch_size` queries shared.
struct SearchCost {
  uint64_t queue_us = 0;
  uint64_t device_us = 0;
  uint64_t total_us = 0;
  uint32_t batch_size = 0;
  Backend backend = Backend::kUnknown;
  ScanPrecision scan_precision = ScanPrecision::kUnknown;
  uint64_t candidates = 0;  // in a scan of codes: rows scored exactly
  uint64_t rows_scanned = 0;
  uint64_t bytes_read = 0;  // of codes and rows
  ScanEscalations escalations;
  uint64_t read_ns_min = 0;  // in which the device can read bytes_read at best; 0: unknown

  // The share of the device's read limit that the pass reached: 1 is all of it. A corpus that fits
  // a cache may pass it. Absent: unknown.
  std::optional<double> read_limit_share() const {
    if (read_ns_min == 0 || device_us == 0) return std::nullopt;
    return static_cast<double>(read_ns_min) / (1000.0 * static_cast<double>(device_us));
  }
};

struct SearchAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;        // of which the epoch is; 0: the server does not say
  std::vector<Neighbors> results;  // one a query, in order
  SearchCost cost;
  std::string request_id;
  std::string digest;  // with_digest: 32 bytes, checked; see digest.h
};

// A search whose pages come one after the other.
struct SearchAllOptions {
  // Of the pages. k: rows of one at most; 0: as many as the server gives. The deadline is that of
  // the whole; absent: none.
  SearchOptions search = {.k = 0};
  std::optional<uint64_t> results_max;  // absent: all
};

struct FetchOptions {
  bool with_payload = true;
  bool with_vectors = true;
  std::optional<uint64_t> min_epoch;    // as in a search
  std::optional<uint64_t> incarnation;  // as in a search
  std::optional<std::chrono::milliseconds> deadline;
};

// Found rows in the order asked for.
struct FetchAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of which the epoch is
  IdColumn ids;
  EncodedVectors vectors;             // with_vectors: one a row
  std::vector<std::string> payloads;  // with_payload: one a row
  IdColumn missing;
};

struct CountOptions {
  std::optional<Filter> filter;         // only rows that pass count
  std::optional<uint64_t> min_epoch;    // as in a search
  std::optional<uint64_t> incarnation;  // as in a search
  std::optional<std::chrono::milliseconds> deadline;
};

struct CountAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of which the epoch is
  uint64_t rows_count = 0;
};

struct DeleteAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of which the epoch is
  uint64_t rows_deleted = 0;
};

struct VerifyClaim {
  uint32_t k = 10;
  std::optional<uint64_t> epoch;  // absent: the current one
  const Neighbors* neighbors =
      nullptr;                   // ids and scores to check; null: the server searches by itself
  std::optional<Filter> filter;  // as in the search
  std::string filter_message;    // in place of `filter`: its bytes as a Filter message
  std::optional<float> score_threshold;
  uint64_t skip = 0;  // rows of the order before the claim: those of earlier pages
};

struct VerifyAnswer {
  bool equal = false;
  uint64_t epoch = 0;
  uint64_t rows_checked = 0;
  int32_t first_difference = -1;  // place of the first wrong neighbor; -1 where equal
  std::string explanation;        // empty where equal
  Neighbors expected;             // the oracle's answer: ids and scores
  uint64_t oracle_us = 0;
};

struct CollectionSpec {
  std::string name;
  uint32_t dim = 0;
  Metric metric = Metric::kDot;
  DataType dtype = DataType::kFloat32;
  IdType id_type = IdType::kUint64;
  ScanChoice scan = ScanChoice::kAuto;
  RowHome rows = RowHome::kDevice;
  std::vector<AttributeSpec> attributes;  // that its rows may have
};

struct CollectionInfo {
  CollectionSpec spec;
  uint64_t epoch = 0;
  // Drawn when it was created, and again by a restore: epochs count within one. 0: the server does
  // not say.
  uint64_t incarnation = 0;
  uint64_t rows_count = 0;
  uint64_t rows_deleted = 0;  // whose memory is not yet given back
  uint32_t generations_count = 0;
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
  std::vector<std::string> aliases;  // in order
  // What scans read, where the spec leaves it to the server; kUnknown: the server does not say.
  ScanPrecision scan_precision = ScanPrecision::kUnknown;
  bool durable = false;  // its rows are there again after a restart
  std::string error;     // why its rows could not be loaded; empty where they were
};

// What an alias named before; empty where it is new.
struct AliasAnswer {
  CollectionInfo collection;  // that it names now
  std::string collection_before;
};

struct SnapshotInfo {
  std::string name;
  uint64_t files_count = 0;
  uint64_t bytes = 0;  // of its files, some of which other snapshots and the server may share
  int64_t created_unix_s = 0;  // by the server's clock
  std::string error;           // its list of files is damaged: why
};

struct CompactAnswer {
  uint64_t rows_given_back = 0;  // deleted rows, of the memory
  uint64_t device_bytes_given_back = 0;
  uint64_t host_bytes_given_back = 0;
  uint64_t stored_rows_given_back = 0;  // the same of the disk
  uint64_t stored_bytes_given_back = 0;
};

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
  uint64_t cursor_ms = 0;            // for which the epoch of a cursor is kept
  uint64_t page_rows_max = 0;        // rows of one order that pages of Search may reach
  uint32_t epochs_kept_max = 0;      // for the cursors and SearchAll streams of one caller
  uint32_t epochs_kept_percent = 0;  // of the memory for rows, what only kept epochs may hold
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
};

struct Capacity {
  Backend backend = Backend::kUnknown;
  std::string device_name;
  uint64_t device_bytes_total = 0;
  uint64_t device_bytes_used = 0;
  uint64_t host_bytes_total = 0;
  uint64_t host_bytes_used = 0;
  uint64_t host_rows_bytes_total = 0;  // for rows of RowHome::kHost on a GPU
  uint64_t host_rows_bytes_used = 0;
  uint64_t attribute_bytes_total = 0;  // of host memory, for the attributes of all rows
  uint64_t attribute_bytes_used = 0;
  std::string server_version;
};

// Sums since the start of the server. They only grow, except open_count; a restart begins again.
struct Counters {
  // Calls of one method that ended with one status; a stream is one call.
  struct Calls {
    std::string method;  // "Search"
    std::string status;  // "OK", "RESOURCE_EXHAUSTED", ...
    uint64_t calls_count = 0;
    uint64_t rows_count = 0;  // returned, uploaded, deleted or checked
    uint64_t total_us = 0;    // in the server
  };
  // Device passes that answered, each once, however many searches shared it.
  struct Passes {
    uint64_t passes_count = 0;
    // Their queries, by what most of the pass's queries scanned.
    uint64_t queries_rows_count = 0;
    uint64_t queries_int8_count = 0;
    uint64_t device_us = 0;
    uint64_t candidates = 0;
    uint64_t bytes_read = 0;
    ScanEscalations escalations;
  };
  // Of live traffic.
  struct Audit {
    uint64_t answers_audited_count = 0;  // checked to the end
    uint64_t answers_dropped_count = 0;  // chosen, and not checked: it was busy or had to rest
    uint64_t answers_failed_count = 0;   // whose check ended with an error
    uint64_t mismatches_count = 0;
    uint64_t rows_checked_count = 0;
  };
  struct Connections {
    uint64_t open_count = 0;  // now
    uint64_t accepted_count = 0;
    uint64_t refused_count = 0;  // closed at once: connections_max were open
    uint64_t pauses_count = 0;   // of accepting, without a descriptor or memory for a connection
  };

  int64_t started_unix_ms = 0;
  std::vector<Calls> calls;  // ordered by method, then status
  Passes passes;
  Audit audit;
  Connections connections;
  uint64_t log_lines_dropped_count = 0;  // the reader of the log was too slow for them
};

enum class Health : uint8_t { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// "SERVING", "NOT_SERVING", ...
std::string_view Name(Health health);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_REPLIES_H_

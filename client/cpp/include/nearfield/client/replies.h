// Requests and replies of the client, as plain values.
#pragma once

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
#include "nearfield/client/limits.h"
#include "nearfield/client/terms.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// One vector as bytes of one of the data types; the server widens it to fp32 exactly.
struct EncodedQuery {
  DataType dtype = DataType::kFloat32;
  std::string_view bytes;
};

// An fp32 vector, an encoded vector, or the id of a stored row (which the answer excludes).
using Query = std::variant<std::span<const float>, EncodedQuery, Id>;

// Order of searches that wait for the device. It does not change the answer.
enum class SearchPriority : uint8_t {
  kInteractive = 1,  // a user waits for the answer
  kBatch = 2,        // bulk work: waits for the others; set a deadline to match
};

struct SearchOptions {
  uint32_t k = 10;
  bool with_payload = false;
  bool with_vectors = false;
  // Names of declared attributes to return, each at most once; or only "*" for all of them.
  std::vector<std::string> attributes = {};
  std::optional<Filter> filter;          // only rows that pass are in the answer
  std::optional<float> score_threshold;  // only neighbors with at least this score; not NaN
  std::optional<RowTerms> terms;         // added to the score of each row
  bool with_parts = false;               // return what each final score consists of
  // Return the k best groups instead of the k best rows: all rows with one value of this attribute
  // are a group, which its best row ranks ("Groups" in retrieval.proto). Empty: no groups.
  std::string group_by = {};
  uint32_t group_rows = 1;  // with group_by: maximum number of rows of each group
  // Wait for this epoch: read your writes. Errors: FailedPrecondition (deadline).
  std::optional<uint64_t> min_epoch;
  // Read exactly this epoch: the current one, or one that is kept (PinEpoch). Name its incarnation,
  // too. Errors: FailedPrecondition (it is not kept).
  std::optional<uint64_t> at_epoch;
  // The incarnation of these epochs (CollectionInfo). Errors: FailedPrecondition (the collection
  // has another one, because it was created again or restored).
  std::optional<uint64_t> incarnation;
  SearchPriority priority = SearchPriority::kInteractive;
  // Pages: Neighbors::next_cursor names the place after an answer. A search with that cursor and
  // the same query, filter, terms and threshold continues there, in the same epoch.
  bool with_cursor = false;
  std::string cursor;  // empty: start at the first row
  // Request the digest of the answer. The client computes it again; an answer that does not match
  // its digest is DataLoss.
  bool with_digest = false;
  // Let the server's oracle check the answer before it is sent: slow. Errors: DataLoss.
  bool verify = false;
  std::optional<std::chrono::milliseconds> deadline;  // absent: the client's deadline
};

// The groups of an answer, best first. Its neighbors are those of the first group, then those of
// the second one, and so on.
struct Groups {
  AttributeValues values;             // one for each group
  std::vector<uint32_t> rows_counts;  // neighbors of each group
};

// Neighbors of one query, best first: element i of each column belongs to neighbor i.
struct Neighbors {
  IdColumn ids;
  std::vector<float> scores;          // higher is better; infinities are legal
  std::vector<ScoreParts> parts;      // with_parts: one per neighbor
  std::vector<std::string> payloads;  // with_payload: one per neighbor, empty if the row has none
  EncodedVectors vectors;  // with_vectors: one row per neighbor, in the collection's dtype
  // SearchOptions::attributes: a column for each, in the order of the collection's declaration,
  // with one row per neighbor. A column without any value has integers, whatever its type is.
  std::vector<AttributeColumn> attributes;
  std::string next_cursor;  // if requested; empty: no row follows, or `cut` is set
  // Rows follow beyond Limits::page_rows_max, without a cursor: use SearchAll.
  bool cut = false;
  // With a filter or group_by: rows of the collection that pass it and are in a group, excluding
  // the row of a query by id.
  std::optional<uint64_t> matched_rows;
  std::optional<Groups> groups;  // SearchOptions::group_by
};

// Queries whose candidates did not fit into the space reserved for them, by fallback.
struct ScanEscalations {
  uint64_t tighter = 0;    // scanned again, with a threshold made of exact scores
  uint64_t canonical = 0;  // scanned over the exact rows
};

// Where the time went, and which path served the search. Device time, candidates, bytes and
// escalations are those of the whole device pass, which `batch_size` queries shared.
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
  uint64_t read_ns_min = 0;  // minimum time in which the device can read bytes_read; 0: unknown

  // Returns the share of the device's read limit that the pass reached; 1 is all of it. A corpus
  // that fits into a cache may exceed 1. Absent: unknown.
  std::optional<double> read_limit_share() const {
    if (read_ns_min == 0 || device_us == 0) return std::nullopt;
    return static_cast<double>(read_ns_min) / (1000.0 * static_cast<double>(device_us));
  }
};

struct SearchAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;        // of the epoch; 0: the server does not report it
  std::vector<Neighbors> results;  // one per query, in order
  SearchCost cost;
  std::string request_id;
  std::string digest;  // with_digest: 32 bytes, checked; see digest.h
};

// Options of a search whose pages follow one another.
struct SearchAllOptions {
  // Options of each page. k: maximum rows of a page; 0: as many as the server allows. The deadline
  // is that of the whole search; absent: none.
  SearchOptions search = {.k = 0};
  std::optional<uint64_t> results_max;  // absent: all
};

struct FetchOptions {
  bool with_payload = true;
  bool with_vectors = true;
  std::vector<std::string> attributes = {};  // as in a search
  std::optional<uint64_t> min_epoch;         // as in a search
  std::optional<uint64_t> at_epoch;          // as in a search
  std::optional<uint64_t> incarnation;       // as in a search
  std::optional<std::chrono::milliseconds> deadline;
};

// The rows that were found, in the order of the request.
struct FetchAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of the epoch
  IdColumn ids;
  EncodedVectors vectors;                   // with_vectors: one per row
  std::vector<std::string> payloads;        // with_payload: one per row
  std::vector<AttributeColumn> attributes;  // as in Neighbors, with one row per row found
  IdColumn missing;
};

// Options of a scan, which returns rows in the order of their ids.
struct ScanOptions {
  bool with_payload = true;
  bool with_vectors = true;
  std::vector<std::string> attributes = {};  // as in a search
  std::optional<Filter> filter;              // only rows that pass
  std::optional<uint64_t> min_epoch;         // as in a search
  std::optional<uint64_t> at_epoch;          // as in a search
  std::optional<uint64_t> incarnation;       // as in a search
  std::string cursor;                        // ScanPage::next_cursor; empty: start at the first row
  std::optional<uint64_t> rows_max;          // at least 1; absent: all
  std::optional<std::chrono::milliseconds> deadline;  // of the whole scan; absent: none
};

// Rows that follow one another in the order of the ids: element i of each column belongs to row i.
struct ScanPage {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of the epoch
  IdColumn ids;
  EncodedVectors vectors;                   // with_vectors: one per row, in the collection's dtype
  std::vector<std::string> payloads;        // with_payload: one per row, empty if the row has none
  std::vector<AttributeColumn> attributes;  // as in Neighbors, with one row per row of the page
  std::string next_cursor;                  // empty: no row follows
  uint64_t rows_count = 0;                  // of the whole scan
};

struct CountOptions {
  std::optional<Filter> filter;         // count only rows that pass
  std::optional<uint64_t> min_epoch;    // as in a search
  std::optional<uint64_t> at_epoch;     // as in a search
  std::optional<uint64_t> incarnation;  // as in a search
  std::optional<std::chrono::milliseconds> deadline;
};

struct PinOptions {
  std::optional<uint64_t> at_epoch;     // an epoch that is kept; absent: the current one
  std::optional<uint64_t> min_epoch;    // as in a search
  std::optional<uint64_t> incarnation;  // as in a search
  std::optional<std::chrono::milliseconds> deadline;
};

// An epoch that the server keeps.
struct PinnedEpoch {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;             // of the epoch
  uint64_t rows_count = 0;              // live rows of the epoch
  std::chrono::milliseconds kept = {};  // how long it is kept after this call
};

struct CountAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of the epoch
  uint64_t rows_count = 0;
};

struct DeleteAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of the epoch
  uint64_t rows_deleted = 0;
};

struct VerifyClaim {
  uint32_t k = 10;
  std::optional<uint64_t> epoch;         // absent: the current one
  const Neighbors* neighbors = nullptr;  // ids and scores; null: the server runs the search
  std::optional<Filter> filter;          // as in the search
  std::optional<RowTerms> terms;         // as in the search
  std::optional<float> score_threshold;
  uint64_t skip = 0;  // rows that rank before the claim: those of earlier pages
};

struct VerifyAnswer {
  bool equal = false;
  uint64_t epoch = 0;
  uint64_t rows_checked = 0;
  int32_t first_difference = -1;  // position of the first wrong neighbor; -1 if equal
  std::string explanation;        // empty if equal
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
  RowPlacement rows = RowPlacement::kDevice;
  // How many devices share the rows, if the server has several; 0: the server chooses.
  uint32_t devices = 0;
  std::vector<AttributeSpec> attributes;  // that rows may have
  // The name of the model that makes its vectors; empty: unknown. The Python client refuses others.
  std::string embedding_model;
};

struct CollectionInfo {
  CollectionSpec spec;
  uint64_t epoch = 0;
  // Drawn when the collection was created, and again by a restore. Epochs are numbered within one
  // incarnation. 0: the server does not report it.
  uint64_t incarnation = 0;
  uint64_t rows_count = 0;
  uint64_t rows_deleted = 0;  // whose memory is not released yet
  uint32_t generations_count = 0;
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
  std::vector<std::string> aliases;  // in order
  // What scans read, if the spec leaves the choice to the server; kUnknown: not reported.
  ScanPrecision scan_precision = ScanPrecision::kUnknown;
  bool durable = false;  // its rows survive a restart
  std::string error;     // why its rows could not be loaded; empty if they were
  // Failed reads of its stored rows since the server's start; above 0, a restart may not load it.
  uint64_t read_failures_count = 0;
  std::string owner;  // the principal that created it; empty: none
};

// The result of SetAlias. collection_before: the alias's collection before; empty if it is new.
struct AliasAnswer {
  CollectionInfo collection;  // the collection that it names now
  std::string collection_before;
};

// The result of AddAttribute and DropAttribute: the first epoch with the new declaration.
struct AttributeAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;  // of the epoch
};

struct SnapshotInfo {
  std::string name;
  uint64_t files_count = 0;
  uint64_t bytes = 0;  // size of its files, some of which other snapshots and the server may share
  int64_t created_unix_s = 0;  // by the server's clock
  std::string error;           // why its list of files is damaged; else empty
  std::string owner;           // the principal that made it; empty: made without a key
};

struct CompactAnswer {
  uint64_t rows_given_back = 0;  // deleted rows that were removed from memory
  uint64_t device_bytes_given_back = 0;
  uint64_t host_bytes_given_back = 0;
  uint64_t stored_rows_given_back = 0;  // deleted rows that were removed from disk
  uint64_t stored_bytes_given_back = 0;
};

struct Capacity {
  Backend backend = Backend::kUnknown;
  std::string device_name;
  uint64_t device_bytes_total = 0;
  uint64_t device_bytes_used = 0;
  uint64_t host_bytes_total = 0;
  uint64_t host_bytes_used = 0;
  uint64_t host_rows_bytes_total = 0;  // for rows of RowPlacement::kHost on a GPU
  uint64_t host_rows_bytes_used = 0;
  uint64_t attribute_bytes_total = 0;  // part of the host memory, for the attributes of all rows
  uint64_t attribute_bytes_used = 0;
  std::string server_version;
  std::vector<PrincipalUse> principals;  // those with collections or with a limit of their own
  std::vector<DeviceUse> devices;        // the parts of device_bytes, if there are several devices
};

// Sums since the start of the server. They only grow, except open_count; a restart resets them.
struct Counters {
  // Calls of one method that ended with one status; a stream is one call.
  struct Calls {
    std::string method;  // "Search"
    std::string status;  // "OK", "RESOURCE_EXHAUSTED", ...
    uint64_t calls_count = 0;
    uint64_t rows_count = 0;  // returned, uploaded, deleted or checked
    uint64_t total_us = 0;    // in the server
  };
  // Device passes that returned answers. Each adds one, regardless of how many searches shared it.
  struct Passes {
    uint64_t passes_count = 0;
    // Queries in passes in which most queries scanned rows; queries in the other passes (int8
    // codes).
    uint64_t queries_rows_count = 0;
    uint64_t queries_int8_count = 0;
    uint64_t device_us = 0;
    uint64_t candidates = 0;
    uint64_t bytes_read = 0;
    ScanEscalations escalations;
  };
  // The audit of live traffic.
  struct Audit {
    uint64_t answers_audited_count = 0;  // checks that finished
    uint64_t answers_dropped_count = 0;  // chosen, but the audit was busy or had to pause
    uint64_t answers_failed_count = 0;   // checks that ended with an error
    uint64_t mismatches_count = 0;
    uint64_t rows_checked_count = 0;
  };
  struct Connections {
    uint64_t open_count = 0;  // now
    uint64_t accepted_count = 0;
    uint64_t refused_count = 0;  // closed immediately: connections_max were open
    uint64_t pauses_count = 0;   // accepting paused: no descriptor or memory for a connection
  };

  int64_t started_unix_ms = 0;
  std::vector<Calls> calls;  // ordered by method, then status
  Passes passes;
  Audit audit;
  Connections connections;
  uint64_t log_lines_dropped_count = 0;  // because the reader of the log was too slow
};

// The phase of a server, and how far its start is. kLost: the device is lost, the process ends.
enum class ServerPhase : uint8_t {
  kUnknown = 0,
  kStarting = 1,
  kServing = 2,
  kDraining = 3,
  kLost = 4
};
std::string_view Name(ServerPhase phase);  // "starting"

struct ServerState {
  // The loading of stored collections at the start.
  struct Loading {
    uint64_t collections_loaded = 0;
    uint64_t collections_count = 0;
    uint64_t bytes_read = 0;  // of their files
    uint64_t bytes_total = 0;
    std::optional<uint64_t> seconds_left;  // an estimate; absent: too early
  };
  ServerPhase phase = ServerPhase::kUnknown;
  std::string reason;              // why it does not serve; empty: it serves
  std::optional<Loading> loading;  // present during the loading
};

enum class Health : uint8_t { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// "SERVING", "NOT_SERVING", ...
std::string_view Name(Health health);

}  // namespace nearfield::client

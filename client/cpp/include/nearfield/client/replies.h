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

struct SearchOptions {
  uint32_t k = 10;
  bool with_payload = false;
  bool with_vectors = false;
  std::optional<std::chrono::milliseconds> deadline;  // absent: that of the client
};

// Neighbors of one query, best first: place i of each column belongs to neighbor i.
struct Neighbors {
  IdColumn ids;
  std::vector<float> scores;          // higher is better; infinities are legal
  std::vector<std::string> payloads;  // with_payload: one a neighbor, empty where the row has none
  EncodedVectors vectors;             // with_vectors: one row a neighbor, in the collection's dtype
};

// Where the time went, and which path served the search.
struct SearchCost {
  uint64_t queue_us = 0;
  uint64_t device_us = 0;
  uint64_t total_us = 0;
  uint32_t batch_size = 0;
  Backend backend = Backend::kUnknown;
  ScanPrecision scan_precision = ScanPrecision::kUnknown;
  uint64_t candidates = 0;
  uint64_t rows_scanned = 0;
  uint64_t bytes_read = 0;
};

struct SearchAnswer {
  uint64_t epoch = 0;
  std::vector<Neighbors> results;  // one a query, in order
  SearchCost cost;
  std::string request_id;
};

struct FetchOptions {
  bool with_payload = true;
  bool with_vectors = true;
  std::optional<std::chrono::milliseconds> deadline;
};

// Found rows in the order asked for.
struct FetchAnswer {
  uint64_t epoch = 0;
  IdColumn ids;
  EncodedVectors vectors;             // with_vectors: one a row
  std::vector<std::string> payloads;  // with_payload: one a row
  IdColumn missing;
};

struct CountAnswer {
  uint64_t epoch = 0;
  uint64_t rows_count = 0;
};

struct DeleteAnswer {
  uint64_t epoch = 0;
  uint64_t rows_deleted = 0;
};

struct VerifyClaim {
  uint32_t k = 10;
  std::optional<uint64_t> epoch;  // absent: the current one
  const Neighbors* neighbors =
      nullptr;  // ids and scores to check; null: the server searches by itself
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
};

struct CollectionInfo {
  CollectionSpec spec;
  uint64_t epoch = 0;
  uint64_t rows_count = 0;
  uint64_t rows_deleted = 0;  // whose memory is not yet given back
  uint32_t generations_count = 0;
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
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
};

struct Capacity {
  Backend backend = Backend::kUnknown;
  std::string device_name;
  uint64_t device_bytes_total = 0;
  uint64_t device_bytes_used = 0;
  uint64_t host_bytes_total = 0;
  uint64_t host_bytes_used = 0;
  std::string server_version;
};

enum class Health : uint8_t { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// "SERVING", "NOT_SERVING", ...
std::string_view Name(Health health);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_REPLIES_H_

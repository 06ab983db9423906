// EncodeRecord: writes a wrong answer or a wrong resident row as one JSON object, with enough data
// to repeat the check on another machine. README.md lists its members.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "server/audit/audited_answer.h"

namespace nearfield::server {

// Maximum bytes of a filter's bits in a record, and of the rows near the first difference. A larger
// filter is recorded by its digest.
inline constexpr int64_t kRecordFilterBytesMax = int64_t{1} << 20;
inline constexpr int64_t kRecordRowsBytesMax = int64_t{1} << 20;

// The server and the time of a record.
struct RecordContext {
  std::string server_version;
  EngineInfo engine;
  int64_t unix_seconds = 0;
};

struct AnswerMismatch {
  const char* found_by = "audit";  // "audit" or "verify"
  const AuditedAnswer& audited;
  const VerifyResult& verdict;
};

struct RowMismatch {
  std::string collection_name;
  CollectionSpec spec;
  std::string file;   // in the data directory
  int64_t block = 0;  // in that file
  Id id;
  uint64_t epoch = 0;  // of the resident row
  std::vector<uint8_t> stored;
  std::string stored_payload;
  // Absent: the row is not in memory.
  std::optional<std::vector<uint8_t>> resident;
  std::string resident_payload;
};

// Describes the mismatch in one sentence.
std::string Explain(const AnswerMismatch& mismatch);
std::string Explain(const RowMismatch& mismatch);

// Includes the resident rows around the first difference if the collection is still at that epoch.
std::string EncodeRecord(const RecordContext& context, const AnswerMismatch& mismatch);
std::string EncodeRecord(const RecordContext& context, const RowMismatch& mismatch);

}  // namespace nearfield::server

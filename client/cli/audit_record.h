// AuditRecord: a server's record of a wrong answer or a wrong row in memory
// (server/audit/README.md), and the checks of it that need no server.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/logged_reply.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

struct AuditRecord {
  bool of_answer = true;  // else of a row in memory
  std::string server_version;
  std::string backend;
  std::string found_by;
  CollectionSpec spec;
  uint64_t epoch = 0;
  std::string explanation;

  // For an answer.
  LoggedReply answer;  // the query is its own vector or an id
  Neighbors expected;
  uint64_t skip = 0;  // rows of the order before the answer
  bool filtered = false;
  // The filter as it was sent; both may be empty even if there was one.
  std::string filter_text;
  std::vector<std::string> filter_args;            // the bytes of FilterArgument messages
  std::map<Id, bool> passes;                       // of `rows`, if there was a filter
  std::string terms;                               // the bytes of the RowTerms message, as sent
  std::optional<double> score_weight;              // absent: there were no terms
  std::map<Id, double> term_sums;                  // of `rows`, if there were terms
  std::map<Id, std::vector<float>> rows;           // as they were in memory; may be incomplete
  std::optional<std::vector<float>> query_vector;  // absent: a row that is not in the record

  // For a row.
  std::string file;
  uint64_t block = 0;
  Id id;
  std::string stored;
  std::optional<std::string> resident;  // absent: not in memory
};

// Errors: InvalidArgument (names the member and the reason).
absl::StatusOr<AuditRecord> ParseAuditRecord(std::string_view text);

enum class ReplayVerdict : uint8_t {
  kReproduced,     // the record's own data prove that the answer or row was wrong
  kNotReproduced,  // they do not
  kOracleDiffers,  // the oracle's scores do not match the record's rows
  kUnknown,        // the record lacks the rows that the check needs
};

struct Replay {
  ReplayVerdict verdict = ReplayVerdict::kUnknown;
  std::vector<std::string> findings;  // one per line
};

// Checks a record without a server. For a wrong answer, computes the scores of the record's rows by
// the contract's formula; for a damaged row, compares its stored bytes with those in memory.
Replay ReplayOffline(const AuditRecord& record);

}  // namespace nearfield::client

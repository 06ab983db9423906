// A record that a server wrote of a wrong answer or a wrong resident row
// (server/catalog/audit/README.md), and what can be said of it without any server.
#ifndef NEARFIELD_CLIENT_CLI_AUDIT_RECORD_H_
#define NEARFIELD_CLIENT_CLI_AUDIT_RECORD_H_

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
  bool of_answer = true;  // else of a resident row
  std::string server_version;
  std::string backend;
  std::string found_by;
  CollectionSpec spec;
  uint64_t epoch = 0;
  std::string explanation;

  // Of an answer.
  LoggedReply answer;  // the query is its own vector or an id
  Neighbors expected;
  uint64_t skip = 0;  // rows of the order before the answer
  bool filtered = false;
  std::string filter_message;                      // may be empty in spite of a filter
  std::map<Id, bool> passes;                       // of `rows`, with a filter
  std::map<Id, std::vector<float>> rows;           // as they lay in memory; some of them
  std::optional<std::vector<float>> query_vector;  // absent: a row that is not in the record

  // Of a row.
  std::string file;
  uint64_t block = 0;
  Id id;
  std::string stored;
  std::optional<std::string> resident;  // absent: not in memory at all
};

// Errors: InvalidArgument naming the member and the reason.
absl::StatusOr<AuditRecord> ParseAuditRecord(std::string_view text);

enum class ReplayVerdict : uint8_t {
  kReproduced,     // the record's own data prove the answer or row wrong
  kNotReproduced,  // they prove nothing wrong
  kOracleDiffers,  // the oracle's scores are not those of the record's rows
  kUnknown,        // the record has not the rows that it takes
};

struct Replay {
  ReplayVerdict verdict = ReplayVerdict::kUnknown;
  std::vector<std::string> findings;  // one a line
};

// Scores the record's rows by the contract's formula, or compares the two sides of a row.
Replay ReplayOffline(const AuditRecord& record);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_AUDIT_RECORD_H_

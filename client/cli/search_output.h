// How the answer to a query is printed.
#ifndef NEARFIELD_CLIENT_CLI_SEARCH_OUTPUT_H_
#define NEARFIELD_CLIENT_CLI_SEARCH_OUTPUT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/query_answer.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

struct SearchOutputOptions {
  bool json = false;
  bool explain = false;
  bool with_payload = false;
  bool with_vectors = false;
  bool with_cursor = false;
  std::vector<std::string> fields;  // members of JSON payloads to show
};

struct SearchReport {
  uint64_t query_number = 0;
  std::string label;  // "query 3", "id apt"
  const QueryAnswer* answer = nullptr;
  const SearchCost* cost = nullptr;     // of the request that the query was part of
  const VerifyAnswer* check = nullptr;  // null where none was asked for
  uint64_t first_place = 0;             // neighbors before these, on earlier pages
};

// One JSON line, or a heading, a table and what was asked for besides.
std::string FormatReport(const SearchReport& report, const SearchOutputOptions& options);

// A cursor, which is any bytes, as text and back (base64). Errors: InvalidArgument.
std::string CursorText(std::string_view cursor);
absl::StatusOr<std::string> ParseCursor(std::string_view text);

// "none", or "3 tighter, 1 canonical".
std::string EscalationsText(const ScanEscalations& escalations);

// What the oracle found, in words: "verified ..." or "MISMATCH ...".
std::string Verdict(const VerifyAnswer& check);

// "epoch 3; path gpu/int8; 120 candidates of 5,000 rows scanned, 2.00 MB read; escalations none",
// and a line of times with the share of the read limit, where the server knows it.
std::string Explanation(const SearchCost& cost, uint64_t epoch);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_SEARCH_OUTPUT_H_

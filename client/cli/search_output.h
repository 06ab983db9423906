// Output of search answers.
#pragma once

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
  const SearchCost* cost = nullptr;     // of the request that contained the query
  const VerifyAnswer* check = nullptr;  // null if no check was requested
  uint64_t first_place = 0;             // number of neighbors on earlier pages
};

// Returns one JSON line, or a heading, a table and the requested extras.
std::string FormatReport(const SearchReport& report, const SearchOutputOptions& options);

// Encodes a cursor (any bytes) as base64 text, and decodes it. Errors: InvalidArgument.
std::string CursorText(std::string_view cursor);
absl::StatusOr<std::string> ParseCursor(std::string_view text);

// Returns "none", or "3 tighter, 1 canonical".
std::string EscalationsText(const ScanEscalations& escalations);

// Returns the oracle's verdict as text: "verified ..." or "MISMATCH ...".
std::string Verdict(const VerifyAnswer& check);

// Returns "epoch 3; path gpu/int8; 120 candidates of 5,000 rows scanned, 2.00 MB read; escalations
// none", and a line of times with the share of the read limit, if the server knows it.
std::string Explanation(const SearchCost& cost, uint64_t epoch);

}  // namespace nearfield::client

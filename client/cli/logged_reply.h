// LoggedReply: one line of a log of replies: a query with its options, and the answer with its
// epoch and digest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "client/formats/json_fields.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

// A query that owns its bytes.
using LoggedQuery = std::variant<EncodedVectors, Id>;

LoggedQuery Own(const Query& query);
Query View(const LoggedQuery& query);  // borrows

struct LoggedReply {
  std::string collection;
  uint64_t epoch = 0;
  uint32_t k = 10;
  LoggedQuery query;
  std::string filter;  // as text, as it was sent; empty: none
  std::string terms;   // the bytes of the RowTerms message; empty: none
  std::optional<float> score_threshold;
  Neighbors neighbors;  // ids and scores
};

// Returns one JSON object without a line break. Its digest covers this answer only.
std::string ToJsonLine(const LoggedReply& reply);

// Parses the members "ids" and "score_bits". Errors: InvalidArgument.
absl::StatusOr<Neighbors> ParseNeighbors(const JsonFields& fields);

// Errors: InvalidArgument (not a line of a log; says why), DataLoss (the answer does not match its
// digest: the log was damaged or changed).
absl::StatusOr<LoggedReply> ParseLoggedReply(std::string_view line);

}  // namespace nearfield::client

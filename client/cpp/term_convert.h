// Conversion of row terms to proto and back.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/terms.h"
#include "nearfield/v1/terms.pb.h"

namespace nearfield::client {

// Errors: InvalidArgument (a text cannot be sent).
absl::Status ToProto(const RowTerms& terms, v1::RowTerms* proto);

// Sets the terms of a request. Errors: InvalidArgument (a text cannot be sent).
template <typename Request>
absl::Status SetTerms(const std::optional<RowTerms>& terms, Request* request) {
  if (!terms) return absl::OkStatus();
  return ToProto(*terms, request->mutable_terms());
}

// Errors: Internal (the message has the parts of another number of rows).
absl::StatusOr<std::vector<ScoreParts>> TakeParts(const v1::ScoreParts& proto, size_t rows_count);

}  // namespace nearfield::client

// Conversion of the row terms of a search.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"
#include "nearfield/v1/terms.pb.h"
#include "server/attributes/schema.h"
#include "server/attributes/term_list.h"
#include "server/convert/common.h"

namespace nearfield::server {

// Returns the native form of the terms. Errors: InvalidArgument (names the term, the field, its
// value and the limit).
absl::StatusOr<TermList> FromProto(const pb::RowTerms& terms, IdType id_type,
                                   const AttributeSchema& schema);

// Returns an upper bound on the memory that FromProto takes in addition to the request.
int64_t TermsMemoryMax(const pb::RowTerms& terms);

void ToProto(absl::Span<const ScoreParts> parts, pb::ScoreParts* message);

}  // namespace nearfield::server

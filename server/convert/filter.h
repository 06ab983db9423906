// Conversion to native types for filters: from messages, and from text in messages.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "server/attributes/filter.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/limits.h"
#include "server/attributes/schema.h"
#include "server/audit/audited_answer.h"
#include "server/convert/common.h"

namespace nearfield::server {

// The filter of a request as the client sent it: a message, a text, or neither. Borrows from the
// request. A request with both is invalid.
struct GivenFilter {
  const pb::Filter* message = nullptr;
  const std::string* text = nullptr;

  bool given() const { return message != nullptr || text != nullptr; }
};

// Returns the filter of a request that has the fields `filter` and `filter_text`.
template <typename Request>
GivenFilter FilterOf(const Request& request) {
  return {.message = request.has_filter() ? &request.filter() : nullptr,
          .text = request.has_filter_text() ? &request.filter_text() : nullptr};
}

// Returns the filter for an audit record.
SentFilter ToSent(const GivenFilter& given);

// Returns the native form of the filter, checked against the schema. Equal filters have the same
// form, whether they were sent as a message or as a text. Errors: InvalidArgument (with the path of
// the condition, or the column of the text). Requires: given.given().
absl::StatusOr<Filter> ValidFilter(const GivenFilter& given, IdType id_type,
                                   const AttributeSchema& schema);

// Returns an upper bound on the memory that ValidFilter takes in addition to the request; 0 for a
// message.
int64_t FilterMemoryMax(const GivenFilter& given);

// Returns the tree as it was sent. ValidateFilter() checks it against the schema. Uses no
// recursion, and stops at the limits on levels, conditions and values for any message.
// Errors: InvalidArgument, with the path of the condition.
absl::StatusOr<FilterTree> FromProto(const pb::Filter& filter, IdType id_type,
                                     const AttributeLimits& limits);

}  // namespace nearfield::server

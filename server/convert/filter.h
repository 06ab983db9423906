// The filter of a request, and its conversion to the native form.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "server/attributes/filter.h"
#include "server/attributes/filter_text.h"
#include "server/attributes/schema.h"
#include "server/audit/audited_answer.h"
#include "server/convert/common.h"

namespace nearfield::server {

// The filter of a request as the client sent it. Borrows from the request.
struct GivenFilter {
  const std::string* text = nullptr;
  const google::protobuf::RepeatedPtrField<pb::FilterArgument>* arguments = nullptr;
  FilterFields fields = {};

  bool given() const { return text != nullptr || (arguments != nullptr && !arguments->empty()); }
};

// Returns the filter of a request that has the fields `filter_text` and `filter_args`.
template <typename Request>
GivenFilter FilterOf(const Request& request) {
  return {.text = request.has_filter_text() ? &request.filter_text() : nullptr,
          .arguments = &request.filter_args()};
}

// Returns the filter for an audit record.
SentFilter ToSent(const GivenFilter& given);

// Returns the native form of the filter. Errors: InvalidArgument (with the column of the text, or
// the argument). Requires: given.given().
absl::StatusOr<Filter> FromProto(const GivenFilter& given, IdType id_type,
                                 const AttributeSchema& schema);

// Returns an upper bound on the memory that FromProto takes in addition to the request.
int64_t FilterMemoryMax(const GivenFilter& given);

}  // namespace nearfield::server

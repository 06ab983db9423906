#include "server/convert/groups.h"

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "server/convert/attributes.h"

namespace nearfield::server {

absl::StatusOr<std::optional<Grouping>> GroupingFromProto(const pb::SearchRequest& request,
                                                          const AttributeSchema& schema, int32_t k,
                                                          const RequestLimits& limits) {
  if (!request.has_group_by()) {
    if (!request.has_group_rows()) return std::optional<Grouping>();
    return ArgumentError("group_by", "absent, group_rows needs one", "absent");
  }
  ABSL_ASSIGN_OR_RETURN(const int32_t attribute,
                        AttributeFromProto("group_by", request.group_by(), schema));
  const AttributeSpec& spec = schema.at(attribute);
  if (spec.is_list) {
    return ArgumentError("group_by",
                         absl::StrCat("\"", spec.name, "\" is a ", Describe(spec),
                                      ", must have one value in each row"),
                         spec.name, "an attribute that is not a list");
  }
  const int64_t rows_max = request.has_group_rows() ? request.group_rows() : 1;
  ABSL_RETURN_IF_ERROR(CheckRange("group_rows", rows_max, 1, limits.k_max));
  if (k * rows_max > limits.k_max) {
    return MustBe("group_rows", absl::StrCat(rows_max),
                  absl::StrCat("at most ", limits.k_max / k, " for k = ", k,
                               ", because k * group_rows is at most ", limits.k_max));
  }
  return std::optional<Grouping>(
      {.attribute = spec.name, .rows_max = static_cast<int32_t>(rows_max)});
}

void ToProto(const GroupColumn& groups, pb::GroupColumn* message) {
  ToProto(groups.values, message->mutable_values());
  message->mutable_rows_counts()->Add(groups.rows_counts.begin(), groups.rows_counts.end());
}

}  // namespace nearfield::server

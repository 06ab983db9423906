#include "server/rpc/group_claims.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/convert/attributes.h"
#include "server/convert/common.h"

namespace nearfield::server {
namespace {

// Appends a row to an answer.
void AppendNeighbor(const Neighbors& rows, int64_t row, Neighbors* answer) {
  answer->ids.AppendFrom(rows.ids, row);
  answer->scores.push_back(rows.scores[static_cast<size_t>(row)]);
}

// Returns the place of the first row of a group.
int64_t FirstRow(const GroupColumn& groups, int64_t group) {
  int64_t row = 0;
  for (int64_t i = 0; i < group; ++i) row += groups.rows_counts[static_cast<size_t>(i)];
  return row;
}

// Adds an argument, and returns its name in the text: "$3".
std::string AddArgument(const pb::FilterArgument& argument, SentFilter* sent) {
  sent->arguments.push_back(argument.SerializeAsString());
  return absl::StrCat("$", sent->arguments.size());
}

std::string AddArgument(const ValueColumn& values, SentFilter* sent) {
  pb::FilterArgument argument;
  ToProto(values, argument.mutable_values());
  return AddArgument(argument, sent);
}

std::string AddArgument(const IdColumn& ids, SentFilter* sent) {
  pb::FilterArgument argument;
  IdsToProto(ids, argument.mutable_ids());
  return AddArgument(argument, sent);
}

// Adds a condition to the text.
void AndAlso(const std::string& condition, SentFilter* sent) {
  sent->text = sent->text.empty() ? condition : absl::StrCat("(", sent->text, ") and ", condition);
}

}  // namespace

GroupClaims::Claim GroupClaims::OfOrder(const Neighbors& rows, const GroupColumn& groups) const {
  const std::string& attribute = search_.grouping.attribute;
  Claim claim;
  claim.sent = search_.sent;
  claim.skip = groups.ids_before.size();
  claim.k = search_.k;
  claim.answer.ids = IdColumn(rows.ids.type());
  ValueColumn values = groups.values_before;
  IdColumn best = groups.ids_before;
  for (int64_t group = 0, row = 0; group < groups.values.size(); ++group) {
    values.AppendFrom(groups.values, group);
    best.AppendFrom(rows.ids, row);
    AppendNeighbor(rows, row, &claim.answer);
    row += groups.rows_counts[static_cast<size_t>(group)];
  }
  const std::string name = absl::StrCat("`", attribute, "`");
  if (values.size() == 0) {
    AndAlso(absl::StrCat("exists(", name, ")"), &claim.sent);
    claim.rows = Leaf({.kind = ConditionKind::kExists, .children = {}, .attribute = attribute});
    return claim;
  }
  AndAlso(
      absl::StrCat("exists(", name, ") and (not ", name, " in ", AddArgument(values, &claim.sent),
                   " or id in ", AddArgument(best, &claim.sent), ")"),
      &claim.sent);
  claim.rows =
      Join(ConditionKind::kOr, {Join(ConditionKind::kNot, {Leaf({.kind = ConditionKind::kIn,
                                                                 .children = {},
                                                                 .attribute = attribute,
                                                                 .values = std::move(values)})}),
                                Leaf({.kind = ConditionKind::kHasId,
                                      .children = {},
                                      .attribute = "",
                                      .values = {},
                                      .ids = std::move(best)})});
  return claim;
}

GroupClaims::Claim GroupClaims::OfGroup(int64_t group, const Neighbors& rows,
                                        const GroupColumn& groups) const {
  const std::string& attribute = search_.grouping.attribute;
  Claim claim;
  claim.sent = search_.sent;
  claim.k = search_.grouping.rows_max;
  claim.answer.ids = IdColumn(rows.ids.type());
  const int64_t first = FirstRow(groups, group);
  for (int64_t i = 0; i < groups.rows_counts[static_cast<size_t>(group)]; ++i) {
    AppendNeighbor(rows, first + i, &claim.answer);
  }
  ValueColumn value(groups.values.type());
  value.AppendFrom(groups.values, group);
  AndAlso(absl::StrCat("`", attribute, "` == ", AddArgument(value, &claim.sent)), &claim.sent);
  claim.rows = Leaf({.kind = ConditionKind::kComparison,
                     .children = {},
                     .attribute = attribute,
                     .comparison = Comparison::kEqual,
                     .values = std::move(value)});
  return claim;
}

absl::Status GroupClaims::Set(int64_t claim, const Neighbors& rows, const GroupColumn& groups,
                              const std::function<bool()>& cancelled,
                              AuditedAnswer* audited) const {
  Claim made = claim == 0 ? OfOrder(rows, groups) : OfGroup(claim - 1, rows, groups);
  const NamedCollection& named = *search_.named;
  const auto schema = named.attributes->SchemaAt(audited->at->epoch());
  std::vector<FilterTree> parts = {search_.filter, std::move(made.rows)};
  const Filter filter(Join(ConditionKind::kAnd, std::move(parts)), *schema);
  ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen, named.attributes->Choose(*named.collection, filter,
                                                                          audited->at, cancelled));
  Query query = audited->query.View();
  query.k = made.k;
  query.skip = made.skip;
  query.tell_more = false;
  query.filter = chosen.rows;
  audited->query = OwnedQuery(query);
  audited->answer = std::move(made.answer);
  audited->filter = std::move(made.sent);
  return absl::OkStatus();
}

}  // namespace nearfield::server

#include "server/attributes/filter_tree.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nearfield::server {
namespace {

// Returns the name of the condition's member in the message, as used in errors and JSON.
const char* MemberOf(ConditionKind kind) {
  switch (kind) {
    case ConditionKind::kAnd: return "and";
    case ConditionKind::kOr: return "or";
    case ConditionKind::kNot: return "not";
    case ConditionKind::kComparison: return "comparison";
    case ConditionKind::kIn: return "in";
    case ConditionKind::kListAny: return "list_any";
    case ConditionKind::kListAll: return "list_all";
    case ConditionKind::kExists: return "exists";
    case ConditionKind::kHasId: return "has_id";
  }
  return "?";
}

bool IsJunction(ConditionKind kind) {
  return kind == ConditionKind::kAnd || kind == ConditionKind::kOr;
}

// Returns the place of each condition's parent; -1 for the root.
std::vector<int32_t> ParentsOf(const FilterTree& tree) {
  std::vector<int32_t> parents(tree.conditions.size(), -1);
  for (size_t i = 0; i < tree.conditions.size(); ++i) {
    for (const int32_t child : tree.conditions[i].children) {
      parents[static_cast<size_t>(child)] = static_cast<int32_t>(i);
    }
  }
  return parents;
}

void AppendNumber(uint64_t number, std::string* bytes) {
  for (int byte = 0; byte < 8; ++byte) bytes->push_back(static_cast<char>(number >> (8 * byte)));
}

void AppendText(std::string_view text, std::string* bytes) {
  AppendNumber(text.size(), bytes);
  bytes->append(text);
}

// Returns the number of distinct parts, then the parts in order.
std::string JoinSet(std::vector<std::string> parts) {
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  std::string bytes;
  AppendNumber(parts.size(), &bytes);
  for (const std::string& part : parts) AppendText(part, &bytes);
  return bytes;
}

bool IsText(const ValueColumn& values) { return values.is_keyword(); }
bool IsText(const IdColumn& ids) { return ids.type() == IdType::kString; }
std::string_view TextAt(const ValueColumn& values, int64_t i) { return values.keyword(i); }
std::string_view TextAt(const IdColumn& ids, int64_t i) { return ids.string(i); }
uint64_t NumberAt(const ValueColumn& values, int64_t i) {
  return static_cast<uint64_t>(values.key(i));
}
uint64_t NumberAt(const IdColumn& ids, int64_t i) { return ids.number(i); }

template <typename Column>
std::string BytesOf(const Column& column) {
  std::vector<std::string> parts(static_cast<size_t>(column.size()));
  for (int64_t i = 0; i < column.size(); ++i) {
    std::string& part = parts[static_cast<size_t>(i)];
    if (IsText(column)) {
      part = TextAt(column, i);
    } else {
      AppendNumber(NumberAt(column, i), &part);
    }
  }
  return JoinSet(std::move(parts));
}

// Returns the size of the values or ids that FilterBytes counts.
template <typename Column>
int64_t SizeOf(const Column& column) {
  if (!IsText(column)) return 8 * column.size();
  int64_t bytes = 4 * column.size();
  for (int64_t i = 0; i < column.size(); ++i) {
    bytes += static_cast<int64_t>(TextAt(column, i).size());
  }
  return bytes;
}

std::string CanonicalCondition(const Condition& condition, std::vector<std::string> children) {
  std::string bytes;
  bytes.push_back(static_cast<char>(condition.kind));
  bytes.push_back(static_cast<char>(condition.comparison));
  bytes.push_back(static_cast<char>(condition.values.type()));
  bytes.push_back(static_cast<char>(condition.ids.type()));
  AppendText(condition.attribute, &bytes);
  bytes += BytesOf(condition.values);
  bytes += BytesOf(condition.ids);
  bytes += JoinSet(std::move(children));
  return bytes;
}

}  // namespace

bool IsTree(const FilterTree& tree) {
  const auto size = static_cast<int32_t>(tree.conditions.size());
  std::vector<bool> has_parent(tree.conditions.size(), false);
  for (int32_t i = 0; i < size; ++i) {
    for (const int32_t child : tree.conditions[static_cast<size_t>(i)].children) {
      if (child <= i || child >= size || has_parent[static_cast<size_t>(child)]) return false;
      has_parent[static_cast<size_t>(child)] = true;
    }
  }
  return size > 0 && std::count(has_parent.begin(), has_parent.end(), true) == size - 1;
}

int64_t FilterDepth(const FilterTree& tree) {
  std::vector<int64_t> levels(tree.conditions.size(), 1);
  for (size_t i = 0; i < tree.conditions.size(); ++i) {
    for (const int32_t child : tree.conditions[i].children) {
      levels[static_cast<size_t>(child)] = levels[i] + 1;
    }
  }
  return *std::max_element(levels.begin(), levels.end());
}

int64_t FilterBytes(const FilterTree& tree) {
  int64_t bytes = 0;
  for (const Condition& condition : tree.conditions) bytes += FilterBytes(condition);
  return bytes;
}

int64_t FilterBytes(const Condition& condition) {
  return 8 + static_cast<int64_t>(condition.attribute.size()) + SizeOf(condition.values) +
         SizeOf(condition.ids);
}

std::string PathOf(const FilterTree& tree, int32_t condition) {
  const std::vector<int32_t> parents = ParentsOf(tree);
  const auto at = [&](int32_t place) -> const Condition& {
    return tree.conditions[static_cast<size_t>(place)];
  };
  std::string path = absl::StrCat(".", MemberOf(at(condition).kind));
  for (int32_t child = condition; parents[static_cast<size_t>(child)] >= 0;) {
    const int32_t parent = parents[static_cast<size_t>(child)];
    const std::vector<int32_t>& siblings = at(parent).children;
    const auto place = std::find(siblings.begin(), siblings.end(), child) - siblings.begin();
    const std::string index = IsJunction(at(parent).kind) ? absl::StrCat("[", place, "]") : "";
    path = absl::StrCat(".", MemberOf(at(parent).kind), index, path);
    child = parent;
  }
  return "filter" + path;
}

std::string PathOfNextChild(const FilterTree& tree, int32_t condition) {
  const Condition& parent = tree.conditions[static_cast<size_t>(condition)];
  const std::string index =
      IsJunction(parent.kind) ? absl::StrCat("[", parent.children.size(), "]") : "";
  return absl::StrCat(PathOf(tree, condition), index);
}

std::string CanonicalBytes(const FilterTree& tree) {
  std::vector<std::string> canonical(tree.conditions.size());
  for (size_t i = tree.conditions.size(); i-- > 0;) {
    std::vector<std::string> children;
    for (const int32_t child : tree.conditions[i].children) {
      children.push_back(std::move(canonical[static_cast<size_t>(child)]));
    }
    canonical[i] = CanonicalCondition(tree.conditions[i], std::move(children));
  }
  return canonical[0];
}

}  // namespace nearfield::server

#include "server/attributes/filter_tree.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace nearfield::server {
namespace {

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

FilterTree Leaf(Condition condition) {
  FilterTree tree;
  tree.conditions.push_back(std::move(condition));
  return tree;
}

FilterTree Join(ConditionKind kind, std::vector<FilterTree> filters) {
  FilterTree tree = Leaf({.kind = kind});
  for (FilterTree& filter : filters) {
    const auto offset = static_cast<int32_t>(tree.conditions.size());
    tree.conditions[0].children.push_back(offset);
    for (Condition& condition : filter.conditions) {
      for (int32_t& child : condition.children) child += offset;
      tree.conditions.push_back(std::move(condition));
    }
  }
  return tree;
}

int64_t FilterBytes(const Condition& condition) {
  return 8 + static_cast<int64_t>(condition.attribute.size()) + SizeOf(condition.values) +
         SizeOf(condition.ids);
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

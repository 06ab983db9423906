#include "nearfield/client/types.h"

#include <array>
#include <utility>

namespace nearfield::client {
namespace {

// One table per enum, so that the printed name and the parsed one cannot differ.
template <typename E>
using Names = std::array<std::pair<E, std::string_view>, 3>;

constexpr Names<Metric> kMetrics = {
    {{Metric::kDot, "dot"}, {Metric::kCosine, "cosine"}, {Metric::kL2, "l2"}}};
constexpr Names<DataType> kDataTypes = {{{DataType::kFloat32, "float32"},
                                         {DataType::kFloat16, "float16"},
                                         {DataType::kBFloat16, "bfloat16"}}};
constexpr std::array<std::pair<IdType, std::string_view>, 2> kIdTypes = {
    {{IdType::kUint64, "uint64"}, {IdType::kString, "string"}}};
constexpr std::array<std::pair<Backend, std::string_view>, 2> kBackends = {
    {{Backend::kCpu, "cpu"}, {Backend::kGpu, "gpu"}}};
constexpr std::array<std::pair<ScanPrecision, std::string_view>, 2> kPrecisions = {
    {{ScanPrecision::kRows, "rows"}, {ScanPrecision::kInt8, "int8"}}};
constexpr std::array<std::pair<ScanChoice, std::string_view>, 4> kScanChoices = {
    {{ScanChoice::kAuto, "auto"},
     {ScanChoice::kInt8, "int8"},
     {ScanChoice::kInt16, "int16"},
     {ScanChoice::kRows, "rows"}}};
constexpr std::array<std::pair<RowPlacement, std::string_view>, 2> kRowPlacements = {
    {{RowPlacement::kDevice, "device"}, {RowPlacement::kHost, "host"}}};

template <typename Table, typename E>
std::string_view NameIn(const Table& table, E value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "unknown";
}

template <typename E, typename Table>
std::optional<E> ValueIn(const Table& table, std::string_view wanted) {
  for (const auto& [entry, name] : table) {
    if (name == wanted) return entry;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(Metric metric) { return NameIn(kMetrics, metric); }
std::string_view Name(DataType dtype) { return NameIn(kDataTypes, dtype); }
std::string_view Name(IdType type) { return NameIn(kIdTypes, type); }
std::string_view Name(Backend backend) { return NameIn(kBackends, backend); }
std::string_view Name(ScanPrecision precision) { return NameIn(kPrecisions, precision); }
std::string_view Name(ScanChoice scan) { return NameIn(kScanChoices, scan); }
std::string_view Name(RowPlacement rows) { return NameIn(kRowPlacements, rows); }

std::optional<Metric> ParseMetric(std::string_view name) { return ValueIn<Metric>(kMetrics, name); }
std::optional<DataType> ParseDataType(std::string_view name) {
  return ValueIn<DataType>(kDataTypes, name);
}
std::optional<IdType> ParseIdType(std::string_view name) { return ValueIn<IdType>(kIdTypes, name); }

IdType TypeOf(const Id& id) {
  return std::holds_alternative<uint64_t>(id) ? IdType::kUint64 : IdType::kString;
}

IdType TypeOf(const IdColumn& ids) {
  return std::holds_alternative<std::vector<uint64_t>>(ids) ? IdType::kUint64 : IdType::kString;
}

IdColumn EmptyIds(IdType type) {
  if (type == IdType::kUint64) return std::vector<uint64_t>();
  return std::vector<std::string>();
}

size_t Count(const IdColumn& ids) {
  return std::visit([](const auto& column) { return column.size(); }, ids);
}

Id At(const IdColumn& ids, size_t i) {
  return std::visit([i](const auto& column) { return Id(column[i]); }, ids);
}

IdColumn Slice(const IdColumn& ids, size_t begin, size_t end) {
  return std::visit(
      [&](const auto& column) -> IdColumn {
        const auto from = column.begin() + static_cast<ptrdiff_t>(begin);
        return std::decay_t<decltype(column)>(from, from + static_cast<ptrdiff_t>(end - begin));
      },
      ids);
}

void Append(const Id& id, IdColumn* ids) {
  if (auto* numbers = std::get_if<std::vector<uint64_t>>(ids)) {
    numbers->push_back(std::get<uint64_t>(id));
  } else {
    std::get<std::vector<std::string>>(*ids).push_back(std::get<std::string>(id));
  }
}

std::string ToString(const Id& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) return std::to_string(*number);
  return std::get<std::string>(id);
}

}  // namespace nearfield::client

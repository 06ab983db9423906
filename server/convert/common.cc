#include "server/convert/common.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/enum_table.h"
#include "server/convert/text.h"

namespace nearfield::server {
namespace {

constexpr std::pair<pb::Metric, Metric> kMetrics[] = {{pb::METRIC_DOT, Metric::kDot},
                                                      {pb::METRIC_COSINE, Metric::kCosine},
                                                      {pb::METRIC_L2, Metric::kL2}};
constexpr std::pair<pb::DataType, RowType> kRowTypes[] = {
    {pb::DATA_TYPE_FLOAT32, RowType::kFloat32},
    {pb::DATA_TYPE_FLOAT16, RowType::kFloat16},
    {pb::DATA_TYPE_BFLOAT16, RowType::kBFloat16}};
constexpr std::pair<pb::IdType, IdType> kIdTypes[] = {{pb::ID_TYPE_UINT64, IdType::kUint64},
                                                      {pb::ID_TYPE_STRING, IdType::kString}};
constexpr std::pair<pb::ScanChoice, ScanChoice> kScanChoices[] = {
    {pb::SCAN_CHOICE_AUTO, ScanChoice::kAuto},
    {pb::SCAN_CHOICE_UNSPECIFIED, ScanChoice::kAuto},
    {pb::SCAN_CHOICE_INT8, ScanChoice::kInt8},
    {pb::SCAN_CHOICE_ROWS, ScanChoice::kRows},
    {pb::SCAN_CHOICE_INT16, ScanChoice::kInt16}};
constexpr std::pair<pb::RowHome, RowPlacement> kRowPlacements[] = {
    {pb::ROW_HOME_DEVICE, RowPlacement::kDevice},
    {pb::ROW_HOME_UNSPECIFIED, RowPlacement::kDevice},
    {pb::ROW_HOME_HOST, RowPlacement::kHost}};

}  // namespace

std::optional<Metric> MetricFromProto(pb::Metric metric) { return NativeIn(kMetrics, metric); }

std::optional<RowType> RowTypeFromProto(pb::DataType dtype) { return NativeIn(kRowTypes, dtype); }

std::optional<IdType> IdTypeFromProto(pb::IdType type) { return NativeIn(kIdTypes, type); }

std::optional<ScanChoice> ScanChoiceFromProto(pb::ScanChoice scan) {
  return NativeIn(kScanChoices, scan);
}

std::optional<RowPlacement> RowPlacementFromProto(pb::RowHome rows) {
  return NativeIn(kRowPlacements, rows);
}

pb::Metric ToProto(Metric metric) { return ProtoIn(kMetrics, metric); }

pb::DataType ToProto(RowType type) { return ProtoIn(kRowTypes, type); }

pb::IdType ToProto(IdType type) { return ProtoIn(kIdTypes, type); }

pb::ScanChoice ToProto(ScanChoice scan) { return ProtoIn(kScanChoices, scan); }

pb::RowHome ToProto(RowPlacement rows) { return ProtoIn(kRowPlacements, rows); }

pb::Backend ToProto(BackendKind backend) {
  return backend == BackendKind::kGpu ? pb::BACKEND_GPU : pb::BACKEND_CPU;
}

pb::ScanPrecision ToProto(ScanPrecision precision) {
  return precision == ScanPrecision::kRows ? pb::SCAN_PRECISION_ROWS : pb::SCAN_PRECISION_INT8;
}

const char* NameOf(IdType type) { return type == IdType::kUint64 ? "uint64" : "string"; }

const char* NameOf(ScanPrecision precision) {
  return precision == ScanPrecision::kRows ? "rows" : "int8";
}

absl::Status CheckStringId(const std::string& field, const std::string& text) {
  if (text.empty() || text.size() > static_cast<size_t>(kIdBytesMax)) {
    return ArgumentError(
        field,
        absl::StrCat(Quote(text), " has ", text.size(), " bytes, must be 1 .. ", kIdBytesMax),
        absl::StrCat(text.size(), " bytes"), absl::StrCat("1 .. ", kIdBytesMax, " bytes"));
  }
  if (!IsUtf8(text)) {
    return ArgumentError(field, absl::StrCat(Quote(text), " is not UTF-8"), "", "UTF-8");
  }
  return absl::OkStatus();
}

absl::StatusOr<Id> IdFromProto(const std::string& field, const pb::Id& id, IdType type) {
  if (id.value_case() == pb::Id::VALUE_NOT_SET) {
    return ArgumentError(field, "neither number nor text is set", "absent");
  }
  if ((id.value_case() == pb::Id::kNumber) != (type == IdType::kUint64)) {
    const char* const given = id.value_case() == pb::Id::kNumber ? "number" : "text";
    return ArgumentError(
        field, absl::StrCat(given, " is set, the collection has ids of type ", NameOf(type)), given,
        NameOf(type));
  }
  if (type == IdType::kUint64) return Id(id.number());
  ABSL_RETURN_IF_ERROR(CheckStringId(absl::StrCat(field, ".text"), id.text()));
  return Id(id.text());
}

absl::StatusOr<IdColumn> IdsFromProto(const std::string& field, const pb::IdList& ids, IdType type,
                                      CountRange count) {
  const bool numbers = type == IdType::kUint64;
  if (!(numbers ? ids.texts().empty() : ids.numbers().empty())) {
    const int given = numbers ? ids.texts_size() : ids.numbers_size();
    return ArgumentError(
        absl::StrCat(field, numbers ? ".texts" : ".numbers"),
        absl::StrCat(given, " given, the collection has ids of type ", NameOf(type)),
        absl::StrCat(given), "0");
  }
  const int64_t size = numbers ? ids.numbers_size() : ids.texts_size();
  if (size < count.min || size > count.max) {
    return MustBe(field, absl::StrCat(size, " ids"), absl::StrCat(count.min, " .. ", count.max));
  }
  if (numbers) return IdColumn::OfNumbers({ids.numbers().begin(), ids.numbers().end()});
  IdColumn column(IdType::kString);
  column.Reserve(size);
  for (int i = 0; i < ids.texts_size(); ++i) {
    const std::string& text = ids.texts(i);
    if (absl::Status status = CheckStringId("", text); !status.ok()) {
      return CheckStringId(absl::StrCat(field, ".texts[", i, "]"), text);
    }
    column.AppendString(text);
  }
  return column;
}

void IdsToProto(const IdColumn& ids, pb::IdList* list) {
  const int64_t size = ids.size();
  if (ids.type() == IdType::kUint64) {
    list->mutable_numbers()->Reserve(static_cast<int>(size));
    for (int64_t i = 0; i < size; ++i) list->add_numbers(ids.number(i));
    return;
  }
  list->mutable_texts()->Reserve(static_cast<int>(size));
  for (int64_t i = 0; i < size; ++i) {
    const std::string_view text = ids.string(i);
    list->add_texts(text.data(), text.size());
  }
}

int64_t IdListBytesMin(const IdColumn& ids) {
  if (ids.type() == IdType::kUint64) return ids.size() * 8;
  int64_t bytes = 0;
  for (int64_t i = 0; i < ids.size(); ++i) bytes += 2 + static_cast<int64_t>(ids.string(i).size());
  return bytes;
}

}  // namespace nearfield::server

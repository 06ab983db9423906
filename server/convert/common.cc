#include "server/convert/common.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/text.h"

namespace nearfield::server {

std::optional<Metric> MetricFromProto(pb::Metric metric) {
  switch (metric) {
    case pb::METRIC_DOT: return Metric::kDot;
    case pb::METRIC_COSINE: return Metric::kCosine;
    case pb::METRIC_L2: return Metric::kL2;
    default: return std::nullopt;
  }
}

std::optional<RowType> RowTypeFromProto(pb::DataType dtype) {
  switch (dtype) {
    case pb::DATA_TYPE_FLOAT32: return RowType::kFloat32;
    case pb::DATA_TYPE_FLOAT16: return RowType::kFloat16;
    case pb::DATA_TYPE_BFLOAT16: return RowType::kBFloat16;
    default: return std::nullopt;
  }
}

std::optional<IdType> IdTypeFromProto(pb::IdType type) {
  switch (type) {
    case pb::ID_TYPE_UINT64: return IdType::kUint64;
    case pb::ID_TYPE_STRING: return IdType::kString;
    default: return std::nullopt;
  }
}

std::optional<ScanChoice> ScanChoiceFromProto(pb::ScanChoice scan) {
  switch (scan) {
    case pb::SCAN_CHOICE_UNSPECIFIED:
    case pb::SCAN_CHOICE_AUTO: return ScanChoice::kAuto;
    case pb::SCAN_CHOICE_INT8: return ScanChoice::kInt8;
    case pb::SCAN_CHOICE_ROWS: return ScanChoice::kRows;
    default: return std::nullopt;
  }
}

std::optional<RowPlacement> RowPlacementFromProto(pb::RowHome rows) {
  switch (rows) {
    case pb::ROW_HOME_UNSPECIFIED:
    case pb::ROW_HOME_DEVICE: return RowPlacement::kDevice;
    case pb::ROW_HOME_HOST: return RowPlacement::kHost;
    default: return std::nullopt;
  }
}

pb::Metric ToProto(Metric metric) {
  switch (metric) {
    case Metric::kDot: return pb::METRIC_DOT;
    case Metric::kCosine: return pb::METRIC_COSINE;
    case Metric::kL2: return pb::METRIC_L2;
  }
  return pb::METRIC_UNSPECIFIED;
}

pb::DataType ToProto(RowType type) {
  switch (type) {
    case RowType::kFloat32: return pb::DATA_TYPE_FLOAT32;
    case RowType::kFloat16: return pb::DATA_TYPE_FLOAT16;
    case RowType::kBFloat16: return pb::DATA_TYPE_BFLOAT16;
  }
  return pb::DATA_TYPE_UNSPECIFIED;
}

pb::IdType ToProto(IdType type) {
  return type == IdType::kUint64 ? pb::ID_TYPE_UINT64 : pb::ID_TYPE_STRING;
}

pb::Backend ToProto(BackendKind backend) {
  return backend == BackendKind::kGpu ? pb::BACKEND_GPU : pb::BACKEND_CPU;
}

pb::ScanPrecision ToProto(ScanPrecision precision) {
  switch (precision) {
    case ScanPrecision::kRows: return pb::SCAN_PRECISION_ROWS;
    case ScanPrecision::kInt8: return pb::SCAN_PRECISION_INT8;
  }
  return pb::SCAN_PRECISION_UNSPECIFIED;
}

pb::ScanChoice ToProto(ScanChoice scan) {
  switch (scan) {
    case ScanChoice::kAuto: return pb::SCAN_CHOICE_AUTO;
    case ScanChoice::kInt8: return pb::SCAN_CHOICE_INT8;
    case ScanChoice::kRows: return pb::SCAN_CHOICE_ROWS;
  }
  return pb::SCAN_CHOICE_UNSPECIFIED;
}

pb::RowHome ToProto(RowPlacement rows) {
  return rows == RowPlacement::kHost ? pb::ROW_HOME_HOST : pb::ROW_HOME_DEVICE;
}

const char* NameOf(IdType type) { return type == IdType::kUint64 ? "uint64" : "string"; }

const char* NameOf(ScanPrecision precision) {
  switch (precision) {
    case ScanPrecision::kRows: return "rows";
    case ScanPrecision::kInt8: return "int8";
  }
  return "?";
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

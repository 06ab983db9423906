// Conversion between proto and native types that several services share. The functions are pure and
// total: for any message they return a value, or an error that names the field, its value and the
// limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"
#include "nearfield/engine/types.h"
#include "nearfield/v1/common.pb.h"

namespace nearfield::server {

namespace pb = ::nearfield::v1;

// Returns nullopt for unspecified and unknown values.
std::optional<Metric> MetricFromProto(pb::Metric metric);
std::optional<RowType> RowTypeFromProto(pb::DataType dtype);
std::optional<IdType> IdTypeFromProto(pb::IdType type);
// Returns the default (kAuto, kDevice) for an unspecified value; nullopt for an unknown one.
std::optional<ScanChoice> ScanChoiceFromProto(pb::ScanChoice scan);
std::optional<RowPlacement> RowPlacementFromProto(pb::RowHome rows);
pb::Metric ToProto(Metric metric);
pb::DataType ToProto(RowType type);
pb::IdType ToProto(IdType type);
pb::Backend ToProto(BackendKind backend);
pb::ScanPrecision ToProto(ScanPrecision precision);
pb::ScanChoice ToProto(ScanChoice scan);
pb::RowHome ToProto(RowPlacement rows);
// Returns "uint64", "string"; or "rows", "int8": for messages.
const char* NameOf(IdType type);
const char* NameOf(ScanPrecision precision);

// Checks that `text` is 1 .. kIdBytesMax bytes of UTF-8. `field` is the path in the message:
// "ids.texts[3]".
absl::Status CheckStringId(const std::string& field, const std::string& text);

absl::StatusOr<Id> IdFromProto(const std::string& field, const pb::Id& id, IdType type);

struct CountRange {
  int64_t min = 0;
  int64_t max = 0;
};
// Returns all ids of the list that matches `type`. Requires that the other list is empty.
absl::StatusOr<IdColumn> IdsFromProto(const std::string& field, const pb::IdList& ids, IdType type,
                                      CountRange count);

void IdsToProto(const IdColumn& ids, pb::IdList* list);
// Returns the minimum number of bytes that `ids` takes as an IdList.
int64_t IdListBytesMin(const IdColumn& ids);

}  // namespace nearfield::server

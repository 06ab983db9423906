#include "server/rpc/scan_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/convert/retrieval.h"
#include "server/convert/returned_attributes.h"

namespace nearfield::server {
namespace {

constexpr int64_t kFrameBytes = 1024;       // the cursor with a text id, tags, lengths
constexpr int64_t kColumnFrameBytes = 512;  // a column of attributes, with its name
constexpr int64_t kLengthBytes = 8;         // of a text id and of a payload, at most

// Drops the rows after the first `count`.
void KeepFirst(int64_t count, size_t row_bytes, FetchResult* found) {
  IdColumn ids(found->ids.type());
  BytesColumn payloads;
  for (int64_t row = 0; row < count; ++row) {
    ids.AppendFrom(found->ids, row);
    if (found->payloads.size() > 0) payloads.Append(found->payloads.at(row));
  }
  found->ids = std::move(ids);
  found->payloads = std::move(payloads);
  found->rows.resize(std::min(found->rows.size(), static_cast<size_t>(count) * row_bytes));
  found->ordinals.resize(static_cast<size_t>(count));
}

}  // namespace

absl::Status ScanRows::Begin(const pb::ScanRequest& request, const NamedCollection* named,
                             const AttributeSchema& schema, const RequestLimits& limits) {
  named_ = named;
  parts_ = PartsFromProto(request, limits);
  ABSL_ASSIGN_OR_RETURN(wanted_, WantedFromProto(request.attributes(), schema));
  parts_.ordinals = !wanted_.empty();
  frame_bytes_ = kFrameBytes + kColumnFrameBytes * static_cast<int64_t>(wanted_.size());
  attribute_row_bytes_ = std::max<int64_t>(1, AttributeBytesExpected(schema, wanted_));
  return absl::OkStatus();
}

absl::StatusOr<OrderedRows> ScanRows::Read(OrderedRead read, int64_t bytes_max) {
  read.parts = parts_;
  read.parts.bytes_max = bytes_max - frame_bytes_;
  if (!wanted_.empty()) {
    // More rows would be read for nothing.
    read.rows_max =
        std::clamp<int64_t>(read.parts.bytes_max / attribute_row_bytes_, 1, read.rows_max);
  }
  ABSL_ASSIGN_OR_RETURN(OrderedRows rows, named_->collection->ReadInOrder(read));
  if (!wanted_.empty()) ABSL_RETURN_IF_ERROR(AddAttributes(read, &rows));
  return rows;
}

int64_t ScanRows::BytesOf(const FetchResult& found, int64_t row) const {
  const CollectionSpec& spec = named_->collection->spec();
  int64_t bytes = kLengthBytes;
  if (spec.id_type == IdType::kString) bytes += static_cast<int64_t>(found.ids.string(row).size());
  if (parts_.vectors) bytes += int64_t{spec.dim} * BytesPerElement(spec.row_type);
  if (parts_.payloads) {
    bytes += static_cast<int64_t>(found.payloads.at(row).size()) + kLengthBytes;
  }
  return bytes;
}

absl::Status ScanRows::AddAttributes(const OrderedRead& read, OrderedRows* rows) {
  FetchResult& found = rows->found;
  ABSL_ASSIGN_OR_RETURN(attributes_,
                        named_->attributes->FindRows(*read.at, found.ordinals, wanted_));
  const int64_t count = found.ids.size();
  held_bytes_ = 0;
  int64_t bytes = 0;
  int64_t attribute_bytes = 0;
  int64_t fit = 0;
  for (; fit < count; ++fit) {
    const int64_t held = attributes_->BytesOf(fit, wanted_).held;
    bytes += BytesOf(found, fit) + held;
    if (bytes > read.parts.bytes_max) break;
    attribute_bytes += held;
    held_bytes_ = bytes + frame_bytes_;
  }
  if (fit == count) {
    if (count > 0) attribute_row_bytes_ = std::max<int64_t>(1, attribute_bytes / count);
    return absl::OkStatus();
  }
  if (fit == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("a row with its attributes takes ", bytes,
                                                     " bytes in memory, the limit is ",
                                                     read.parts.bytes_max));
  }
  attribute_row_bytes_ = std::max<int64_t>(1, attribute_bytes / fit);
  const CollectionSpec& spec = named_->collection->spec();
  const int64_t row_bytes = int64_t{spec.dim} * BytesPerElement(spec.row_type);
  KeepFirst(fit, static_cast<size_t>(row_bytes), &found);
  rows->last = found.ids.at(fit - 1);
  rows->ended = false;
  return absl::OkStatus();
}

void ScanRows::ToProto(const OrderedRows& rows, pb::ScanResponse* response) {
  server::ToProto(named_->collection->spec(), parts_, rows.found, response);
  if (wanted_.empty()) return;
  server::ToProto(*attributes_, rows.found.ids.size(), wanted_, response->mutable_attributes());
  attributes_.reset();  // holds a snapshot, which must not wait for the reader of the reply
}

}  // namespace nearfield::server

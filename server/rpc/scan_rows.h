// ScanRows: reads the rows of one reply of a scan, with their attributes.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/row_reader.h"
#include "server/collections/catalog.h"
#include "server/convert/limits.h"

namespace nearfield::server {

class ScanRows {
 public:
  // Takes the parts of rows that the request asks for. `named` outlives this object. Errors:
  // InvalidArgument (the attributes).
  absl::Status Begin(const nearfield::v1::ScanRequest& request, const NamedCollection* named,
                     const AttributeSchema& schema, const RequestLimits& limits);

  // Reads as many rows as fit into a message of `bytes_max`, in memory too. Errors: as
  // Collection::ReadInOrder.
  absl::StatusOr<OrderedRows> Read(OrderedRead read, int64_t bytes_max);

  // Returns the bytes that the rows of the last Read take as a message in memory; 0 without
  // attributes: about those of the encoded message.
  int64_t held_bytes() const { return held_bytes_; }

  // Adds the rows of the last Read to the reply, and releases what was read with them.
  void ToProto(const OrderedRows& rows, nearfield::v1::ScanResponse* response);

 private:
  // Finds the attributes of the rows, and drops the rows at the end that do not fit with them.
  absl::Status AddAttributes(const OrderedRead& read, OrderedRows* rows);
  int64_t BytesOf(const FetchResult& found, int64_t row) const;

  const NamedCollection* named_ = nullptr;
  RowParts parts_;
  WantedAttributes wanted_;
  int64_t frame_bytes_ = 0;  // of a message in addition to its rows
  int64_t held_bytes_ = 0;
  int64_t attribute_row_bytes_ = 0;      // of one row: expected, then the mean of the last reply
  std::optional<RowReader> attributes_;  // of the last Read
};

}  // namespace nearfield::server

// NeighborAttributes: the attributes that a search returns with its neighbors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/row_reader.h"
#include "server/collections/collection_attributes.h"
#include "server/convert/limits.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/memory_ledger.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

class NeighborAttributes {
 public:
  // Takes the attributes of `schema` that `request` asks for, and makes the search of `ticket`
  // return what is needed to read them. `attributes` and `clock` outlive this object. Errors:
  // InvalidArgument.
  absl::Status Begin(const nearfield::v1::SearchRequest& request,
                     const CollectionAttributes* attributes, const AttributeSchema& schema,
                     const Clock* clock, SearchTicket* ticket);

  // Returns the expected bytes of the attributes in this reply.
  int64_t BytesExpected(const SearchReply& reply) const;

  // Finds the rows of the reply, and grows `hold` by their attributes. Errors: ResourceExhausted
  // (more than a reply may have, or the hold cannot grow), InvalidArgument (an attribute was
  // dropped while the search waited), and those of ToProto.
  absl::Status Find(const SearchReply& reply, const RequestLimits& limits, ByteAccount::Hold* hold);

  // Adds the attributes of the rows that were found. Takes up to seconds for an answer of maximum
  // size. Errors: DeadlineExceeded, Cancelled; `response` is empty then.
  absl::Status ToProto(nearfield::v1::SearchResponse* response) const;

 private:
  // Returns an error if the caller no longer waits for the reply.
  absl::Status CheckWanted() const;

  const CollectionAttributes* attributes_ = nullptr;
  WantedAttributes wanted_;
  int64_t row_bytes_ = 0;  // expected for one row
  const Clock* clock_ = nullptr;
  std::optional<TimePoint> deadline_;
  CancelFlag cancelled_;
  std::vector<RowReader> readers_;  // one for each query
};

}  // namespace nearfield::server

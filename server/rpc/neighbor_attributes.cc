#include "server/rpc/neighbor_attributes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/convert/retrieval.h"
#include "server/convert/returned_attributes.h"
#include "server/rpc/search_facts.h"

namespace nearfield::server {

absl::Status NeighborAttributes::Begin(const pb::SearchRequest& request,
                                       const CollectionAttributes* attributes,
                                       const AttributeSchema& schema, const Clock* clock,
                                       SearchTicket* ticket) {
  attributes_ = attributes;
  ABSL_ASSIGN_OR_RETURN(wanted_, WantedFromProto(request.attributes(), schema));
  row_bytes_ = AttributeBytesExpected(schema, wanted_);
  clock_ = clock;
  deadline_ = ticket->deadline;
  cancelled_ = ticket->cancelled;
  ticket->request.parts.ordinals = !wanted_.empty();
  ticket->request.attribute_bytes = row_bytes_;
  return absl::OkStatus();
}

int64_t NeighborAttributes::BytesExpected(const SearchReply& reply) const {
  int64_t rows_count = 0;
  for (const Neighbors& neighbors : reply.result.queries) rows_count += neighbors.ids.size();
  return rows_count * row_bytes_;
}

absl::Status NeighborAttributes::Find(const SearchReply& reply, const RequestLimits& limits,
                                      ByteAccount::Hold* hold) {
  if (wanted_.empty()) return absl::OkStatus();
  MessageBytes bytes;
  for (const Neighbors& neighbors : reply.result.queries) {
    ABSL_RETURN_IF_ERROR(CheckWanted());
    ABSL_ASSIGN_OR_RETURN(RowReader rows,
                          attributes_->FindRows(*reply.at, neighbors.ordinals, wanted_));
    bytes += ColumnBytes(rows, wanted_);
    ABSL_RETURN_IF_ERROR(CheckReplyBytes(bytes.wire, limits, kSearchAdvice));
    readers_.push_back(std::move(rows));
  }
  const int64_t held = std::min(limits.response_bytes_max, NativeBytes(reply) + bytes.held);
  return hold->Grow(held);
}

absl::Status NeighborAttributes::CheckWanted() const {
  if (deadline_.has_value() && clock_->Now() >= *deadline_) {
    return absl::DeadlineExceededError("the deadline passed while the attributes were read");
  }
  if (cancelled_->load()) return absl::CancelledError("the caller cancelled the search");
  return absl::OkStatus();
}

absl::Status NeighborAttributes::ToProto(pb::SearchResponse* response) const {
  for (size_t query = 0; query < readers_.size(); ++query) {
    if (absl::Status wanted = CheckWanted(); !wanted.ok()) {
      response->Clear();
      return wanted;
    }
    const RowReader& rows = readers_[query];
    server::ToProto(rows, rows.rows_count(), wanted_,
                    response->mutable_results(static_cast<int>(query))->mutable_attributes());
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server

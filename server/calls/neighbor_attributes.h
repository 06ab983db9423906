// NeighborAttributes: the attributes that a search returns with its neighbors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/row_reader.h"
#include "server/collections/collection_attributes.h"
#include "server/convert/limits.h"
#include "server/scheduler/memory_ledger.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

class NeighborAttributes {
 public:
  // Takes the attributes that `request` asks for, and makes `search` return what is needed to read
  // them. `attributes` outlives this object. Errors: InvalidArgument.
  absl::Status Begin(const nearfield::v1::SearchRequest& request,
                     const CollectionAttributes* attributes, SearchRequest* search);

  // Returns the expected bytes of the attributes in this reply.
  int64_t BytesExpected(const SearchReply& reply) const;

  // The two functions below take up to seconds for an answer of maximum size. They poll
  // `still_wanted` after each query, and return its error.
  using StillWanted = absl::FunctionRef<absl::Status()>;

  // Finds the rows of the reply, and grows `hold` by their attributes. Errors: ResourceExhausted
  // (more than a reply may have, or the hold cannot grow).
  absl::Status Find(const SearchReply& reply, const RequestLimits& limits, StillWanted still_wanted,
                    ByteAccount::Hold* hold);

  // Adds the attributes of the rows that were found.
  absl::Status ToProto(StillWanted still_wanted, nearfield::v1::SearchResponse* response) const;

 private:
  const CollectionAttributes* attributes_ = nullptr;
  WantedAttributes wanted_;
  int64_t row_bytes_ = 0;           // expected for one row
  std::vector<RowReader> readers_;  // one for each query
};

}  // namespace nearfield::server

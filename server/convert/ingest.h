// Conversion between proto and native types for the Ingest service.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/collection.h"
#include "nearfield/v1/ingest.pb.h"
#include "server/collections/catalog.h"
#include "server/convert/common.h"
#include "server/convert/limits.h"

namespace nearfield::server {

inline constexpr int64_t kUploadTokenBytesMax = 256;
inline constexpr int64_t kListedUploadsMax = 10000;
inline constexpr int64_t kListedUploadsDefault = 1000;

// Errors: InvalidArgument (mode, rows_max, payload_bytes_max, upload_token).
absl::StatusOr<UploadReservation> FromProto(const pb::UploadBegin& begin);

// A block in native form. `rows` points into the message, which must outlive this.
struct BlockRows {
  IdColumn ids;
  absl::Span<const uint8_t> rows;
  BytesColumn payloads;
};

// The totals that an upload declared and that it has sent so far.
struct UploadTotals {
  UploadReservation declared;
  int64_t rows = 0;
  int64_t payload_bytes = 0;
  int64_t bytes = 0;  // size of the block messages
};

// Returns the maximum number of uploads in a ListUploads reply. Errors: InvalidArgument
// (uploads_max).
absl::StatusOr<int64_t> FromProto(const pb::ListUploadsRequest& request);
void ToProto(const Catalog::ListedUpload& listed, pb::OpenUpload* upload);

// Checks the block against the collection, the limits and the declaration. Adds it to `totals` if
// it is valid. The engine checks the vector values.
// Errors: InvalidArgument.
absl::StatusOr<BlockRows> FromProto(const pb::UploadBlock& block, const CollectionSpec& spec,
                                    const RequestLimits& limits, UploadTotals* totals);

// Errors: InvalidArgument (rows_count differs from the rows that were sent).
absl::Status CheckCommit(const pb::UploadCommit& commit, const UploadTotals& totals);

// Errors: InvalidArgument (both ids and a filter are set).
absl::Status CheckOneOfIdsAndFilter(const pb::DeleteRequest& request);
absl::Status CheckOneOfIdsAndFilter(const pb::UpdateRequest& request);
absl::StatusOr<IdColumn> FromProto(const pb::DeleteRequest& request, const CollectionSpec& spec,
                                   const RequestLimits& limits);

}  // namespace nearfield::server

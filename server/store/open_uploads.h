// AdmitUpload: admits an upload with a token, and chooses the open upload that it replaces.
#ifndef NEARFIELD_SERVER_STORE_OPEN_UPLOADS_H_
#define NEARFIELD_SERVER_STORE_OPEN_UPLOADS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/store_core.h"

namespace nearfield::store {

// Checks that an upload with options.token may begin. Removes idle uploads. If the limit of all
// callers or of this one is reached, removes the longest idle upload without a writer and without
// durable rows. Puts the removals into `transaction`, and returns their segments. Requires: the
// store's lock. Errors: AlreadyExists (the token), ResourceExhausted (no upload can be removed).
absl::StatusOr<std::vector<int64_t>> AdmitUpload(const StoreCore& core,
                                                 const BeginUploadOptions& options,
                                                 Transaction* transaction);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_OPEN_UPLOADS_H_

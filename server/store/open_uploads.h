// Open uploads with a token: admission of another one, and which one gives way to it.
#ifndef NEARFIELD_SERVER_STORE_OPEN_UPLOADS_H_
#define NEARFIELD_SERVER_STORE_OPEN_UPLOADS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/store_core.h"

namespace nearfield::store {

// Checks that an upload with options.token may begin. Idle uploads go. Where the places of all
// callers or of this one are taken, the upload untouched for longest that has no writer and no
// durable rows gives way. Puts the removals into `transaction`; returns their segments. Requires
// the store's lock. Errors: AlreadyExists (the token), ResourceExhausted (no upload can give way).
absl::StatusOr<std::vector<int64_t>> AdmitUpload(const StoreCore& core,
                                                 const BeginUploadOptions& options,
                                                 Transaction* transaction);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_OPEN_UPLOADS_H_

// AdmitUpload: admits an upload with a token, and chooses the open upload that it replaces.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/store/store_core.h"

namespace nearfield::store {

// Checks that an upload with options.token into the collection may begin. Removes idle uploads. If
// the limit of all callers or of this one is reached, removes the longest idle upload without a
// writer and without durable rows. Puts the removals into `transaction`, and returns their
// segments. Errors: AlreadyExists (the token), ResourceExhausted (no upload can be removed).
absl::StatusOr<std::vector<int64_t>> AdmitUpload(const StoreCore& core, int64_t collection_id,
                                                 const BeginUploadOptions& options,
                                                 Transaction* transaction)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex);

}  // namespace nearfield::store

// Messages about a resumed upload, and whether it can be continued.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "nearfield/client/upload.h"

namespace nearfield::client {

// Reports how many of `rows_total` rows the server already has. Errors: FailedPrecondition (the
// token was committed with another number of rows, so it belongs to another file).
absl::Status TellResumed(const Upload& upload, UploadMode mode, uint64_t rows_total);

// Returns true if the same command may succeed later; `progress` is how far the upload got.
bool MayGoOn(const absl::Status& status, const UploadProgress& progress);

}  // namespace nearfield::client

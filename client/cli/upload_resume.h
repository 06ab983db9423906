// What the command says of an upload with a token: where it goes on, and whether it can.
#ifndef NEARFIELD_CLIENT_CLI_UPLOAD_RESUME_H_
#define NEARFIELD_CLIENT_CLI_UPLOAD_RESUME_H_

#include <cstdint>

#include "absl/status/status.h"
#include "nearfield/client/upload.h"

namespace nearfield::client {

// Tells the user what the server has already of `rows_total` rows. Errors: FailedPrecondition where
// the token has committed the rows of another file, which must not pass for an upload of this one.
absl::Status TellResumed(const Upload& upload, UploadMode mode, uint64_t rows_total);

// Whether the same command may do better another time; `progress` is how far it came.
bool MayGoOn(const absl::Status& status, const UploadProgress& progress);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_UPLOAD_RESUME_H_

#include "client/cli/upload_resume.h"

#include "client/cli/command.h"
#include "client/cli/text_output.h"
#include "client/cpp/text.h"

namespace nearfield::client {

absl::Status TellResumed(const Upload& upload, UploadMode mode, uint64_t rows_total) {
  const uint64_t rows = upload.rows_resumed();
  if (!upload.was_committed()) {
    if (rows > 0) {
      PrintError(Cat("the server has ", Grouped(rows), " of ", Grouped(rows_total),
                     " rows from an earlier try: they are skipped"));
    }
    return absl::OkStatus();
  }
  // Several rows with one id are one row after an upsert.
  const bool fits = mode == UploadMode::kUpsert ? rows <= rows_total : rows == rows_total;
  if (!fits) {
    return absl::FailedPreconditionError(Cat("token: its upload had ", rows, " rows, the file has ",
                                             rows_total, "; another upload needs another token"));
  }
  PrintError("an upload with this token was committed before: nothing is sent");
  return absl::OkStatus();
}

bool MayGoOn(const absl::Status& status, const UploadProgress& progress) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled: return true;
    // An upload that can never fit is refused before its first row.
    case absl::StatusCode::kResourceExhausted:
      return progress.rows_skipped + progress.rows_sent > 0;
    default: return false;
  }
}

}  // namespace nearfield::client

// Ids and payloads that stand in files of their own, one a row.
#ifndef NEARFIELD_CLIENT_FORMATS_ID_FILE_H_
#define NEARFIELD_CLIENT_FORMATS_ID_FILE_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/formats/named_bytes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// A text as an id of that type. Errors: InvalidArgument where it is empty, or no number 0 .. 2^64
// - 1.
absl::StatusOr<Id> ParseId(std::string_view text, IdType type);

// The ids of a file, in order, in memory (8 bytes a number).
//   .npy    a 1-D array of <u8, or <i8 without negatives: numbers
//   .jsonl  a JSON string or whole number a line
//   others  a text, one id a line: of `type`, or strings where it is absent
// Errors: NotFound and InvalidArgument naming file, line and reason; also where the file's ids are
// not of `type`.
absl::StatusOr<IdColumn> ReadIds(const std::string& path, std::optional<IdType> type);

// The same for bytes in memory; the format follows from the name.
absl::StatusOr<IdColumn> ParseIds(const NamedBytes& file, std::optional<IdType> type);

// The id that an object of a payload file carries in the member `field`. Requires a checked JSON
// object.
absl::StatusOr<Id> IdInPayload(std::string_view object, std::string_view field);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_ID_FILE_H_

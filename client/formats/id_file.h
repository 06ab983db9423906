// Files of ids, and ids in files of payloads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/formats/named_bytes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Parses an id of that type. Errors: InvalidArgument (empty, or not a number 0 .. 2^64 - 1).
absl::StatusOr<Id> ParseId(std::string_view text, IdType type);

// Reads all ids of a file into memory, in order (8 bytes per number).
//   .npy    a 1-D array of <u8, or <i8 without negatives: numbers; also if only the bytes say so
//   .jsonl  a JSON string or integer per line
//   others  a text, one id per line: of `type`, or strings if `type` is absent
// Errors: NotFound; InvalidArgument (names file, line and reason; also if the ids are not of
// `type`).
absl::StatusOr<IdColumn> ReadIds(const std::string& path, std::optional<IdType> type);

// The same for bytes in memory; the name determines the format.
absl::StatusOr<IdColumn> ParseIds(const NamedBytes& file, std::optional<IdType> type);

// Returns the id in member `field` of an object of a payload file. Requires: a checked JSON object.
absl::StatusOr<Id> IdInPayload(std::string_view object, std::string_view field);

}  // namespace nearfield::client

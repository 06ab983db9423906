// TextRows: the rows of a text, one by one, with all of their parts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/formats/attribute_reader.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

struct TextRow {
  std::optional<Id> id;
  std::vector<float> vector;  // not empty
  std::string payload;        // empty if absent
  uint64_t attribute_bytes = 0;
};

// Borrows the text.
class TextRows {
 public:
  virtual ~TextRows() = default;

  // Begins with the first row, again if rows were read. Errors: InvalidArgument (the head of the
  // text).
  virtual absl::Status Begin() = 0;
  // Reads the next row and adds its attributes to the reader. Returns false at the end. Errors:
  // InvalidArgument (names the part of the row and the reason).
  virtual absl::StatusOr<bool> Next(TextRow* row, AttributeReader* attributes) = 0;
  // Returns "line 7": the place of the last row, or of the head.
  virtual std::string place() const = 0;
};

// Returns the rows of JSON lines: ParseJsonRow (jsonl.h).
std::unique_ptr<TextRows> MakeJsonlRows(std::string_view text,
                                        std::vector<AttributeSpec> attributes);

// Returns the rows of comma-separated values. The first line names the columns: id, vector (a JSON
// array), payload (stored as it is; may be absent), and one for each attribute that rows have; any
// other column is an error. An attribute that is named like a part of the row, such as score, has
// the column attribute_score, or one of its own name; for id, vector and payload there is none.
//   id_type: the type that the ids are read as.
std::unique_ptr<TextRows> MakeCsvRows(std::string_view text, IdType id_type,
                                      std::vector<AttributeSpec> attributes);

}  // namespace nearfield::client

// Binary files of vectors: .npy, .fbin, .fvecs. Rows are accessed by number; a file is never loaded
// as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/formats/mapped_file.h"
#include "client/formats/named_bytes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

enum class FileFormat : uint8_t { kNpy, kFbin, kFvecs, kJsonl, kCsv };

// Returns true for a text, which has all parts of the rows: numbers are rounded to the stored type.
constexpr bool IsText(FileFormat format) {
  return format == FileFormat::kJsonl || format == FileFormat::kCsv;
}

// Returns the given format, or else that of the ending of the name: .npy, .fbin, .fvecs, .jsonl,
// .csv. A pipe (IsPipeName) has .jsonl. Errors: InvalidArgument (lists the endings, or how to
// convert).
absl::StatusOr<FileFormat> FormatOf(const std::string& path,
                                    std::optional<FileFormat> given = std::nullopt);

// Position of the rows: row i begins at offset + i * stride.
struct VectorLayout {
  DataType dtype = DataType::kFloat32;
  uint32_t dim = 0;
  uint64_t rows_count = 0;
  uint64_t offset = 0;
  uint64_t stride = 0;
  bool dim_before_row = false;  // .fvecs: the four bytes before each row repeat dim

  uint64_t row_bytes() const { return uint64_t{dim} * ElementBytes(dtype); }
};

// Parses the header and proves that all rows lie inside the file. Allocates nothing whose size the
// file could make large.
//   dtype: the caller's type of the elements. Required for bf16 (.npy of <u2 or |V2); else it must
//   match the file.
// .npy: a 2-D array in C order of <f4 or <f2. .fbin: int32 rows, int32 dim, fp32. .fvecs: int32 dim
// before each fp32 row. Errors: InvalidArgument (names file, place and reason).
absl::StatusOr<VectorLayout> ParseLayout(const NamedBytes& file, FileFormat format,
                                         std::optional<DataType> dtype);

// Appends rows [begin, end) to `out`. Requires: a layout of this file, end <= rows_count. Errors:
// InvalidArgument (an .fvecs row has another dimension).
absl::Status AppendRows(const NamedBytes& file, const VectorLayout& layout, uint64_t begin,
                        uint64_t end, std::string* out);

// A mapped file and its layout.
class VectorFile {
 public:
  // Requires: a binary format.
  static absl::StatusOr<VectorFile> Open(const std::string& path, FileFormat format,
                                         std::optional<DataType> dtype);

  const VectorLayout& layout() const { return layout_; }
  absl::Status AppendRows(uint64_t begin, uint64_t end, std::string* out) const {
    return client::AppendRows(file_.bytes(), layout_, begin, end, out);
  }
  // Checks all rows; returns the number of zero rows. Errors: InvalidArgument (names the row: a
  // value that is infinite or NaN, or an .fvecs row of another dimension).
  absl::StatusOr<uint64_t> CheckRows() const;
  // Releases the rows before `end`, which will not be read again soon; 0 begins a second reading.
  void Forget(uint64_t end) { file_.Forget(layout_.offset + end * layout_.stride); }

 private:
  VectorFile(MappedFile file, const VectorLayout& layout)
      : file_(std::move(file)), layout_(layout) {}

  MappedFile file_;
  VectorLayout layout_;
};

}  // namespace nearfield::client

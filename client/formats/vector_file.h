// Binary files of vectors: .npy, .fbin, .fvecs. Rows are addressed by number, never loaded as a
// whole.
#ifndef NEARFIELD_CLIENT_FORMATS_VECTOR_FILE_H_
#define NEARFIELD_CLIENT_FORMATS_VECTOR_FILE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/formats/mapped_file.h"
#include "client/formats/named_bytes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

enum class FileFormat : uint8_t { kNpy, kFbin, kFvecs, kJsonl };

// From the name's ending: .npy, .fbin, .fvecs, .jsonl. Errors: InvalidArgument, listing them.
absl::StatusOr<FileFormat> FormatOf(const std::string& path);

// Where the rows lie: row i begins at offset + i * stride.
struct VectorLayout {
  DataType dtype = DataType::kFloat32;
  uint32_t dim = 0;
  uint64_t rows_count = 0;
  uint64_t offset = 0;
  uint64_t stride = 0;
  bool dim_before_row = false;  // .fvecs: the four bytes before each row repeat dim

  uint64_t row_bytes() const { return uint64_t{dim} * ElementBytes(dtype); }
};

// Reads what the file says of itself and proves that all rows lie inside it; allocates nothing that
// the file's words could make large.
//   dtype: what the caller takes the elements for. Needed for bf16 (.npy of <u2 or |V2); else it
//   must agree with the file.
// .npy: a 2-D array in C order of <f4 or <f2. .fbin: int32 rows, int32 dim, fp32. .fvecs: int32 dim
// before each fp32 row. Errors: InvalidArgument naming file, place and reason.
absl::StatusOr<VectorLayout> ParseLayout(const NamedBytes& file, FileFormat format,
                                         std::optional<DataType> dtype);

// Appends rows [begin, end) to `out`. Requires a layout of this file and end <= rows_count.
// Errors: InvalidArgument where an .fvecs row claims another dimension.
absl::Status AppendRows(const NamedBytes& file, const VectorLayout& layout, uint64_t begin,
                        uint64_t end, std::string* out);

// A mapped file and its layout.
class VectorFile {
 public:
  // The format must be a binary one.
  static absl::StatusOr<VectorFile> Open(const std::string& path, FileFormat format,
                                         std::optional<DataType> dtype);

  const VectorLayout& layout() const { return layout_; }
  absl::Status AppendRows(uint64_t begin, uint64_t end, std::string* out) const {
    return client::AppendRows(file_.bytes(), layout_, begin, end, out);
  }
  // Rows before `end` will not be read again soon.
  void Forget(uint64_t end) { file_.Forget(layout_.offset + end * layout_.stride); }

 private:
  VectorFile(MappedFile file, const VectorLayout& layout)
      : file_(std::move(file)), layout_(layout) {}

  MappedFile file_;
  VectorLayout layout_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_VECTOR_FILE_H_

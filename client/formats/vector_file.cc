#include "client/formats/vector_file.h"

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/npy.h"
#include "client/formats/row_check.h"
#include "client/formats/spool.h"

namespace nearfield::client {
namespace {

constexpr uint64_t kInt32Bytes = 4;
constexpr std::string_view kFormats = ".npy, .fbin, .fvecs, .jsonl or .csv";

// Formats that are not read, and how to get from them to one that is.
struct Conversion {
  std::string_view ending;
  std::string_view advice;
};
constexpr std::string_view kFromParquet =
    "the Python client reads them: collection.upload('x.parquet'); for queries, "
    "in Python: numpy.save('x.npy', numpy.stack(pandas.read_parquet('x.parquet')['vector'])"
    ".astype('<f4'))";
constexpr std::string_view kFromHdf5 =
    "in Python: numpy.save('x.npy', h5py.File('x.hdf5')['train'][:].astype('<f4'))";
constexpr std::string_view kByImport = "nearfield import, of the Python package, reads them";
constexpr std::array kConversions = {
    Conversion{".u8bin", kByImport},
    Conversion{".i8bin", kByImport},
    Conversion{".bvecs", kByImport},
    Conversion{".faiss", kByImport},
    Conversion{".parquet", kFromParquet},
    Conversion{".hdf5", kFromHdf5},
    Conversion{".h5", kFromHdf5},
    Conversion{".npz", "in Python: numpy.save('x.npy', numpy.load('x.npz')['NAME'].astype('<f4'))"},
    Conversion{".json", "one JSON object a line, in a name that ends in .jsonl, is read"}};

// Requires: at + 4 <= file.bytes.size().
int32_t Int32At(const NamedBytes& file, uint64_t at) {
  int32_t value = 0;
  std::memcpy(&value, file.bytes.data() + at, sizeof(value));
  return value;
}

std::string Shape(const NpyHeader& header) {
  return Cat("(", Joined(header.shape, ", ", std::identity()), ")");
}

absl::StatusOr<DataType> NpyDataType(const NamedBytes& file, const NpyHeader& header,
                                     std::optional<DataType> wanted) {
  const std::string& descr = header.descr;
  const bool two_bytes = descr == "<u2" || descr == "|V2" || descr == "<V2";
  if (two_bytes && wanted == DataType::kBFloat16) return DataType::kBFloat16;
  if (two_bytes) {
    return BadFile(file.name, "header", "dtype ", descr,
                   " holds no floats; if these are bfloat16 values, say --dtype bfloat16");
  }
  std::optional<DataType> found;
  if (descr == "<f4") found = DataType::kFloat32;
  if (descr == "<f2") found = DataType::kFloat16;
  if (!found) {
    const bool big_endian = !descr.empty() && descr[0] == '>';
    return BadFile(file.name, "header", "dtype ", descr, " is not supported",
                   big_endian ? " (big-endian)" : "",
                   "; save it with array.astype('<f4') or array.astype('<f2')");
  }
  if (wanted && *wanted != *found) {
    return BadFile(file.name, "header", "holds ", Name(*found), " (", descr, "), not ",
                   Name(*wanted));
  }
  return *found;
}

absl::StatusOr<VectorLayout> NpyLayout(const NamedBytes& file, std::optional<DataType> dtype) {
  NF_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(file));
  VectorLayout layout;
  NF_ASSIGN_OR_RETURN(layout.dtype, NpyDataType(file, header, dtype));
  if (header.shape.size() != 2) {
    return BadFile(file.name, "header", "shape ", Shape(header), " is not (rows, dim)",
                   header.shape.size() == 1 ? "; for one vector, save array.reshape(1, -1)" : "");
  }
  if (header.fortran_order) {
    return BadFile(file.name, "header",
                   "the array is in Fortran order; save np.ascontiguousarray(array)");
  }
  const uint64_t dim = header.shape[1];
  constexpr uint64_t kDimMax = std::numeric_limits<uint32_t>::max();
  if (dim == 0 || dim > kDimMax) {
    return BadFile(file.name, "header", "shape ", Shape(header), ": ",
                   OutOfRange("dim", dim, uint64_t{1}, kDimMax));
  }
  layout.dim = static_cast<uint32_t>(dim);
  layout.rows_count = header.shape[0];
  layout.offset = header.data_offset;
  layout.stride = layout.row_bytes();
  const uint64_t data_bytes = file.bytes.size() - layout.offset;
  // Division, not multiplication: a malicious header must not pass the check by overflow.
  if (data_bytes % layout.stride != 0 || data_bytes / layout.stride != layout.rows_count) {
    return BadFile(file.name, Cat("byte ", layout.offset), "shape ", Shape(header), " of ",
                   header.descr, " needs rows of ", layout.stride, " bytes, ", layout.rows_count,
                   " of them, but ", data_bytes, " bytes follow the header");
  }
  return layout;
}

// Returns a hint about the usual cause of an implausible header: big-endian data.
std::string EndianHint(int32_t value) {
  const uint32_t swapped = __builtin_bswap32(static_cast<uint32_t>(value));
  if (swapped == 0 || swapped > 1000000) return "";
  return Cat(" (read as big-endian it would be ", swapped, "; the format is little-endian)");
}

absl::StatusOr<VectorLayout> FbinLayout(const NamedBytes& file) {
  constexpr uint64_t kHeaderBytes = 2 * kInt32Bytes;
  if (file.bytes.size() < kHeaderBytes) {
    return BadFile(file.name, "byte 0",
                   "too short: an .fbin file begins with int32 rows, int32 dim");
  }
  const int32_t rows = Int32At(file, 0);
  const int32_t dim = Int32At(file, kInt32Bytes);
  if (rows < 0) return BadFile(file.name, "byte 0", "rows = ", rows, EndianHint(rows));
  if (dim < 1) return BadFile(file.name, "byte 4", "dim = ", dim, EndianHint(dim));
  VectorLayout layout;
  layout.dim = static_cast<uint32_t>(dim);
  layout.rows_count = static_cast<uint64_t>(rows);
  layout.offset = kHeaderBytes;
  layout.stride = layout.row_bytes();
  const uint64_t data_bytes = file.bytes.size() - kHeaderBytes;
  if (data_bytes % layout.stride != 0 || data_bytes / layout.stride != layout.rows_count) {
    return BadFile(file.name, "byte 8", rows, " rows of dim ", dim, " need ",
                   layout.rows_count * layout.stride, " bytes, but ", data_bytes, " follow",
                   EndianHint(dim));
  }
  return layout;
}

absl::StatusOr<VectorLayout> FvecsLayout(const NamedBytes& file) {
  VectorLayout layout;
  layout.dim_before_row = true;
  layout.offset = kInt32Bytes;
  if (file.bytes.size() < kInt32Bytes) {
    return BadFile(file.name, "byte 0", "too short: an .fvecs row begins with int32 dim");
  }
  const int32_t dim = Int32At(file, 0);
  if (dim < 1) return BadFile(file.name, "byte 0", "dim = ", dim, EndianHint(dim));
  layout.dim = static_cast<uint32_t>(dim);
  layout.stride = kInt32Bytes + layout.row_bytes();
  if (file.bytes.size() % layout.stride != 0) {
    return BadFile(file.name, "byte 0", "dim = ", dim, " makes rows of ", layout.stride,
                   " bytes, and ", file.bytes.size(), " bytes are not a whole number of them",
                   EndianHint(dim));
  }
  layout.rows_count = file.bytes.size() / layout.stride;
  return layout;
}

}  // namespace

absl::StatusOr<FileFormat> FormatOf(const std::string& path, std::optional<FileFormat> given) {
  if (given) return *given;
  const std::string_view name = path;
  for (const auto& [ending, format] : {std::pair(std::string_view(".npy"), FileFormat::kNpy),
                                       std::pair(std::string_view(".fbin"), FileFormat::kFbin),
                                       std::pair(std::string_view(".fvecs"), FileFormat::kFvecs),
                                       std::pair(std::string_view(".jsonl"), FileFormat::kJsonl),
                                       std::pair(std::string_view(".csv"), FileFormat::kCsv)}) {
    if (name.ends_with(ending)) return format;
  }
  if (IsPipeName(name)) return FileFormat::kJsonl;
  for (const auto& [ending, advice] : kConversions) {
    if (name.ends_with(ending)) {
      return absl::InvalidArgumentError(Cat(path, ": ", ending, " files are not read; ", advice));
    }
  }
  return absl::InvalidArgumentError(
      Cat(path, ": the name must end in ", kFormats, "; for another name give --format"));
}

absl::StatusOr<VectorLayout> ParseLayout(const NamedBytes& file, FileFormat format,
                                         std::optional<DataType> dtype) {
  if (format == FileFormat::kNpy) return NpyLayout(file, dtype);
  if (IsText(format)) {
    return BadFile(file.name, "format", "not a file of vectors, such as .npy, .fbin or .fvecs");
  }
  if (dtype.value_or(DataType::kFloat32) != DataType::kFloat32) {
    return BadFile(file.name, "format", "holds float32, not ", Name(*dtype));
  }
  return format == FileFormat::kFbin ? FbinLayout(file) : FvecsLayout(file);
}

namespace {

absl::Status CheckDim(const NamedBytes& file, const VectorLayout& layout, uint64_t row) {
  if (!layout.dim_before_row) return absl::OkStatus();
  const int32_t dim = Int32At(file, layout.offset + row * layout.stride - kInt32Bytes);
  if (dim == static_cast<int32_t>(layout.dim)) return absl::OkStatus();
  return BadFile(file.name, Cat("row ", row), "dim = ", dim, ", but row 0 has ", layout.dim);
}

}  // namespace

absl::Status AppendRows(const NamedBytes& file, const VectorLayout& layout, uint64_t begin,
                        uint64_t end, std::string* out) {
  const uint64_t row_bytes = layout.row_bytes();
  if (layout.stride == row_bytes) {
    out->append(
        file.bytes.substr(layout.offset + begin * layout.stride, (end - begin) * row_bytes));
    return absl::OkStatus();
  }
  for (uint64_t row = begin; row < end; ++row) {
    NF_RETURN_IF_ERROR(CheckDim(file, layout, row));
    out->append(file.bytes.substr(layout.offset + row * layout.stride, row_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> VectorFile::CheckRows() const {
  const NamedBytes file = file_.bytes();
  uint64_t zero_rows = 0;
  for (uint64_t row = 0; row < layout_.rows_count; ++row) {
    NF_RETURN_IF_ERROR(CheckDim(file, layout_, row));
    const std::string_view bytes =
        file.bytes.substr(layout_.offset + row * layout_.stride, layout_.row_bytes());
    const RowCheck check = CheckRow(layout_.dtype, bytes);
    if (check.non_finite) {
      return BadFile(file.name, Cat("row ", row), "element ", *check.non_finite,
                     " is infinite or NaN; vectors must be finite");
    }
    zero_rows += check.is_zero ? 1 : 0;
  }
  return zero_rows;
}

absl::StatusOr<VectorFile> VectorFile::Open(const std::string& path, FileFormat format,
                                            std::optional<DataType> dtype) {
  NF_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  NF_ASSIGN_OR_RETURN(const VectorLayout layout, ParseLayout(file.bytes(), format, dtype));
  return VectorFile(std::move(file), layout);
}

}  // namespace nearfield::client

#include "client/formats/row_source.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "client/cpp/status_macros.h"
#include "client/formats/attribute_file.h"
#include "client/formats/id_file.h"
#include "client/formats/payload_file.h"
#include "client/formats/spool.h"
#include "client/formats/text_source.h"

namespace nearfield::client {
namespace {

class BinarySource final : public RowSource {
 public:
  BinarySource(VectorFile vectors, uint64_t zero_rows_count, std::optional<IdColumn> ids,
               std::optional<PayloadFile> payloads, std::optional<AttributeFile> attributes)
      : vectors_(std::move(vectors)),
        ids_(std::move(ids)),
        payloads_(std::move(payloads)),
        attributes_(std::move(attributes)) {
    const VectorLayout& layout = vectors_.layout();
    shape_ = {.rows_count = layout.rows_count,
              .payload_bytes = payloads_ ? payloads_->payload_bytes() : 0,
              .dim = layout.dim,
              .dtype = layout.dtype,
              .id_type = ids_ ? TypeOf(*ids_) : IdType::kUint64,
              .zero_rows_count = zero_rows_count,
              .rows_with_attribute =
                  attributes_ ? attributes_->rows_with_value() : std::vector<uint64_t>()};
  }

  const Shape& shape() const override { return shape_; }

  void Rewind() override {
    next_ = 0;
    vectors_.Forget(0);
    if (payloads_) payloads_->Rewind();
    if (attributes_) attributes_->Rewind();
  }

  absl::Status Next(uint64_t bytes_max, RowBatch* batch) override {
    *batch = RowBatch();
    const uint64_t row_bytes = vectors_.layout().row_bytes();
    const uint64_t rows_left = shape_.rows_count - next_;
    const uint64_t rows = std::min(rows_left, std::max<uint64_t>(bytes_max / row_bytes, 1));
    uint64_t end = next_ + rows;
    if (payloads_) {
      uint64_t bytes = 0;
      for (end = next_; end < next_ + rows && bytes < bytes_max; ++end) {
        batch->payloads.push_back(payloads_->Next());
        bytes += row_bytes + batch->payloads.back().size();
      }
    }
    NF_RETURN_IF_ERROR(vectors_.AppendRows(next_, end, &batch->vectors));
    vectors_.Forget(end);
    if (ids_) {
      batch->ids = Slice(*ids_, next_, end);
    } else {
      std::vector<uint64_t> numbers(end - next_);
      std::iota(numbers.begin(), numbers.end(), next_);
      batch->ids = std::move(numbers);
    }
    if (attributes_) batch->attributes = attributes_->Next(end - next_);
    next_ = end;
    return absl::OkStatus();
  }

 private:
  VectorFile vectors_;
  std::optional<IdColumn> ids_;
  std::optional<PayloadFile> payloads_;
  std::optional<AttributeFile> attributes_;
  Shape shape_;
  uint64_t next_ = 0;
};

absl::Status CheckCount(const std::string& path, uint64_t count, const RowSourceOptions& options,
                        uint64_t rows_count) {
  if (count == rows_count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(path, ": has ", count, " entries, but ", options.path, " has ", rows_count, " rows"));
}

absl::StatusOr<std::unique_ptr<RowSource>> OpenBinary(const RowSourceOptions& options,
                                                      FileFormat format) {
  NF_ASSIGN_OR_RETURN(VectorFile vectors, VectorFile::Open(options.path, format, options.dtype));
  const uint64_t rows_count = vectors.layout().rows_count;
  std::optional<IdColumn> ids;
  std::optional<PayloadFile> payloads;
  if (!options.ids_path.empty()) {
    NF_ASSIGN_OR_RETURN(ids, ReadIds(options.ids_path, options.id_type));
    NF_RETURN_IF_ERROR(CheckCount(options.ids_path, Count(*ids), options, rows_count));
  }
  if (!options.payloads_path.empty()) {
    NF_ASSIGN_OR_RETURN(
        payloads, PayloadFile::Open(options.payloads_path, options.id_field, options.id_type));
    NF_RETURN_IF_ERROR(
        CheckCount(options.payloads_path, payloads->rows_count(), options, rows_count));
    if (!options.id_field.empty()) ids = payloads->ids();
  }
  std::optional<AttributeFile> attributes;
  if (!options.attributes_path.empty()) {
    NF_ASSIGN_OR_RETURN(attributes,
                        AttributeFile::Open(options.attributes_path, options.attributes));
    NF_RETURN_IF_ERROR(
        CheckCount(options.attributes_path, attributes->rows_count(), options, rows_count));
  }
  NF_ASSIGN_OR_RETURN(const uint64_t zero_rows, vectors.CheckRows());
  return std::make_unique<BinarySource>(std::move(vectors), zero_rows, std::move(ids),
                                        std::move(payloads), std::move(attributes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> OpenRowSource(const RowSourceOptions& options) {
  if (!options.id_field.empty() && (options.payloads_path.empty() || !options.ids_path.empty())) {
    return absl::InvalidArgumentError("an id field needs a file of payloads, and no file of ids");
  }
  const std::array paths = {&options.path, &options.ids_path, &options.payloads_path,
                            &options.attributes_path};
  if (std::count_if(paths.begin(), paths.end(),
                    [](const std::string* path) { return IsStandardInput(*path); }) > 1) {
    return absl::InvalidArgumentError(
        "standard input is given for two files: it can be read only once");
  }
  NF_ASSIGN_OR_RETURN(const FileFormat format, FormatOf(options.path, options.format));
  std::unique_ptr<RowSource> source;
  if (IsText(format)) {
    if (!options.ids_path.empty() || !options.payloads_path.empty() ||
        !options.attributes_path.empty()) {
      return absl::InvalidArgumentError(
          Cat(options.path, ": a text of rows carries its own ids, payloads and attributes"));
    }
    NF_ASSIGN_OR_RETURN(source, OpenTextSource(options, format));
  } else {
    NF_ASSIGN_OR_RETURN(source, OpenBinary(options, format));
  }
  if (source->shape().rows_count == 0) {
    return absl::InvalidArgumentError(Cat(options.path, ": holds no row"));
  }
  if (options.id_type && source->shape().id_type != *options.id_type) {
    return absl::InvalidArgumentError(
        Cat(options.path, ": its ids are ", Name(source->shape().id_type),
            ", but the collection's are ", Name(*options.id_type),
            "; give ids with --ids FILE, or with --payloads FILE --id-field NAME"));
  }
  return source;
}

}  // namespace nearfield::client

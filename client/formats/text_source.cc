#include "client/formats/text_source.h"

#include <utility>

#include "client/cpp/status_macros.h"
#include "client/formats/mapped_file.h"
#include "client/formats/npy.h"
#include "client/formats/row_check.h"
#include "client/formats/text_rows.h"

namespace nearfield::client {
namespace {

absl::Status CheckIsText(const NamedBytes& file) {
  if (IsNpy(file.bytes)) {
    return BadFile(file.name, "byte 0", "this is no text of rows; give --format npy");
  }
  const std::string_view begin = file.bytes.substr(0, 2);
  if (begin == "\xff\xfe" || begin == "\xfe\xff") {
    return BadFile(file.name, "line 1", "the text is UTF-16; write it as UTF-8");
  }
  return absl::OkStatus();
}

class TextSource final : public RowSource {
 public:
  // rows: of the text of the file.
  TextSource(MappedFile file, std::unique_ptr<TextRows> rows, const RowSourceOptions& options)
      : file_(std::move(file)), rows_(std::move(rows)), attributes_(options.attributes) {
    shape_.dtype = options.dtype.value_or(DataType::kFloat32);
    shape_.dim = options.dim.value_or(0);
    wanted_ = options.dim ? "the collection needs " : "the first row's has ";
  }

  const Shape& shape() const override { return shape_; }

  void Rewind() override {
    static_cast<void>(rows_->Begin().ok());  // Scan() has verified the head
    next_row_ = 0;
    static_cast<void>(attributes_.Take());
  }

  absl::Status Scan(const std::vector<AttributeSpec>& specs) {
    AttributeReader attributes(specs);
    absl::Status status = rows_->Begin();
    for (TextRow row; status.ok();) {
      const absl::StatusOr<bool> there = rows_->Next(&row, &attributes);
      if (there.ok() && !*there) break;
      status = there.ok() ? Learn(row) : there.status();
      if (status.ok()) static_cast<void>(attributes.Take());
    }
    if (!status.ok()) return BadFile(file_.bytes().name, rows_->place(), status.message());
    shape_.rows_with_attribute = attributes.rows_with_value();
    Rewind();
    return absl::OkStatus();
  }

  absl::Status Next(uint64_t bytes_max, RowBatch* batch) override {
    *batch =
        RowBatch{.ids = EmptyIds(shape_.id_type), .vectors = {}, .payloads = {}, .attributes = {}};
    TextRow row;
    for (uint64_t bytes = 0; bytes < bytes_max;) {
      NF_ASSIGN_OR_RETURN(const bool there, rows_->Next(&row, &attributes_));
      if (!there) break;
      Narrow(shape_.dtype, row.vector, &batch->vectors);  // Scan() has verified that it fits
      bytes += row.vector.size() * ElementBytes(shape_.dtype) + row.payload.size();
      bytes += row.attribute_bytes;
      Append(row.id ? *row.id : Id(next_row_), &batch->ids);
      ++next_row_;
      if (shape_.payload_bytes > 0) batch->payloads.push_back(std::move(row.payload));
    }
    batch->attributes = attributes_.Take();
    return absl::OkStatus();
  }

 private:
  absl::Status Learn(const TextRow& row) {
    const IdType id_type = row.id ? TypeOf(*row.id) : IdType::kUint64;
    if (shape_.rows_count == 0) {
      if (shape_.dim == 0) shape_.dim = static_cast<uint32_t>(row.vector.size());
      shape_.id_type = id_type;
      has_ids_ = row.id.has_value();
    }
    if (row.vector.size() != shape_.dim) {
      return absl::InvalidArgumentError(
          Cat("vector has ", row.vector.size(), " values, ", wanted_, shape_.dim));
    }
    if (row.id.has_value() != has_ids_) {
      return absl::InvalidArgumentError("either every row has an \"id\", or none");
    }
    if (id_type != shape_.id_type) {
      return absl::InvalidArgumentError("string ids and number ids in one file");
    }
    encoded_.clear();
    if (!Narrow(shape_.dtype, row.vector, &encoded_)) {
      return absl::InvalidArgumentError(
          Cat("vector: a value is too large for ", Name(shape_.dtype)));
    }
    shape_.zero_rows_count += CheckRow(shape_.dtype, encoded_).is_zero ? 1 : 0;
    shape_.payload_bytes += row.payload.size();
    ++shape_.rows_count;
    return absl::OkStatus();
  }

  MappedFile file_;
  std::unique_ptr<TextRows> rows_;
  AttributeReader attributes_;
  Shape shape_;
  std::string_view wanted_;  // whose dimension shape_.dim is
  std::string encoded_;      // of one row
  bool has_ids_ = false;
  uint64_t next_row_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> OpenTextSource(const RowSourceOptions& options,
                                                          FileFormat format) {
  NF_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(options.path));
  NF_RETURN_IF_ERROR(CheckIsText(file.bytes()));
  const std::string_view text = file.bytes().bytes;
  std::unique_ptr<TextRows> rows =
      format == FileFormat::kJsonl
          ? MakeJsonlRows(text, options.attributes)
          : MakeCsvRows(text, options.id_type.value_or(IdType::kString), options.attributes);
  auto source = std::make_unique<TextSource>(std::move(file), std::move(rows), options);
  NF_RETURN_IF_ERROR(source->Scan(options.attributes));
  return source;
}

}  // namespace nearfield::client

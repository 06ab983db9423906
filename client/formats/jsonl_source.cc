#include "client/formats/jsonl_source.h"

#include <utility>

#include "client/formats/attribute_reader.h"
#include "client/formats/jsonl.h"
#include "client/formats/lines.h"
#include "client/formats/mapped_file.h"
#include "client/formats/npy.h"
#include "client/formats/row_check.h"
#include "client/formats/status_macros.h"

namespace nearfield::client {
namespace {

class JsonlSource final : public RowSource {
 public:
  JsonlSource(MappedFile file, const RowSourceOptions& options)
      : file_(std::move(file)),
        lines_(file_.bytes().bytes),
        specs_(options.attributes),
        attributes_(specs_) {
    shape_.dtype = options.dtype.value_or(DataType::kFloat32);
  }

  const Shape& shape() const override { return shape_; }

  void Rewind() override {
    lines_ = LineReader(file_.bytes().bytes);
    next_row_ = 0;
    static_cast<void>(attributes_.Take());
  }

  absl::Status Scan() {
    if (IsNpy(file_.bytes().bytes)) {
      return BadFile(file_.bytes().name, "byte 0", "these are not JSON lines; give --format npy");
    }
    const std::string_view begin = file_.bytes().bytes.substr(0, 2);
    if (begin == "\xff\xfe" || begin == "\xfe\xff") {
      return BadFile(file_.bytes().name, "line 1", "the text is UTF-16; write it as UTF-8");
    }
    LineReader lines(file_.bytes().bytes);
    std::string encoded;
    AttributeReader attributes(specs_);
    for (std::string_view line; lines.NextJson(&line);) {
      encoded.clear();
      absl::StatusOr<JsonRow> row = ParseJsonRow(line, specs_);
      absl::Status status = row.ok() ? Learn(*row, &encoded) : row.status();
      if (status.ok()) status = attributes.AddRow(row->attributes);
      static_cast<void>(attributes.Take());
      if (!status.ok()) {
        return BadFile(file_.bytes().name, lines.place(), status.message());
      }
    }
    shape_.rows_with_attribute = attributes.rows_with_value();
    return absl::OkStatus();
  }

  absl::Status Next(uint64_t bytes_max, RowBatch* batch) override {
    *batch =
        RowBatch{.ids = EmptyIds(shape_.id_type), .vectors = {}, .payloads = {}, .attributes = {}};
    uint64_t bytes = 0;
    std::string_view line;
    while (bytes < bytes_max && lines_.NextJson(&line)) {
      NF_ASSIGN_OR_RETURN(JsonRow row, ParseJsonRow(line, specs_));
      NF_RETURN_IF_ERROR(attributes_.AddRow(row.attributes));
      Narrow(shape_.dtype, row.vector, &batch->vectors);  // Scan() has verified that it fits
      bytes += row.vector.size() * ElementBytes(shape_.dtype) + row.payload.size();
      Append(row.id ? *row.id : Id(next_row_), &batch->ids);
      ++next_row_;
      for (const JsonMember& member : row.attributes) bytes += member.value.size();
      if (shape_.payload_bytes > 0) batch->payloads.push_back(std::move(row.payload));
    }
    batch->attributes = attributes_.Take();
    return absl::OkStatus();
  }

 private:
  absl::Status Learn(const JsonRow& row, std::string* encoded) {
    const IdType id_type = row.id ? TypeOf(*row.id) : IdType::kUint64;
    if (shape_.rows_count == 0) {
      shape_.dim = static_cast<uint32_t>(row.vector.size());
      shape_.id_type = id_type;
      has_ids_ = row.id.has_value();
    }
    if (row.vector.size() != shape_.dim) {
      return absl::InvalidArgumentError(
          Cat("vector has ", row.vector.size(), " values, the first row's has ", shape_.dim));
    }
    if (row.id.has_value() != has_ids_) {
      return absl::InvalidArgumentError("either every row has an \"id\", or none");
    }
    if (id_type != shape_.id_type) {
      return absl::InvalidArgumentError("string ids and number ids in one file");
    }
    if (!Narrow(shape_.dtype, row.vector, encoded)) {
      return absl::InvalidArgumentError(
          Cat("vector: a value is too large for ", Name(shape_.dtype)));
    }
    shape_.zero_rows_count += CheckRow(shape_.dtype, *encoded).is_zero ? 1 : 0;
    shape_.payload_bytes += row.payload.size();
    ++shape_.rows_count;
    return absl::OkStatus();
  }

  MappedFile file_;
  LineReader lines_;
  std::vector<AttributeSpec> specs_;
  AttributeReader attributes_;
  Shape shape_;
  bool has_ids_ = false;
  uint64_t next_row_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> OpenJsonlSource(const RowSourceOptions& options) {
  NF_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(options.path));
  auto source = std::make_unique<JsonlSource>(std::move(file), options);
  NF_RETURN_IF_ERROR(source->Scan());
  return source;
}

}  // namespace nearfield::client

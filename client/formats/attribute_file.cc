#include "client/formats/attribute_file.h"

#include <utility>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/json_text.h"
#include "client/formats/spool.h"

namespace nearfield::client {

namespace {

// Returns true for CSV. A pipe has JSON lines if its first line begins an object.
bool IsCsv(const NamedBytes& file) {
  if (!IsPipeName(file.name)) return file.name.ends_with(".csv");
  std::string_view line;
  return !LineReader(file.bytes).NextJson(&line) || !TrimJson(line).starts_with('{');
}

}  // namespace

AttributeFile::AttributeFile(MappedFile file, const std::vector<AttributeSpec>& specs)
    : file_(std::move(file)), reader_(specs), lines_(file_.bytes().bytes) {
  if (IsCsv(file_.bytes())) csv_.emplace(file_.bytes().bytes);
}

absl::StatusOr<AttributeFile> AttributeFile::Open(const std::string& path,
                                                  const std::vector<AttributeSpec>& specs) {
  if (!IsPipeName(path) && !path.ends_with(".jsonl") && !path.ends_with(".csv")) {
    return absl::InvalidArgumentError(Cat(path, ": a file of attributes ends in .jsonl or .csv"));
  }
  NF_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  AttributeFile attributes(std::move(file), specs);
  if (const absl::Status status = attributes.Scan(specs); !status.ok()) {
    return BadFile(path, attributes.place(), status.message());
  }
  attributes.Rewind();
  return attributes;
}

absl::Status AttributeFile::ReadHeader(const std::vector<AttributeSpec>& specs) {
  NF_ASSIGN_OR_RETURN(const bool there, csv_->Next(&cells_));
  if (!there) return absl::InvalidArgumentError("expected the names of the columns");
  columns_.assign(specs.size(), AttributeReader::kNoColumn);
  for (size_t i = 0; i < specs.size(); ++i) {
    for (size_t column = 0; column < cells_.size(); ++column) {
      if (cells_[column].text != specs[i].name) continue;
      if (columns_[i] != AttributeReader::kNoColumn) {
        return absl::InvalidArgumentError(Cat("two columns ", specs[i].name));
      }
      columns_[i] = column;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> AttributeFile::ReadRow(AttributeReader* reader) {
  if (csv_) {
    NF_ASSIGN_OR_RETURN(const bool there, csv_->Next(&cells_));
    if (!there) return false;
    NF_RETURN_IF_ERROR(reader->AddRow(cells_, columns_));
    return true;
  }
  std::string_view line;
  if (!lines_.NextJson(&line)) return false;
  NF_RETURN_IF_ERROR(CheckJson(line));
  NF_ASSIGN_OR_RETURN(const std::vector<JsonMember> members, JsonMembers(line));
  NF_RETURN_IF_ERROR(reader->AddRow(members));
  return true;
}

absl::Status AttributeFile::Scan(const std::vector<AttributeSpec>& specs) {
  if (csv_) NF_RETURN_IF_ERROR(ReadHeader(specs));
  AttributeReader reader(specs);
  for (;;) {
    NF_ASSIGN_OR_RETURN(const bool there, ReadRow(&reader));
    if (!there) break;
    ++rows_count_;
    static_cast<void>(reader.Take());
  }
  rows_with_value_ = reader.rows_with_value();
  return absl::OkStatus();
}

void AttributeFile::Rewind() {
  lines_ = LineReader(file_.bytes().bytes);
  if (!csv_) return;
  csv_.emplace(file_.bytes().bytes);
  static_cast<void>(csv_->Next(&cells_).ok());  // skip the line of names
}

std::vector<AttributeColumn> AttributeFile::Next(uint64_t rows_count) {
  // Scan() has verified that every row can be read.
  for (uint64_t i = 0; i < rows_count; ++i) static_cast<void>(ReadRow(&reader_).ok());
  return reader_.Take();
}

}  // namespace nearfield::client

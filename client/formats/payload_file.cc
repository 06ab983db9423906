#include "client/formats/payload_file.h"

#include <utility>

#include "client/cpp/status_macros.h"
#include "client/formats/id_file.h"
#include "client/formats/json_text.h"
#include "client/formats/jsonl.h"

namespace nearfield::client {
namespace {

absl::StatusOr<std::string> CheckedBytes(std::string_view line) {
  NF_RETURN_IF_ERROR(CheckJson(line));
  return PayloadBytes(line);
}

}  // namespace

absl::StatusOr<PayloadFile> PayloadFile::Open(const std::string& path, const std::string& id_field,
                                              std::optional<IdType> id_type) {
  NF_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  PayloadFile payloads(std::move(file));
  NF_RETURN_IF_ERROR(payloads.Scan(id_field, id_type));
  return payloads;
}

absl::Status PayloadFile::Scan(const std::string& id_field, std::optional<IdType> id_type) {
  const NamedBytes file = file_.bytes();
  LineReader lines(file.bytes);
  ids_ = EmptyIds(id_type.value_or(IdType::kUint64));
  for (std::string_view line; lines.NextJson(&line);) {
    const absl::StatusOr<std::string> bytes = CheckedBytes(line);
    if (!bytes.ok()) return BadFile(file.name, lines.place(), bytes.status().message());
    ++rows_count_;
    payload_bytes_ += bytes->size();
    if (id_field.empty()) continue;
    const absl::StatusOr<Id> id = IdInPayload(line, id_field);
    if (!id.ok()) return BadFile(file.name, lines.place(), id.status().message());
    if (!id_type && rows_count_ == 1) ids_ = EmptyIds(TypeOf(*id));
    if (TypeOf(*id) != TypeOf(ids_)) {
      return BadFile(file.name, lines.place(), "the id is of type ", Name(TypeOf(*id)),
                     ", expected ", Name(TypeOf(ids_)));
    }
    Append(*id, &ids_);
  }
  return absl::OkStatus();
}

std::string PayloadFile::Next() {
  std::string_view line;
  lines_.NextJson(&line);
  return PayloadBytes(line).value_or("");  // Scan has checked it
}

}  // namespace nearfield::client

#include "client/formats/id_file.h"

#include <cstring>
#include <utility>
#include <vector>

#include "client/cpp/status_macros.h"
#include "client/formats/json_text.h"
#include "client/formats/lines.h"
#include "client/formats/mapped_file.h"
#include "client/formats/npy.h"

namespace nearfield::client {
namespace {

absl::StatusOr<IdColumn> NpyIds(const NamedBytes& file) {
  NF_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(file));
  const bool is_signed = header.descr == "<i8";
  if ((header.descr != "<u8" && !is_signed) || header.shape.size() != 1) {
    return BadFile(file.name, "header", "ids must be a 1-D array of <u8 or <i8, not of ",
                   header.descr, " with ", header.shape.size(), " axes");
  }
  const uint64_t bytes = file.bytes.size() - header.data_offset;
  if (bytes % 8 != 0 || bytes / 8 != header.shape[0]) {
    return BadFile(file.name, Cat("byte ", header.data_offset), "the header promises ",
                   header.shape[0], " ids of 8 bytes, but ", bytes, " bytes follow");
  }
  std::vector<uint64_t> ids(header.shape[0]);
  if (!ids.empty()) std::memcpy(ids.data(), file.bytes.data() + header.data_offset, bytes);
  for (size_t i = 0; is_signed && i < ids.size(); ++i) {
    if (ids[i] >> 63 != 0) {
      return BadFile(file.name, Cat("element ", i),
                     "a negative id: ", static_cast<int64_t>(ids[i]));
    }
  }
  return IdColumn(std::move(ids));
}

absl::StatusOr<Id> JsonLineId(std::string_view line) {
  NF_RETURN_IF_ERROR(CheckJson(line));
  NF_ASSIGN_OR_RETURN(Id id, JsonId(line));
  if (TypeOf(id) == IdType::kString && std::get<std::string>(id).empty()) {
    return absl::InvalidArgumentError("an empty id");
  }
  return id;
}

absl::StatusOr<IdColumn> LineIds(const NamedBytes& file, std::optional<IdType> type) {
  const bool json = file.name.ends_with(".jsonl");
  IdColumn ids = EmptyIds(type.value_or(IdType::kString));
  bool type_known = type.has_value() || !json;
  LineReader lines(file.bytes);
  for (std::string_view line; json ? lines.NextJson(&line) : lines.Next(&line);) {
    const absl::StatusOr<Id> id = json ? JsonLineId(line) : ParseId(line, TypeOf(ids));
    if (!id.ok()) return BadFile(file.name, lines.place(), id.status().message());
    if (!std::exchange(type_known, true)) ids = EmptyIds(TypeOf(*id));
    if (TypeOf(*id) != TypeOf(ids)) {
      return BadFile(file.name, lines.place(), "a ", Name(TypeOf(*id)), " id among ",
                     Name(TypeOf(ids)), " ids");
    }
    Append(*id, &ids);
  }
  return ids;
}

}  // namespace

absl::StatusOr<Id> ParseId(std::string_view text, IdType type) {
  if (text.empty()) return absl::InvalidArgumentError("an empty id");
  if (type == IdType::kString) {
    if (IsUtf8(text)) return Id(std::string(text));
    return absl::InvalidArgumentError(Cat("id ", QuoteJson(text.substr(0, 60)), " is not UTF-8"));
  }
  if (const auto number = ParseNumber<uint64_t>(text)) return Id(*number);
  return absl::InvalidArgumentError(Cat(
      "id ", QuoteJson(text.substr(0, 60)),
      " is not a whole number from 0 to 18446744073709551615; the collection's ids are numbers"));
}

absl::StatusOr<IdColumn> ParseIds(const NamedBytes& file, std::optional<IdType> type) {
  NF_ASSIGN_OR_RETURN(IdColumn ids, file.name.ends_with(".npy") || IsNpy(file.bytes)
                                        ? NpyIds(file)
                                        : LineIds(file, type));
  if (type && TypeOf(ids) != *type) {
    return BadFile(file.name, "ids", "are ", Name(TypeOf(ids)), ", but the collection's are ",
                   Name(*type));
  }
  return ids;
}

absl::StatusOr<IdColumn> ReadIds(const std::string& path, std::optional<IdType> type) {
  NF_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseIds(file.bytes(), type);
}

absl::StatusOr<Id> IdInPayload(std::string_view object, std::string_view field) {
  NF_ASSIGN_OR_RETURN(const std::vector<JsonMember> members, JsonMembers(object));
  for (const JsonMember& member : members) {
    if (member.key == field) return JsonId(member.value);
  }
  return absl::InvalidArgumentError(Cat("no member ", QuoteJson(field), " to take the id from"));
}

}  // namespace nearfield::client

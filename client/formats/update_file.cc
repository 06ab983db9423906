#include "client/formats/update_file.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/named_bytes.h"

namespace nearfield::client {
namespace {

// Returns an id that occurs more than once.
std::optional<Id> RepeatedId(IdColumn ids) {
  return std::visit(
      [](auto& column) -> std::optional<Id> {
        std::sort(column.begin(), column.end());
        const auto found = std::adjacent_find(column.begin(), column.end());
        if (found == column.end()) return std::nullopt;
        return Id(*found);
      },
      ids);
}

}  // namespace

UpdateFile::UpdateFile(MappedFile file, IdType id_type, const std::vector<AttributeSpec>& specs)
    : file_(std::move(file)),
      id_type_(id_type),
      specs_(specs),
      reader_(specs),
      lines_(file_.bytes().bytes) {}

absl::StatusOr<UpdateFile> UpdateFile::Open(const std::string& path, IdType id_type,
                                            const std::vector<AttributeSpec>& specs) {
  NF_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  UpdateFile updates(std::move(file), id_type, specs);
  NF_RETURN_IF_ERROR(updates.Scan());
  return updates;
}

absl::StatusOr<JsonRow> UpdateFile::Read(std::string_view line) {
  NF_ASSIGN_OR_RETURN(JsonRow row, ParseJsonUpdate(line, specs_));
  if (TypeOf(*row.id) != id_type_) {
    return absl::InvalidArgumentError(Cat("the id is of type ", Name(TypeOf(*row.id)),
                                          ", the collection's are of type ", Name(id_type_)));
  }
  NF_RETURN_IF_ERROR(reader_.AddRow(row.attributes));
  return row;
}

absl::Status UpdateFile::Scan() {
  const NamedBytes file = file_.bytes();
  IdColumn ids = EmptyIds(id_type_);
  for (std::string_view line; lines_.NextJson(&line);) {
    const absl::StatusOr<JsonRow> row = Read(line);
    if (!row.ok()) return BadFile(file.name, lines_.place(), row.status().message());
    Append(*row->id, &ids);
    static_cast<void>(reader_.Take());
  }
  rows_count_ = Count(ids);
  if (rows_count_ == 0) return absl::InvalidArgumentError(Cat(file.name, ": holds no row"));
  if (const std::optional<Id> id = RepeatedId(std::move(ids))) {
    return BadFile(file.name, "ids", ToString(*id), " occurs twice");
  }
  lines_ = LineReader(file.bytes);
  return absl::OkStatus();
}

absl::StatusOr<UpdateRows> UpdateFile::Next(size_t rows_max, uint64_t bytes_max) {
  UpdateRows rows{.ids = EmptyIds(id_type_), .update = {}};
  std::vector<bool>& changed = rows.update.payloads_changed;
  std::string_view line;
  for (uint64_t bytes = 0; changed.size() < rows_max && bytes < bytes_max; bytes += line.size()) {
    if (!lines_.NextJson(&line)) break;
    NF_ASSIGN_OR_RETURN(JsonRow row, Read(line));
    Append(*row.id, &rows.ids);
    changed.push_back(row.payload.has_value());
    rows.update.payloads.push_back(std::move(row.payload).value_or(""));
  }
  const auto payloads = std::count(changed.begin(), changed.end(), true);
  if (payloads == 0) rows.update.payloads.clear();
  if (payloads == 0 || payloads == std::ssize(changed)) changed.clear();
  rows.update.attributes = reader_.TakeUpdates();
  return rows;
}

}  // namespace nearfield::client

#include "client/cli/payload_columns.h"

#include "client/cli/text_output.h"
#include "client/formats/json_text.h"
#include "client/formats/jsonl.h"

namespace nearfield::client {
namespace {

constexpr size_t kCellWidthMax = 100;

}  // namespace

std::vector<std::string> PayloadColumnNames(const std::vector<std::string>& fields) {
  return fields.empty() ? std::vector<std::string>{"payload"} : fields;
}

std::vector<std::string> PayloadCells(std::string_view payload,
                                      const std::vector<std::string>& fields) {
  if (fields.empty()) return {Shortened(Printable(payload), kCellWidthMax)};
  std::vector<std::string> cells(fields.size());
  if (!CheckJson(payload).ok()) return cells;
  const auto members = JsonMembers(payload);
  if (!members.ok()) return cells;
  for (size_t i = 0; i < fields.size(); ++i) {
    for (const JsonMember& member : *members) {
      if (member.key == fields[i]) {
        cells[i] = Shortened(Printable(JsonText(member.value)), kCellWidthMax);
      }
    }
  }
  return cells;
}

}  // namespace nearfield::client

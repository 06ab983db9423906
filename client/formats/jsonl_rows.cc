#include <utility>

#include "client/cpp/status_macros.h"
#include "client/formats/jsonl.h"
#include "client/formats/lines.h"
#include "client/formats/text_rows.h"

namespace nearfield::client {
namespace {

class JsonLines final : public TextRows {
 public:
  JsonLines(std::string_view text, std::vector<AttributeSpec> attributes)
      : text_(text), specs_(std::move(attributes)), lines_(text) {}

  absl::Status Begin() override {
    lines_ = LineReader(text_);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Next(TextRow* row, AttributeReader* attributes) override {
    std::string_view line;
    if (!lines_.NextJson(&line)) return false;
    NF_ASSIGN_OR_RETURN(JsonRow found, ParseJsonRow(line, specs_));
    NF_RETURN_IF_ERROR(attributes->AddRow(found.attributes));
    *row = {.id = std::move(found.id),
            .vector = std::move(found.vector),
            .payload = std::move(found.payload).value_or("")};
    for (const JsonMember& member : found.attributes) row->attribute_bytes += member.value.size();
    return true;
  }

  std::string place() const override { return lines_.place(); }

 private:
  std::string_view text_;
  std::vector<AttributeSpec> specs_;
  LineReader lines_;
};

}  // namespace

std::unique_ptr<TextRows> MakeJsonlRows(std::string_view text,
                                        std::vector<AttributeSpec> attributes) {
  return std::make_unique<JsonLines>(text, std::move(attributes));
}

}  // namespace nearfield::client

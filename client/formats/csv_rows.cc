#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/status_macros.h"
#include "client/cpp/utf8.h"
#include "client/formats/csv.h"
#include "client/formats/id_file.h"
#include "client/formats/jsonl.h"
#include "client/formats/text_rows.h"

namespace nearfield::client {
namespace {

constexpr size_t kNoColumn = AttributeReader::kNoColumn;

template <typename Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class CsvTable final : public TextRows {
 public:
  CsvTable(std::string_view text, IdType id_type, std::vector<AttributeSpec> attributes)
      : text_(text), id_type_(id_type), specs_(std::move(attributes)), reader_(text) {}

  absl::Status Begin() override {
    reader_ = CsvReader(text_);
    NF_ASSIGN_OR_RETURN(const bool there, reader_.Next(&cells_));
    if (!there) return absl::InvalidArgumentError("expected the names of the columns");
    names_.clear();
    for (CsvCell& cell : cells_) {
      if (Contains(names_, cell.text)) {
        return absl::InvalidArgumentError(Cat("column ", QuoteJson(cell.text), " twice"));
      }
      names_.push_back(std::move(cell.text));
    }
    return FindColumns();
  }

  absl::StatusOr<bool> Next(TextRow* row, AttributeReader* attributes) override {
    NF_ASSIGN_OR_RETURN(const bool there, reader_.Next(&cells_));
    if (!there) return false;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (IsUtf8(cells_[i].text)) continue;
      return absl::InvalidArgumentError(Cat(names_[i], ": not UTF-8"));
    }
    NF_ASSIGN_OR_RETURN(row->id, ParseId(cells_[id_].text, id_type_));
    const std::string& vector = cells_[vector_].text;
    if (const absl::Status json = CheckJson(vector); !json.ok()) {
      return absl::InvalidArgumentError(Cat("vector: ", json.message()));
    }
    NF_ASSIGN_OR_RETURN(row->vector, ParseVector(vector));
    row->payload = payload_ == kNoColumn ? "" : cells_[payload_].text;
    row->attribute_bytes = 0;
    for (const size_t column : attributes_) {
      if (column != kNoColumn) row->attribute_bytes += cells_[column].text.size();
    }
    NF_RETURN_IF_ERROR(attributes->AddRow(cells_, attributes_));
    return true;
  }

  std::string place() const override { return reader_.place(); }

 private:
  // Returns the number of the column of that name, or kNoColumn.
  size_t Find(std::string_view name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return found == names_.end() ? kNoColumn : static_cast<size_t>(found - names_.begin());
  }

  // The Python client has the same rules: client/python/nearfield/_sources/plan.py.
  size_t FindAttribute(const std::string& name) const {
    constexpr std::array<std::string_view, 5> kParts = {"id", "score", "vector", "payload",
                                                        "query"};
    const size_t column = Contains(kParts, name) ? Find("attribute_" + name) : kNoColumn;
    return column != kNoColumn || name == "id" || name == "vector" ? column : Find(name);
  }

  absl::Status FindColumns() {
    id_ = Find("id");
    vector_ = Find("vector");
    payload_ = Find("payload");
    if (id_ == kNoColumn || vector_ == kNoColumn) {
      return absl::InvalidArgumentError(
          Cat("no column ", id_ == kNoColumn ? "\"id\"" : "\"vector\"",
              "; the first line names the columns: id, vector (a JSON array), payload, and "
              "attributes; for a file of numbers only, in Python: numpy.save('x.npy', "
              "numpy.loadtxt('x.csv', delimiter=',').astype('<f4'))"));
    }
    std::vector<bool> known(names_.size());
    for (const size_t column : {id_, vector_, payload_}) {
      if (column != kNoColumn) known[column] = true;
    }
    attributes_.clear();
    std::string unreadable;
    for (const AttributeSpec& spec : specs_) {
      const size_t column = attributes_.emplace_back(FindAttribute(spec.name));
      if (column == kNoColumn) continue;
      known[column] = true;
      const bool part = spec.name == "id" || spec.name == "vector" || spec.name == "payload";
      if (part && unreadable.empty()) unreadable = spec.name;
    }
    const auto unknown = std::find(known.begin(), known.end(), false);
    if (unknown != known.end()) {
      return UnknownPart("column", names_[static_cast<size_t>(unknown - known.begin())], specs_);
    }
    if (unreadable.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        Cat("an attribute ", QuoteJson(unreadable), " cannot be read from a file .csv"));
  }

  std::string_view text_;
  IdType id_type_;
  std::vector<AttributeSpec> specs_;
  CsvReader reader_;
  std::vector<CsvCell> cells_;
  std::vector<std::string> names_;
  size_t id_ = kNoColumn;
  size_t vector_ = kNoColumn;
  size_t payload_ = kNoColumn;
  std::vector<size_t> attributes_;  // the column of each, or kNoColumn
};

}  // namespace

std::unique_ptr<TextRows> MakeCsvRows(std::string_view text, IdType id_type,
                                      std::vector<AttributeSpec> attributes) {
  return std::make_unique<CsvTable>(text, id_type, std::move(attributes));
}

}  // namespace nearfield::client

#include "client/formats/query_set.h"

#include <optional>
#include <utility>

#include "client/cpp/status_macros.h"
#include "client/formats/json_fields.h"
#include "client/formats/json_text.h"
#include "client/formats/lines.h"
#include "client/formats/mapped_file.h"

namespace nearfield::client {
namespace {

// Adds a vector from its JSON text, as fp32 bytes.
absl::Status AddVector(std::string_view json, QuerySet* queries) {
  NF_ASSIGN_OR_RETURN(const std::vector<float> values, JsonFloats(json));
  if (values.empty()) return absl::InvalidArgumentError("an empty vector");
  Narrow(DataType::kFloat32, values, &queries->vectors.emplace_back());
  return absl::OkStatus();
}

// Adds one JSON value: a vector, several vectors, or an object that contains one.
absl::Status AddValue(std::string_view text, QuerySet* queries) {
  NF_RETURN_IF_ERROR(CheckJson(text));
  const std::string_view value = TrimJson(text);
  if (value.front() == '{') {
    NF_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Parse(value));
    // Labels are passed over, for example the id of a row that is a query. An option would be lost.
    for (const char* const option : {"k", "filter", "score_threshold", "at_epoch", "fields"}) {
      if (!fields.Find(option)) continue;
      return absl::InvalidArgumentError(
          Cat("\"", option, "\": a query file has only vectors; give the command this option"));
    }
    std::optional<std::string_view> vector = fields.Find("vector");
    if (!vector) vector = fields.Find("embedding");
    if (!vector) return absl::InvalidArgumentError("no \"vector\"");
    return AddVector(*vector, queries);
  }
  if (value.front() != '[') return absl::InvalidArgumentError("expected a JSON array of numbers");
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> elements, JsonElements(value));
  if (elements.empty() || elements[0].empty() || elements[0].front() != '[') {
    return AddVector(value, queries);
  }
  for (size_t i = 0; i < elements.size(); ++i) {
    if (const absl::Status status = AddVector(elements[i], queries); !status.ok()) {
      return absl::InvalidArgumentError(Cat("vector ", i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status KeepRow(const QueryFileOptions& options, uint64_t rows_count) {
  if (rows_count == 0) return BadFile(options.path, "rows", "holds no row");
  if (!options.row || *options.row < rows_count) return absl::OkStatus();
  return BadFile(options.path, Cat("row ", *options.row), "there is none; rows are 0 .. ",
                 rows_count - 1);
}

}  // namespace

absl::StatusOr<QuerySet> ParseQueries(const NamedBytes& text) {
  QuerySet queries;
  // A text of several lines may still be one JSON value. Only if it is not, each line must be one.
  if (CheckJson(text.bytes).ok()) {
    const absl::Status status = AddValue(text.bytes, &queries);
    if (!status.ok()) return BadFile(text.name, "JSON", status.message());
    return queries;
  }
  LineReader lines(text.bytes);
  for (std::string_view line; lines.NextJson(&line);) {
    if (const absl::Status status = AddValue(line, &queries); !status.ok()) {
      return BadFile(text.name, lines.place(), status.message());
    }
  }
  if (queries.vectors.empty()) return BadFile(text.name, "line 1", "no query; expected JSON");
  return queries;
}

absl::StatusOr<QuerySet> ReadQueries(const QueryFileOptions& options) {
  NF_ASSIGN_OR_RETURN(const FileFormat format, FormatOf(options.path, options.format));
  if (format == FileFormat::kJsonl) {
    NF_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(options.path));
    NF_ASSIGN_OR_RETURN(QuerySet queries, ParseQueries(file.bytes()));
    NF_RETURN_IF_ERROR(KeepRow(options, queries.vectors.size()));
    if (!options.row) return queries;
    return QuerySet{.dtype = queries.dtype,
                    .vectors = {std::move(queries.vectors[*options.row])},
                    .first_row = *options.row};
  }
  NF_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::Open(options.path, format, options.dtype));
  const VectorLayout& layout = file.layout();
  NF_RETURN_IF_ERROR(KeepRow(options, layout.rows_count));
  QuerySet queries;
  queries.dtype = layout.dtype;
  queries.first_row = options.row.value_or(0);
  const uint64_t end = options.row ? *options.row + 1 : layout.rows_count;
  for (uint64_t row = queries.first_row; row < end; ++row) {
    NF_RETURN_IF_ERROR(file.AppendRows(row, row + 1, &queries.vectors.emplace_back()));
  }
  return queries;
}

}  // namespace nearfield::client

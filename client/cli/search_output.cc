#include "client/cli/search_output.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "client/cli/attribute_columns.h"
#include "client/cli/json_output.h"
#include "client/cli/payload_columns.h"
#include "client/cli/text_output.h"
#include "client/cpp/text.h"
#include "client/formats/attribute_text.h"

namespace nearfield::client {
namespace {

constexpr size_t kVectorWidthMax = 40;

double Seconds(uint64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

// Returns the share of the device's read limit that the search reached.
std::string LimitText(const SearchCost& cost) {
  const std::optional<double> share = cost.read_limit_share();
  if (!share) return "";
  return absl::StrFormat(" (%.3g%% of the read limit)", 100 * *share);
}

AttributeColumn ColumnOf(const Groups& groups) {
  return {.attribute = "group", .values = groups.values, .presence = {}, .list_sizes = {}};
}

std::string GroupsJson(const Groups& groups) {
  const std::vector<std::string> values =
      AttributeJson(ColumnOf(groups), groups.rows_counts.size());
  std::string json = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) json += ',';
    json += JsonObject().AddJson("value", values[i]).Add("rows", groups.rows_counts[i]).ToString();
  }
  return json + "]";
}

// Returns the value of each neighbor's group; nothing if the answer has no groups.
std::vector<std::string> GroupCells(const Neighbors& neighbors) {
  std::vector<std::string> cells;
  if (!neighbors.groups) return cells;
  const std::vector<uint32_t>& rows_counts = neighbors.groups->rows_counts;
  const std::vector<std::string> values =
      AttributeCells(ColumnOf(*neighbors.groups), rows_counts.size());
  for (size_t group = 0; group < values.size(); ++group) {
    cells.insert(cells.end(), rows_counts[group], values[group]);
  }
  return cells;
}

std::string JsonReport(const SearchReport& report, const SearchOutputOptions& options) {
  JsonObject json;
  json.Add("query", report.query_number);
  json.Add("epoch", report.answer->epoch);
  const Neighbors& neighbors = report.answer->neighbors;
  if (report.first_place > 0) json.Add("first_place", report.first_place);
  if (neighbors.matched_rows) json.Add("matched_rows", *neighbors.matched_rows);
  json.AddJson("neighbors", ToJson(neighbors));
  if (neighbors.groups) json.AddJson("groups", GroupsJson(*neighbors.groups));
  if (!neighbors.next_cursor.empty()) {
    json.Add("next_cursor", CursorText(neighbors.next_cursor));
  }
  if (neighbors.cut) json.Add("cut", true);
  if (options.explain) json.AddJson("cost", ToJson(*report.cost).ToString());
  if (report.check != nullptr) json.Append(ToJson(*report.check));
  return Cat(json.ToString(), "\n");
}

std::string NeighborTable(const SearchReport& report, const SearchOutputOptions& options) {
  const Neighbors& neighbors = report.answer->neighbors;
  std::vector<Table::Column> columns = {Table::Right("#"), "id", Table::Right("score")};
  const bool with_parts = !neighbors.parts.empty();
  if (with_parts) {
    columns.push_back(Table::Right("of vectors"));
    columns.push_back(Table::Right("of terms"));
  }
  const std::vector<std::string> groups = GroupCells(neighbors);
  if (neighbors.groups) columns.emplace_back("group");
  if (options.with_payload) {
    for (const std::string& name : PayloadColumnNames(options.fields)) columns.emplace_back(name);
  }
  const size_t count = Count(neighbors.ids);
  const AttributeColumns attributes(neighbors.attributes, count);
  attributes.AddNames(&columns);
  if (options.with_vectors) columns.emplace_back("vector");
  Table table(columns);
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> cells = {std::to_string(report.first_place + i + 1),
                                      ToString(At(neighbors.ids, i)),
                                      ScoreText(neighbors.scores[i])};
    if (with_parts) {
      cells.push_back(ScoreText(neighbors.parts[i].score));
      cells.push_back(TermSumText(neighbors.parts[i].term_sum));
    }
    if (neighbors.groups) cells.push_back(groups[i]);
    if (options.with_payload) {
      const std::string payload = neighbors.payloads.empty() ? "" : neighbors.payloads[i];
      for (std::string& cell : PayloadCells(payload, options.fields)) {
        cells.push_back(std::move(cell));
      }
    }
    attributes.AddCells(i, &cells);
    if (options.with_vectors) {
      cells.push_back(Shortened(VectorJson(neighbors.vectors, i, count), kVectorWidthMax));
    }
    table.Add(cells);
  }
  return table.ToString();
}

}  // namespace

std::string EscalationsText(const ScanEscalations& escalations) {
  if (escalations.tighter == 0 && escalations.canonical == 0) return "none";
  return Cat(Grouped(escalations.tighter), " tighter, ", Grouped(escalations.canonical),
             " canonical");
}

std::string CursorText(std::string_view cursor) {
  return absl::Base64Escape(absl::string_view(cursor.data(), cursor.size()));
}

absl::StatusOr<std::string> ParseCursor(std::string_view text) {
  std::string cursor;
  if (absl::Base64Unescape(absl::string_view(text.data(), text.size()), &cursor) &&
      !cursor.empty()) {
    return cursor;
  }
  return absl::InvalidArgumentError("--cursor: not a cursor that a search has printed");
}

std::string Verdict(const VerifyAnswer& check) {
  const std::string cost = Cat("(", Grouped(check.rows_checked), " rows scored by the oracle in ",
                               HumanSeconds(Seconds(check.oracle_us)), ")");
  if (check.equal) return Cat("verified: ids and score bits are the oracle's ", cost);
  return Cat("MISMATCH at place ", check.first_difference + 1, ": ", Printable(check.explanation),
             " ", cost);
}

std::string Explanation(const SearchCost& cost, uint64_t epoch) {
  return Cat("epoch ", epoch, "; path ", Name(cost.backend), "/", Name(cost.scan_precision), "; ",
             Grouped(cost.candidates), " candidates of ", Grouped(cost.rows_scanned),
             " rows scanned, ", HumanBytes(static_cast<double>(cost.bytes_read)),
             " read; escalations ", EscalationsText(cost.escalations), "\nqueue ",
             HumanSeconds(Seconds(cost.queue_us)), ", device ",
             HumanSeconds(Seconds(cost.device_us)), LimitText(cost), ", total ",
             HumanSeconds(Seconds(cost.total_us)), ", batch of ", cost.batch_size, "\n");
}

std::string FormatReport(const SearchReport& report, const SearchOutputOptions& options) {
  if (options.json) return JsonReport(report, options);
  const Neighbors& neighbors = report.answer->neighbors;
  const std::string passing = neighbors.matched_rows
                                  ? Cat(" of ", Grouped(*neighbors.matched_rows), " rows that pass")
                                  : "";
  std::string text = Cat(Printable(report.label), ": ", Count(neighbors.ids), " neighbors", passing,
                         "\n", NeighborTable(report, options));
  if (options.with_cursor) {
    text += neighbors.cut ? "rows follow beyond page_rows_max: --all gives them\n"
            : neighbors.next_cursor.empty()
                ? "no row follows\n"
                : Cat("next page: --cursor ", CursorText(neighbors.next_cursor), "\n");
  }
  if (options.explain) text += Explanation(*report.cost, report.answer->epoch);
  if (report.check != nullptr) text += Cat(Verdict(*report.check), "\n");
  return text + "\n";
}

}  // namespace nearfield::client

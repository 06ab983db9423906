#include "client/cli/search_output.h"

#include "client/cli/json_output.h"
#include "client/cli/payload_columns.h"
#include "client/cli/text_output.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

constexpr size_t kVectorWidthMax = 40;

double Seconds(uint64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

std::string JsonReport(const SearchReport& report, const SearchOutputOptions& options) {
  JsonObject json;
  json.Add("query", report.query_number);
  json.Add("epoch", report.answer->epoch);
  json.AddJson("neighbors", ToJson(report.answer->neighbors));
  if (options.explain) json.AddJson("cost", ToJson(*report.cost).ToString());
  if (report.check != nullptr) json.Append(ToJson(*report.check));
  return Cat(json.ToString(), "\n");
}

std::string NeighborTable(const Neighbors& neighbors, const SearchOutputOptions& options) {
  std::vector<Table::Column> columns = {{"#", Align::kRight}, {"id"}, {"score", Align::kRight}};
  if (options.with_payload) {
    for (const std::string& name : PayloadColumnNames(options.fields)) columns.push_back({name});
  }
  if (options.with_vectors) columns.push_back({"vector"});
  Table table(columns);
  const size_t count = Count(neighbors.ids);
  const size_t row_bytes = count == 0 ? 0 : neighbors.vectors.bytes.size() / count;
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> cells = {std::to_string(i + 1), ToString(At(neighbors.ids, i)),
                                      ScoreText(neighbors.scores[i])};
    if (options.with_payload) {
      const std::string payload = neighbors.payloads.empty() ? "" : neighbors.payloads[i];
      for (std::string& cell : PayloadCells(payload, options.fields)) {
        cells.push_back(std::move(cell));
      }
    }
    if (options.with_vectors) {
      const std::string_view row(neighbors.vectors.bytes.data() + i * row_bytes, row_bytes);
      cells.push_back(Shortened(JsonNumbers(Widen(neighbors.vectors.dtype, row)), kVectorWidthMax));
    }
    table.Add(cells);
  }
  return table.ToString();
}

}  // namespace

std::string Verdict(const VerifyAnswer& check) {
  const std::string cost = Cat("(", Grouped(check.rows_checked), " rows scored by the oracle in ",
                               HumanSeconds(Seconds(check.oracle_us)), ")");
  if (check.equal) return Cat("verified: ids and score bits are the oracle's ", cost);
  return Cat("MISMATCH at place ", check.first_difference + 1, ": ", Printable(check.explanation),
             " ", cost);
}

std::string Explanation(const SearchCost& cost, uint64_t epoch) {
  return Cat("epoch ", epoch, "; path ", Name(cost.backend), "/", Name(cost.scan_precision), "; ",
             Grouped(cost.candidates), " candidates of ", Grouped(cost.rows_scanned), " rows, ",
             HumanBytes(static_cast<double>(cost.bytes_read)), " read\nqueue ",
             HumanSeconds(Seconds(cost.queue_us)), ", device ",
             HumanSeconds(Seconds(cost.device_us)), ", total ",
             HumanSeconds(Seconds(cost.total_us)), ", batch of ", cost.batch_size, "\n");
}

std::string FormatReport(const SearchReport& report, const SearchOutputOptions& options) {
  if (options.json) return JsonReport(report, options);
  std::string text = Cat(Printable(report.label), ": ", Count(report.answer->neighbors.ids),
                         " neighbors\n", NeighborTable(report.answer->neighbors, options));
  if (options.explain) text += Explanation(*report.cost, report.answer->epoch);
  if (report.check != nullptr) text += Cat(Verdict(*report.check), "\n");
  return text + "\n";
}

}  // namespace nearfield::client

#include "client/cli/audit_record.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/cli/canonical_score.h"
#include "client/cli/json_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/json_fields.h"

namespace nearfield::client {
namespace {

constexpr std::string_view kFormat = "nearfield audit record 1";

absl::StatusOr<std::vector<float>> Vector(const JsonFields& fields, std::string_view name,
                                          DataType dtype, uint32_t dim) {
  NF_ASSIGN_OR_RETURN(const std::string bytes, fields.Hex(name));
  if (bytes.size() != dim * ElementBytes(dtype)) {
    return absl::InvalidArgumentError(
        Cat("member \"", name, "\": ", bytes.size(), " bytes, dim is ", dim));
  }
  return Widen(dtype, bytes);
}

absl::StatusOr<double> DoubleOfBits(const JsonFields& fields, std::string_view name) {
  NF_ASSIGN_OR_RETURN(const std::string digits, fields.Text(name));
  if (const auto bits = ParseNumber<uint64_t>(digits, 16)) return std::bit_cast<double>(*bits);
  return absl::InvalidArgumentError(Cat("member \"", name, "\": not the bits of a double"));
}

absl::Status ParseTermsOf(const JsonFields& fields, AuditRecord* record) {
  if (!fields.Find("terms")) return absl::OkStatus();
  NF_ASSIGN_OR_RETURN(const JsonFields terms, fields.Object("terms"));
  NF_ASSIGN_OR_RETURN(record->terms, terms.Hex("message"));
  NF_ASSIGN_OR_RETURN(record->score_weight, DoubleOfBits(terms, "score_weight_bits"));
  return absl::OkStatus();
}

absl::Status ParseRows(std::string_view text, AuditRecord* record) {
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> elements, JsonElements(text));
  for (const std::string_view element : elements) {
    NF_ASSIGN_OR_RETURN(const JsonFields row, JsonFields::Parse(element));
    NF_ASSIGN_OR_RETURN(Id id, row.OneId("id"));
    NF_ASSIGN_OR_RETURN(std::vector<float> values,
                        Vector(row, "vector", record->spec.dtype, record->spec.dim));
    if (const auto passes = row.Find("passes")) record->passes.emplace(id, *passes == "true");
    if (row.Find("term_sum_bits")) {
      NF_ASSIGN_OR_RETURN(const double sum, DoubleOfBits(row, "term_sum_bits"));
      record->term_sums.emplace(id, sum);
    }
    record->rows.emplace(std::move(id), std::move(values));
  }
  return absl::OkStatus();
}

absl::Status ParseNarrowing(const JsonFields& fields, AuditRecord* record) {
  if (fields.Find("score_min_bits")) {
    NF_ASSIGN_OR_RETURN(const std::string digits, fields.Text("score_min_bits"));
    const auto bits = ParseNumber<uint32_t>(digits, 16);
    if (!bits) {
      return absl::InvalidArgumentError("member \"score_min_bits\": not the bits of a float");
    }
    record->answer.score_threshold = std::bit_cast<float>(*bits);
  }
  record->filtered = fields.Find("filter").has_value();
  if (!record->filtered) return absl::OkStatus();
  NF_ASSIGN_OR_RETURN(const JsonFields filter, fields.Object("filter"));
  if (filter.Find("text")) {
    NF_ASSIGN_OR_RETURN(record->filter_text, filter.Text("text"));
  }
  if (filter.Find("args")) {
    NF_ASSIGN_OR_RETURN(record->filter_args, filter.HexList("args"));
  }
  return absl::OkStatus();
}

absl::Status ParseAnswer(const JsonFields& fields, AuditRecord* record) {
  LoggedReply& answer = record->answer;
  answer.collection = record->spec.name;
  answer.epoch = record->epoch;
  NF_ASSIGN_OR_RETURN(const uint64_t k, fields.Number("k"));
  answer.k = static_cast<uint32_t>(std::min<uint64_t>(k, UINT32_MAX));
  NF_ASSIGN_OR_RETURN(record->skip, fields.Number("skip"));
  NF_RETURN_IF_ERROR(ParseNarrowing(fields, record));
  NF_RETURN_IF_ERROR(ParseTermsOf(fields, record));
  NF_ASSIGN_OR_RETURN(const JsonFields claimed, fields.Object("answer"));
  NF_ASSIGN_OR_RETURN(answer.neighbors, ParseNeighbors(claimed));
  NF_ASSIGN_OR_RETURN(const JsonFields expected, fields.Object("expected"));
  NF_ASSIGN_OR_RETURN(record->expected, ParseNeighbors(expected));
  if (const auto rows = fields.Find("rows")) NF_RETURN_IF_ERROR(ParseRows(*rows, record));
  NF_ASSIGN_OR_RETURN(const JsonFields query, fields.Object("query"));
  if (query.Find("row_id")) {
    NF_ASSIGN_OR_RETURN(Id id, query.OneId("row_id"));
    const auto own = record->rows.find(id);
    if (own != record->rows.end()) record->query_vector = own->second;
    answer.query = std::move(id);
    return absl::OkStatus();
  }
  NF_ASSIGN_OR_RETURN(record->query_vector,
                      Vector(query, "values", DataType::kFloat32, record->spec.dim));
  answer.query = Own(Query(std::span<const float>(*record->query_vector)));
  return absl::OkStatus();
}

absl::Status ParseRow(const JsonFields& fields, AuditRecord* record) {
  NF_ASSIGN_OR_RETURN(record->file, fields.Text("file"));
  NF_ASSIGN_OR_RETURN(record->block, fields.Number("block"));
  NF_ASSIGN_OR_RETURN(record->id, fields.OneId("id"));
  const auto bytes = [](const JsonFields& side) -> absl::StatusOr<std::string> {
    NF_ASSIGN_OR_RETURN(const std::string vector, side.Hex("vector"));
    NF_ASSIGN_OR_RETURN(const std::string payload, side.Hex("payload"));
    return vector + payload;
  };
  NF_ASSIGN_OR_RETURN(const JsonFields stored, fields.Object("stored"));
  NF_ASSIGN_OR_RETURN(record->stored, bytes(stored));
  if (!fields.Find("resident")) return absl::OkStatus();
  NF_ASSIGN_OR_RETURN(const JsonFields resident, fields.Object("resident"));
  NF_ASSIGN_OR_RETURN(record->resident, bytes(resident));
  return absl::OkStatus();
}

// Returns the score of a row of the record by the contract's formula; nullopt if it lacks the row
// or the sum of its terms.
std::optional<float> Recomputed(const AuditRecord& record, const Id& id) {
  const auto row = record.rows.find(id);
  if (row == record.rows.end()) return std::nullopt;
  const float score = CanonicalScore(record.spec.metric, *record.query_vector, row->second);
  if (!record.score_weight) return score;
  const auto sum = record.term_sums.find(id);
  if (sum == record.term_sums.end()) return std::nullopt;
  const double weighted = *record.score_weight * static_cast<double>(score);
  return static_cast<float>(weighted + sum->second) + 0.0f;
}

std::string Shown(const Id& id, float score) {
  return absl::StrFormat("id %s score %s (0x%08x)", ToString(id), ScoreText(score),
                         std::bit_cast<uint32_t>(score));
}

// Counts of neighbors whose rows are known, and of those with another score than the formula's.
struct Recount {
  size_t known = 0;
  size_t wrong = 0;
};

Recount CountWrong(const AuditRecord& record, const Neighbors& neighbors, std::string_view whose,
                   std::vector<std::string>* findings) {
  Recount recount;
  for (size_t i = 0; i < neighbors.scores.size(); ++i) {
    const Id id = At(neighbors.ids, i);
    const std::optional<float> score = Recomputed(record, id);
    if (!score) continue;
    ++recount.known;
    if (std::bit_cast<uint32_t>(*score) == std::bit_cast<uint32_t>(neighbors.scores[i])) continue;
    if (++recount.wrong == 1) {
      findings->push_back(Cat(whose, ", place ", i, ": ", Shown(id, neighbors.scores[i]),
                              "; recomputed: ", Shown(id, *score)));
    }
  }
  findings->push_back(Cat(whose, ": ", recount.known - recount.wrong, " of ", recount.known,
                          " scores equal those recomputed from the record's rows"));
  return recount;
}

// Returns true if, at the first difference, the oracle's row ranks before the answer's row, or the
// answer has no row there.
bool BelongsBefore(const AuditRecord& record) {
  const Neighbors& claimed = record.answer.neighbors;
  const Neighbors& expected = record.expected;
  size_t place = 0;
  while (place < claimed.scores.size() && place < expected.scores.size() &&
         At(claimed.ids, place) == At(expected.ids, place)) {
    ++place;
  }
  if (place >= expected.scores.size()) return false;
  const Id right = At(expected.ids, place);
  const std::optional<float> a = Recomputed(record, right);
  if (!a) return false;
  if (place >= claimed.scores.size()) return claimed.scores.size() < record.answer.k;
  const Id other = At(claimed.ids, place);
  const std::optional<float> b = Recomputed(record, other);
  if (!b) return false;
  return *a != *b ? *a > *b : right < other;
}

// Counts rows that must not be in the answer: below the threshold, or excluded by the filter.
size_t CountUnwanted(const AuditRecord& record, std::vector<std::string>* findings) {
  const Neighbors& claimed = record.answer.neighbors;
  const std::optional<float>& score_threshold = record.answer.score_threshold;
  size_t unwanted = 0;
  for (size_t i = 0; i < claimed.scores.size(); ++i) {
    const Id id = At(claimed.ids, i);
    const auto passes = record.passes.find(id);
    const bool left_out = passes != record.passes.end() && !passes->second;
    const bool below = score_threshold && claimed.scores[i] < *score_threshold;
    if (!left_out && !below) continue;
    if (++unwanted == 1) {
      findings->push_back(Cat("the answer, place ", i, ": ", Shown(id, claimed.scores[i]),
                              left_out ? " does not pass the filter" : " is below the threshold"));
    }
  }
  return unwanted;
}

// Returns true if the record says for each of its rows whether it passes the filter.
bool TellsWhatPasses(const AuditRecord& record) {
  return !record.filtered || record.passes.size() == record.rows.size();
}

Replay ReplayAnswer(const AuditRecord& record) {
  Replay replay;
  if (!record.query_vector || record.rows.empty()) {
    replay.findings.push_back("the record has not the rows: the collection had moved on");
    return replay;
  }
  const Recount claimed =
      CountWrong(record, record.answer.neighbors, "the answer", &replay.findings);
  const Recount expected = CountWrong(record, record.expected, "the oracle", &replay.findings);
  const size_t unwanted = CountUnwanted(record, &replay.findings);
  const bool before = BelongsBefore(record);
  if (before) replay.findings.push_back("the oracle's row belongs before the answer's");
  replay.verdict = expected.wrong > 0                       ? ReplayVerdict::kOracleDiffers
                   : claimed.wrong + unwanted > 0 || before ? ReplayVerdict::kReproduced
                   : claimed.known + expected.known > 0 && TellsWhatPasses(record)
                       ? ReplayVerdict::kNotReproduced
                       : ReplayVerdict::kUnknown;
  return replay;
}

Replay ReplayRow(const AuditRecord& record) {
  Replay replay{.verdict = ReplayVerdict::kReproduced, .findings = {}};
  if (!record.resident) {
    replay.findings.push_back("the row was not in memory");
    return replay;
  }
  const std::string& stored = record.stored;
  const std::string& resident = *record.resident;
  size_t bits = 0;
  for (size_t i = 0; i < std::min(stored.size(), resident.size()); ++i) {
    const auto changed = static_cast<uint8_t>(stored[i] ^ resident[i]);
    if (changed == 0) continue;
    if (bits == 0) {
      replay.findings.push_back(absl::StrFormat("first at byte %d: stored %02x, in memory %02x", i,
                                                static_cast<uint8_t>(stored[i]),
                                                static_cast<uint8_t>(resident[i])));
    }
    bits += static_cast<size_t>(std::popcount(changed));
  }
  replay.findings.push_back(Cat(bits, " bits differ"));
  if (bits == 0 && stored.size() == resident.size()) {
    replay.verdict = ReplayVerdict::kNotReproduced;
  }
  return replay;
}

}  // namespace

absl::StatusOr<AuditRecord> ParseAuditRecord(std::string_view text) {
  NF_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Parse(text));
  NF_ASSIGN_OR_RETURN(const std::string format, fields.Text("format"));
  if (format != kFormat) {
    return absl::InvalidArgumentError(
        Cat("format ", QuoteJson(format), ", this command reads ", QuoteJson(kFormat)));
  }
  AuditRecord record;
  NF_ASSIGN_OR_RETURN(const std::string kind, fields.Text("kind"));
  record.of_answer = kind == "answer";
  if (!record.of_answer && kind != "row") {
    return absl::InvalidArgumentError(
        Cat("kind ", QuoteJson(kind), ", must be \"answer\" or \"row\""));
  }
  NF_ASSIGN_OR_RETURN(record.server_version, fields.Text("server_version"));
  NF_ASSIGN_OR_RETURN(record.backend, fields.Text("backend"));
  NF_ASSIGN_OR_RETURN(record.found_by, fields.Text("found_by"));
  NF_ASSIGN_OR_RETURN(record.epoch, fields.Number("epoch"));
  NF_ASSIGN_OR_RETURN(record.explanation, fields.Text("explanation"));
  NF_ASSIGN_OR_RETURN(const JsonFields spec, fields.Object("collection"));
  NF_ASSIGN_OR_RETURN(record.spec.name, spec.Text("name"));
  NF_ASSIGN_OR_RETURN(const uint64_t dim, spec.Number("dim"));
  record.spec.dim = static_cast<uint32_t>(std::min<uint64_t>(dim, UINT32_MAX));
  NF_ASSIGN_OR_RETURN(record.spec.metric, spec.Named<Metric>("metric", ParseMetric));
  NF_ASSIGN_OR_RETURN(record.spec.dtype, spec.Named<DataType>("dtype", ParseDataType));
  NF_RETURN_IF_ERROR(record.of_answer ? ParseAnswer(fields, &record) : ParseRow(fields, &record));
  return record;
}

Replay ReplayOffline(const AuditRecord& record) {
  return record.of_answer ? ReplayAnswer(record) : ReplayRow(record);
}

}  // namespace nearfield::client

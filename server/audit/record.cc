#include "server/audit/record.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/count_bits.h"
#include "engine/base/status_macros.h"
#include "server/store/checksum.h"

namespace nearfield::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "nearfield audit record 1";

// Names as the command-line client and its JSON spell them.
const char* NameOf(Metric metric) {
  return metric == Metric::kDot ? "dot" : metric == Metric::kCosine ? "cosine" : "l2";
}
const char* NameOf(ScanChoice scan) {
  switch (scan) {
    case ScanChoice::kAuto: return "auto";
    case ScanChoice::kInt8: return "int8";
    case ScanChoice::kInt16: return "int16";
    case ScanChoice::kRows: break;
  }
  return "rows";
}
const char* NameOf(ScanPrecision precision) {
  return precision == ScanPrecision::kInt8 ? "int8" : "rows";
}

std::string DoubleBits(double number) {
  return absl::StrFormat("%016x", std::bit_cast<uint64_t>(number));
}

std::string Hex(const void* bytes, size_t size) {
  return absl::BytesToHexString(absl::string_view(static_cast<const char*>(bytes), size));
}

Json IdJson(const Id& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) return *number;
  return std::get<std::string>(id);
}

std::string IdText(const Id& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) return absl::StrCat(*number);
  return absl::StrCat("\"", absl::CHexEscape(std::get<std::string>(id)), "\"");
}

// Scores as the client prints them, and their bits, which are the exact values.
Json NeighborsJson(const Neighbors& neighbors) {
  Json ids = Json::array();
  Json scores = Json::array();
  Json bits = Json::array();
  for (size_t i = 0; i < neighbors.scores.size(); ++i) {
    const float score = neighbors.scores[i];
    ids.push_back(IdJson(neighbors.ids.at(static_cast<int64_t>(i))));
    scores.push_back(absl::StrFormat("%.9g", score));
    bits.push_back(absl::StrFormat("%08x", std::bit_cast<uint32_t>(score)));
  }
  return {{"ids", std::move(ids)}, {"scores", std::move(scores)}, {"score_bits", std::move(bits)}};
}

Json CollectionJson(const std::string& name, const CollectionSpec& spec) {
  return {{"name", name},
          {"dim", spec.dim},
          {"metric", NameOf(spec.metric)},
          {"dtype", NameOf(spec.row_type)},
          {"id_type", spec.id_type == IdType::kUint64 ? "uint64" : "string"},
          {"scan", NameOf(spec.scan)},
          {"rows", spec.rows == RowPlacement::kDevice ? "device" : "host"}};
}

Json Begin(const RecordContext& context, const char* kind) {
  return {{"format", kFormat},
          {"kind", kind},
          {"server_version", context.server_version},
          {"unix_seconds", context.unix_seconds},
          {"backend", context.engine.backend == BackendKind::kGpu ? "gpu" : "cpu"},
          {"device", context.engine.device_name}};
}

// Writes the filter's bits; if there are too many, their size and SHA-256 digest.
Json FilterJson(const RowFilter& filter) {
  const size_t size = filter.chosen.size() * sizeof(uint64_t);
  Json json = {{"rows_chosen", CountBits(filter.chosen)}};
  if (size <= static_cast<size_t>(kRecordFilterBytesMax)) {
    json["ordinal_bits"] = Hex(filter.chosen.data(), size);
    return json;
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(filter.chosen.data());
  json["ordinal_bytes"] = size;
  json["ordinal_sha256"] =
      store::DigestHex(store::Sha256().Add(absl::MakeConstSpan(bytes, size)).Value());
  return json;
}

Json QueryJson(const Query& query) {
  Json json = Json::object();
  if (query.row_id.has_value()) json["row_id"] = IdJson(*query.row_id);
  if (!query.vector.empty()) {
    json["values"] = Hex(query.vector.data(), query.vector.size() * sizeof(float));
  }
  return json;
}

// Returns the ids of the rows to record, at most `rows_max`: the query's own row, the ids of both
// answers at the first difference and after it, then those before it.
IdColumn IdsToShow(const AnswerMismatch& mismatch, const Query& query, int64_t rows_max) {
  const Neighbors& answer = mismatch.audited.answer;
  const Neighbors& expected = mismatch.verdict.expected;
  const int64_t count = std::max(answer.ids.size(), expected.ids.size());
  const int64_t first = std::max<int64_t>(0, mismatch.verdict.first_difference);
  IdColumn ids(answer.ids.type());
  if (query.row_id.has_value()) ids.Append(*query.row_id);
  const auto add = [&](const IdColumn& from, int64_t place) {
    if (place >= from.size() || ids.size() >= rows_max) return;
    for (int64_t i = 0; i < ids.size(); ++i) {
      if (ids.Compare(i, from, place) == 0) return;
    }
    ids.AppendFrom(from, place);
  };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = (first + i) % count;
    add(answer.ids, place);
    add(expected.ids, place);
  }
  return ids;
}

// Returns the ordinal of the row with this id; nullopt if it is not known.
std::optional<uint32_t> OrdinalOf(const AuditedAnswer& audited, const Id& id) {
  IdColumn ids(audited.collection->spec().id_type);
  ids.Append(id);
  const absl::StatusOr<RowFilter> row = audited.collection->RowsWithIds(audited.at.get(), ids);
  for (size_t word = 0; row.ok() && word < row->chosen.size(); ++word) {
    if (row->chosen[word] == 0) continue;
    return static_cast<uint32_t>(64 * word) +
           static_cast<uint32_t>(std::countr_zero(row->chosen[word]));
  }
  return std::nullopt;
}

// Returns the terms as they were sent, and what a check of a final score needs.
Json TermsJson(const AuditedAnswer& audited, const RowTerms& terms) {
  return {{"message", Hex(audited.terms.data(), audited.terms.size())},
          {"score_weight_bits", DoubleBits(terms.score_weight)}};
}

// Returns null if the collection has changed since, or if the rows cannot be read.
Json RowsJson(const AnswerMismatch& mismatch, const Query& query) {
  constexpr int64_t kRowsMax = 256;
  const Collection& collection = *mismatch.audited.collection;
  const int64_t row_bytes =
      int64_t{collection.spec().dim} * BytesPerElement(collection.spec().row_type);
  const int64_t rows_max = std::clamp<int64_t>(kRecordRowsBytesMax / row_bytes, 3, kRowsMax);
  const IdColumn ids = IdsToShow(mismatch, query, rows_max);
  const absl::StatusOr<FetchResult> found = collection.Fetch(ids, {.vectors = true});
  if (!found.ok() || found->epoch != mismatch.verdict.epoch) return nullptr;
  Json rows = Json::array();
  for (int64_t i = 0; i < found->ids.size(); ++i) {
    Json row = {
        {"id", IdJson(found->ids.at(i))},
        {"vector", Hex(found->rows.data() + i * row_bytes, static_cast<size_t>(row_bytes))}};
    const std::optional<uint32_t> ordinal = OrdinalOf(mismatch.audited, found->ids.at(i));
    if (query.filter != nullptr && ordinal.has_value()) {
      row["passes"] = query.filter->Chooses(*ordinal);
    }
    if (query.terms != nullptr && ordinal.has_value()) {
      row["term_sum_bits"] = DoubleBits(SumOfTerms(*query.terms, *ordinal));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json RowJson(const std::vector<uint8_t>& vector, const std::string& payload) {
  return {{"vector", Hex(vector.data(), vector.size())},
          {"payload", Hex(payload.data(), payload.size())}};
}

std::string Text(const Json& json) {
  return json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string Explain(const AnswerMismatch& mismatch) {
  return absl::StrCat("collection ", mismatch.audited.collection_name, ", epoch ",
                      mismatch.verdict.epoch, ", ", mismatch.verdict.explanation);
}

std::string Explain(const RowMismatch& mismatch) {
  std::string what = "is not in memory";
  if (mismatch.resident.has_value()) {
    const auto& [stored, resident] = std::tie(mismatch.stored, *mismatch.resident);
    const auto differing =
        std::mismatch(stored.begin(), stored.end(), resident.begin(), resident.end());
    what = differing.first == stored.end()
               ? "has another payload in memory"
               : absl::StrFormat("differs in memory, first at byte %d: stored %02x, resident %02x",
                                 differing.first - stored.begin(), *differing.first,
                                 *differing.second);
  }
  return absl::StrCat("collection ", mismatch.collection_name, ", epoch ", mismatch.epoch, ", ",
                      mismatch.file, ": block ", mismatch.block, ", id ", IdText(mismatch.id), ": ",
                      what);
}

std::string EncodeRecord(const RecordContext& context, const AnswerMismatch& mismatch) {
  const AuditedAnswer& audited = mismatch.audited;
  const Query query = audited.query.View();
  Json json = Begin(context, "answer");
  json["found_by"] = mismatch.found_by;
  json["request_id"] = audited.request_id;
  json["scan_precision"] = NameOf(audited.precision);
  json["collection"] = CollectionJson(audited.collection_name, audited.collection->spec());
  json["epoch"] = mismatch.verdict.epoch;
  json["query"] = QueryJson(query);
  json["k"] = query.k;
  json["skip"] = query.skip;
  if (query.score_threshold.has_value()) {
    json["score_min_bits"] =
        absl::StrFormat("%08x", std::bit_cast<uint32_t>(*query.score_threshold));
  }
  if (query.filter != nullptr) {
    json["filter"] = FilterJson(*query.filter);
    const auto& [text, arguments] = audited.filter;
    if (!text.empty()) json["filter"]["text"] = text;
    for (const std::string& argument : arguments) {
      json["filter"]["args"].push_back(Hex(argument.data(), argument.size()));
    }
  }
  if (query.terms != nullptr) json["terms"] = TermsJson(audited, *query.terms);
  json["answer"] = NeighborsJson(audited.answer);
  json["expected"] = NeighborsJson(mismatch.verdict.expected);
  json["first_difference"] = mismatch.verdict.first_difference;
  json["explanation"] = mismatch.verdict.explanation;
  json["rows_checked"] = mismatch.verdict.rows_checked;
  json["rows"] = RowsJson(mismatch, query);
  return Text(json);
}

std::string EncodeRecord(const RecordContext& context, const RowMismatch& mismatch) {
  Json json = Begin(context, "row");
  json["found_by"] = "scrub";
  json["collection"] = CollectionJson(mismatch.collection_name, mismatch.spec);
  json["epoch"] = mismatch.epoch;
  json["file"] = mismatch.file;
  json["block"] = mismatch.block;
  json["id"] = IdJson(mismatch.id);
  json["stored"] = RowJson(mismatch.stored, mismatch.stored_payload);
  json["resident"] = nullptr;
  if (mismatch.resident.has_value()) {
    json["resident"] = RowJson(*mismatch.resident, mismatch.resident_payload);
  }
  json["explanation"] = Explain(mismatch);
  return Text(json);
}

}  // namespace nearfield::server

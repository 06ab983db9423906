#include "client/cli/json_output.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "client/cpp/text.h"
#include "client/formats/attribute_text.h"

namespace nearfield::client {

JsonObject& JsonObject::AddJson(std::string_view key, std::string_view json) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += QuoteJson(key);
  fields_ += ':';
  fields_ += json;
  return *this;
}

JsonObject& JsonObject::AddPayload(std::string_view bytes) {
  const std::string_view trimmed = TrimJson(bytes);
  const bool bracket = !trimmed.empty() && (trimmed.front() == '{' || trimmed.front() == '[');
  if (bracket && CheckJson(trimmed).ok()) return AddJson("payload", CompactJson(trimmed));
  if (IsUtf8(bytes)) return Add("payload", bytes);
  return Add("payload_base64",
             std::string_view(absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()))));
}

JsonObject& JsonObject::Append(const JsonObject& other) {
  if (!fields_.empty() && !other.fields_.empty()) fields_ += ',';
  fields_ += other.fields_;
  return *this;
}

std::string ScoreText(float score) {
  if (std::isinf(score)) return score > 0 ? "inf" : "-inf";
  return absl::StrFormat("%.9g", score);
}

std::string TermSumText(double sum) { return absl::StrFormat("%.17g", sum); }

std::string JsonNumber(float value) {
  if (std::isfinite(value)) return ScoreText(value);
  return std::isnan(value) ? "\"nan\"" : Cat("\"", ScoreText(value), "\"");
}

std::string JsonNumbers(std::span<const float> values) { return JsonArray(values, JsonNumber); }

std::string VectorJson(const EncodedVectors& vectors, size_t row, size_t rows_count) {
  const size_t row_bytes = vectors.bytes.size() / rows_count;
  return JsonNumbers(
      Widen(vectors.dtype, std::string_view(vectors.bytes).substr(row * row_bytes, row_bytes)));
}

std::string ToJson(std::optional<double> value) {
  return value ? absl::StrFormat("%.6g", *value) : "null";
}

std::string ToJson(const Id& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) return std::to_string(*number);
  return QuoteJson(std::get<std::string>(id));
}

std::string ToJson(const IdColumn& ids) {
  return std::visit(
      [](const auto& column) {
        return JsonArray(column, [](const auto& id) { return ToJson(Id(id)); });
      },
      ids);
}

JsonObject ToJson(const AttributeSpec& spec) {
  return JsonObject()
      .Add("name", spec.name)
      .Add("type", Name(spec.type))
      .Add("is_list", spec.is_list)
      .Add("expires", spec.expires);
}

JsonObject ToJson(const CollectionInfo& info) {
  const std::string attributes = JsonArray(
      info.spec.attributes, [](const AttributeSpec& spec) { return ToJson(spec).ToString(); });
  return JsonObject()
      .Add("name", info.spec.name)
      .Add("dim", info.spec.dim)
      .Add("metric", Name(info.spec.metric))
      .Add("dtype", Name(info.spec.dtype))
      .Add("id_type", Name(info.spec.id_type))
      .Add("scan", Name(info.spec.scan))
      .Add("rows", Name(info.spec.rows))
      .Add("devices", info.spec.devices)
      .Add("embedding_model", info.spec.embedding_model)
      .AddJson("attributes", attributes)
      .Add("epoch", info.epoch)
      .Add("incarnation", info.incarnation)
      .Add("rows_count", info.rows_count)
      .Add("rows_deleted", info.rows_deleted)
      .Add("generations_count", info.generations_count)
      .Add("device_bytes", info.device_bytes)
      .Add("host_bytes", info.host_bytes)
      .Add("scan_precision", Name(info.scan_precision))
      .Add("durable", info.durable)
      .Add("error", info.error)
      .Add("read_failures_count", info.read_failures_count)
      .Add("owner", info.owner)
      .AddJson("aliases", JsonArray(info.aliases, QuoteJson));
}

JsonObject ToJson(const SnapshotInfo& info) {
  return JsonObject()
      .Add("name", info.name)
      .Add("files_count", info.files_count)
      .Add("bytes", info.bytes)
      .Add("created_unix_s", info.created_unix_s)
      .Add("error", info.error)
      .Add("owner", info.owner);
}

JsonObject ToJson(const CompactAnswer& answer) {
  return JsonObject()
      .Add("rows_given_back", answer.rows_given_back)
      .Add("device_bytes_given_back", answer.device_bytes_given_back)
      .Add("host_bytes_given_back", answer.host_bytes_given_back)
      .Add("stored_rows_given_back", answer.stored_rows_given_back)
      .Add("stored_bytes_given_back", answer.stored_bytes_given_back);
}

std::vector<LimitRow> Describe(const Limits& limits) {
  return {
      {"dim_max", limits.dim_max, "dimensions of a row"},
      {"k_max", limits.k_max, "neighbors a query may ask for"},
      {"queries_max", limits.queries_max, "queries in one search"},
      {"fetch_ids_max", limits.fetch_ids_max, "ids in one fetch, update or delete"},
      {"request_bytes_max", limits.request_bytes_max, "bytes of a message to the server"},
      {"response_bytes_max", limits.response_bytes_max, "bytes of a message from the server"},
      {"id_bytes_max", limits.id_bytes_max, "bytes of a string id"},
      {"payload_bytes_max", limits.payload_bytes_max, "bytes of one row's payload"},
      {"collection_name_bytes_max", limits.collection_name_bytes_max, "bytes of a name"},
      {"upload_block_bytes_max", limits.upload_block_bytes_max, "bytes of an upload block"},
      {"rows_per_collection_max", limits.rows_per_collection_max, "rows of a collection"},
      {"collections_max", limits.collections_max, "collections"},
      {"queue_requests_max", limits.queue_requests_max, "searches that may wait"},
      {"cursor_ms", limits.cursor_ms, "milliseconds for which a cursor's epoch is kept"},
      {"page_rows_max", limits.page_rows_max, "rows that can be paged through without --all"},
      {"epochs_kept_max", limits.epochs_kept_max, "epochs kept for one caller's cursors"},
      {"epochs_kept_percent", limits.epochs_kept_percent,
       "percent of the row memory that kept epochs alone may hold"},
      {"uploads_max", limits.uploads_max, "uploads at once"},
      {"verify_max", limits.verify_max, "verifications at once"},
      {"aliases_max", limits.aliases_max, "aliases"},
      {"upload_token_bytes_max", limits.upload_token_bytes_max, "bytes of an upload token"},
      {"attributes_max", limits.attributes_max, "attributes of a collection"},
      {"attribute_keyword_bytes_max", limits.attribute_keyword_bytes_max, "bytes of a keyword"},
      {"attribute_list_values_max", limits.attribute_list_values_max, "values of a list attribute"},
      {"attribute_row_bytes_max", limits.attribute_row_bytes_max, "bytes of one row's attributes"},
      {"filter_levels_max", limits.filter_levels_max, "levels of a filter"},
      {"filter_conditions_max", limits.filter_conditions_max, "conditions of a filter"},
      {"filter_values_max", limits.filter_values_max, "values or ids of a condition"},
      {"filter_bytes_max", limits.filter_bytes_max, "bytes of a filter"},
      {"facet_values_max", limits.facet_values_max, "values of an attribute that facets shows"},
      {"upload_tokens_max", limits.upload_tokens_max, "open uploads with a token"},
      {"upload_token_s", limits.upload_token_s, "seconds for which a token is remembered"},
      {"upload_tokens_committed_max", limits.upload_tokens_committed_max,
       "tokens of committed uploads of a collection"},
      {"upload_idle_ms", limits.upload_idle_ms, "milliseconds an upload may be silent"},
      {"caller_share_percent", limits.caller_share_percent,
       "percent of shared limits for one caller"},
      {"search_ms_max", limits.search_ms_max, "milliseconds a search may take"},
      {"reply_unread_ms", limits.reply_unread_ms, "milliseconds in which a reply must be taken"},
      {"requests_bytes_max", limits.requests_bytes_max, "bytes of all requests in flight"},
      {"replies_bytes_max", limits.replies_bytes_max, "bytes of all replies in flight"},
      {"streams_max", limits.streams_max, "calls at once on one connection"},
      {"snapshots_max", limits.snapshots_max, "snapshots"},
  };
}

JsonObject ToJson(const Limits& limits) {
  JsonObject json;
  for (const LimitRow& row : Describe(limits)) json.Add(row.name, row.value);
  return json;
}

JsonObject ToJson(const PrincipalUse& use) {
  JsonObject json;
  json.Add("principal", use.principal);
  for (const QuotaUse& quota : use.quotas) {
    json.Add(Cat(quota.name, "_used"), quota.used).Add(Cat(quota.name, "_max"), quota.max);
  }
  return json;
}

JsonObject ToJson(const DeviceUse& use) {
  return JsonObject()
      .Add("name", use.name)
      .Add("bytes_total", use.bytes_total)
      .Add("bytes_used", use.bytes_used);
}

JsonObject ToJson(const Capacity& capacity) {
  return JsonObject()
      .Add("backend", Name(capacity.backend))
      .Add("device_name", capacity.device_name)
      .Add("device_bytes_total", capacity.device_bytes_total)
      .Add("device_bytes_used", capacity.device_bytes_used)
      .Add("host_bytes_total", capacity.host_bytes_total)
      .Add("host_bytes_used", capacity.host_bytes_used)
      .Add("host_rows_bytes_total", capacity.host_rows_bytes_total)
      .Add("host_rows_bytes_used", capacity.host_rows_bytes_used)
      .Add("attribute_bytes_total", capacity.attribute_bytes_total)
      .Add("attribute_bytes_used", capacity.attribute_bytes_used)
      .AddJson("principals", JsonArray(capacity.principals,
                                       [](const auto& use) { return ToJson(use).ToString(); }))
      .AddJson("devices",
               JsonArray(capacity.devices, [](const auto& use) { return ToJson(use).ToString(); }))
      .Add("server_version", capacity.server_version);
}

JsonObject ToJson(const ScanEscalations& escalations) {
  return JsonObject().Add("tighter", escalations.tighter).Add("canonical", escalations.canonical);
}

JsonObject ToJson(const Counters& counters) {
  const std::string calls = JsonArray(counters.calls, [](const Counters::Calls& each) {
    return JsonObject()
        .Add("method", each.method)
        .Add("status", each.status)
        .Add("calls_count", each.calls_count)
        .Add("rows_count", each.rows_count)
        .Add("total_us", each.total_us)
        .ToString();
  });
  const Counters::Passes& passes = counters.passes;
  const Counters::Audit& audit = counters.audit;
  const Counters::Connections& connections = counters.connections;
  return JsonObject()
      .Add("started_unix_ms", counters.started_unix_ms)
      .AddJson("calls", calls)
      .AddJson("passes", JsonObject()
                             .Add("passes_count", passes.passes_count)
                             .Add("queries_rows_count", passes.queries_rows_count)
                             .Add("queries_int8_count", passes.queries_int8_count)
                             .Add("device_us", passes.device_us)
                             .Add("candidates", passes.candidates)
                             .Add("bytes_read", passes.bytes_read)
                             .AddJson("escalations", ToJson(passes.escalations).ToString())
                             .ToString())
      .AddJson("audit", JsonObject()
                            .Add("answers_audited_count", audit.answers_audited_count)
                            .Add("answers_dropped_count", audit.answers_dropped_count)
                            .Add("answers_failed_count", audit.answers_failed_count)
                            .Add("mismatches_count", audit.mismatches_count)
                            .Add("rows_checked_count", audit.rows_checked_count)
                            .ToString())
      .AddJson("connections", JsonObject()
                                  .Add("open_count", connections.open_count)
                                  .Add("accepted_count", connections.accepted_count)
                                  .Add("refused_count", connections.refused_count)
                                  .Add("pauses_count", connections.pauses_count)
                                  .ToString())
      .Add("log_lines_dropped_count", counters.log_lines_dropped_count);
}

JsonObject ToJson(const SearchCost& cost) {
  return JsonObject()
      .Add("queue_us", cost.queue_us)
      .Add("device_us", cost.device_us)
      .Add("total_us", cost.total_us)
      .Add("batch_size", cost.batch_size)
      .Add("backend", Name(cost.backend))
      .Add("scan_precision", Name(cost.scan_precision))
      .Add("candidates", cost.candidates)
      .Add("rows_scanned", cost.rows_scanned)
      .Add("bytes_read", cost.bytes_read)
      .AddJson("escalations", ToJson(cost.escalations).ToString())
      .Add("read_ns_min", cost.read_ns_min)
      .Add("read_limit_share", cost.read_limit_share());
}

JsonObject ToJson(const VerifyAnswer& answer) {
  JsonObject json;
  json.Add("verified", answer.equal)
      .Add("rows_checked", answer.rows_checked)
      .Add("oracle_us", answer.oracle_us);
  if (answer.equal) return json;
  return json.Add("first_difference", answer.first_difference)
      .Add("explanation", answer.explanation)
      .AddJson("expected", ToJson(answer.expected));
}

namespace {

std::string PartsJson(const ScoreParts& parts) {
  return JsonObject()
      .AddJson("score", JsonNumber(parts.score))
      .AddJson("term_sum", TermSumText(parts.term_sum))
      .ToString();
}

}  // namespace

std::string ToJson(const Neighbors& neighbors) {
  const size_t count = Count(neighbors.ids);
  const std::vector<std::string> attributes = ToJson(neighbors.attributes, count);
  std::string json = "[";
  for (size_t i = 0; i < count; ++i) {
    JsonObject neighbor;
    neighbor.Add("id", At(neighbors.ids, i)).AddJson("score", JsonNumber(neighbors.scores[i]));
    if (!neighbors.parts.empty()) neighbor.AddJson("parts", PartsJson(neighbors.parts[i]));
    if (!neighbors.payloads.empty()) neighbor.AddPayload(neighbors.payloads[i]);
    if (!neighbors.vectors.bytes.empty()) {
      neighbor.AddJson("vector", VectorJson(neighbors.vectors, i, count));
    }
    if (!neighbors.attributes.empty()) neighbor.AddJson("attributes", attributes[i]);
    if (i > 0) json += ',';
    json += neighbor.ToString();
  }
  return json + "]";
}

std::vector<std::string> ToJson(std::span<const AttributeColumn> columns, size_t rows_count) {
  std::vector<JsonObject> rows(rows_count);
  for (const AttributeColumn& column : columns) {
    const std::vector<std::string> json = AttributeJson(column, rows_count);
    for (size_t row = 0; row < rows_count; ++row) rows[row].AddJson(column.attribute, json[row]);
  }
  std::vector<std::string> texts;
  texts.reserve(rows_count);
  for (const JsonObject& row : rows) texts.push_back(row.ToString());
  return texts;
}

}  // namespace nearfield::client

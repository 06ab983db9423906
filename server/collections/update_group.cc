#include "server/collections/update_group.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/attributes/evaluate.h"
#include "server/attributes/row_encoding.h"

namespace nearfield::server {
namespace {

// Returns the places of `ids`, in order, of which `found` has the ids in the same order; appends
// the other ids to `missing`.
std::vector<RowPlace> PlacesOf(const IdColumn& ids, const IdColumn& found, IdColumn* missing) {
  std::vector<RowPlace> places;
  for (int64_t entry = 0; entry < ids.size(); ++entry) {
    const auto row = static_cast<int64_t>(places.size());
    if (row < found.size() && ids.Compare(entry, found, row) == 0) {
      places.push_back({.row = row, .entry = entry});
    } else {
      missing->AppendFrom(ids, entry);
    }
  }
  CHECK_EQ(static_cast<int64_t>(places.size()), found.size());
  return places;
}

// Returns the numbers of the rows that pass the filter: evaluated as in a search, over these rows
// alone.
absl::StatusOr<OrdinalSet> PassingRows(const Filter& filter,
                                       const std::shared_ptr<const AttributeSchema>& schema,
                                       const AttributeBlock& rows, const IdColumn& ids) {
  AttributeChunkBuilder builder(schema);
  ABSL_RETURN_IF_ERROR(builder.Append(rows));
  AttributeSnapshot snapshot = {.schema = schema, .chunks = {}, .version = 0};
  ABSL_ASSIGN_OR_RETURN(snapshot.chunks, builder.Build(0));
  EvaluateOptions options;
  options.resolve_ids = [&ids](const IdColumn& wanted) -> absl::StatusOr<OrdinalSet> {
    OrdinalSet found;
    for (int64_t row = 0; row < ids.size(); ++row) {
      for (int64_t i = 0; i < wanted.size(); ++i) {
        if (ids.Compare(row, wanted, i) != 0) continue;
        const auto ordinal = static_cast<uint64_t>(row);
        found.UniteWith(OrdinalSet::FromRange({.begin = ordinal, .end = ordinal + 1}));
        break;
      }
    }
    return found;
  };
  return Evaluate(filter, snapshot, options);
}

// Checks that no attribute of the update was dropped since the update was checked.
absl::Status CheckDeclared(const RowUpdate& update, const AttributeSchema& schema) {
  std::vector<int32_t> named;
  for (const AttributeChange& change : update.attributes) named.push_back(change.attribute);
  for (const std::optional<Filter>* filter : {&update.choose, &update.if_filter}) {
    if (!filter->has_value()) continue;
    const auto conditions = static_cast<int32_t>((*filter)->tree().conditions.size());
    for (int32_t i = 0; i < conditions; ++i) named.push_back((*filter)->attribute(i));
  }
  for (const int32_t attribute : named) {
    if (attribute < 0 || !schema.at(attribute).dropped) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "attributes: ", QuoteText(schema.at(attribute).name), " was dropped meanwhile"));
  }
  return absl::OkStatus();
}

// Checks the size of each row's attributes after the update. Names the entry of the request.
absl::Status CheckRowBytes(const RowUpdate& update, const BytesColumn& encoded,
                           const IdColumn& found, absl::Span<const RowPlace> places) {
  const int64_t bytes_max = AttributeLimits().row_bytes_max;
  for (int64_t row = 0; row < encoded.size(); ++row) {
    const auto bytes = static_cast<int64_t>(encoded.at(row).size());
    if (bytes <= bytes_max) continue;
    const RowPlace& place = places[static_cast<size_t>(row)];
    const std::string entry = update.choose.has_value() ? "" : absl::StrCat(" ", place.entry);
    return ArgumentError(
        "attributes",
        absl::StrCat("row", entry, " (id ", QuoteId(found, place.row), ") would have ", bytes,
                     " bytes of attributes, must be at most ", bytes_max),
        absl::StrCat(bytes, " bytes"), absl::StrCat(bytes_max));
  }
  return absl::OkStatus();
}

// Returns the bytes of the values that every chosen row gets.
int64_t AssignedBytes(const RowUpdate& update) {
  int64_t bytes = 0;
  for (const AttributeChange& change : update.attributes) bytes += change.column.values.bytes();
  for (const std::string* payload : update.payloads) {
    if (payload != nullptr) bytes += static_cast<int64_t>(payload->size());
  }
  return bytes;
}

// Bounds the memory of an update, which holds the values of its rows a few times.
absl::Status CheckSize(const RowUpdate& update, const RowReader& rows,
                       const AttributeSchema& schema) {
  if (rows.rows_count() > kUpdateRowsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("filter_text: ", rows.rows_count(), " rows pass, an update changes at most ",
                     kUpdateRowsMax, ": ask for fewer rows at once"));
  }
  int64_t bytes = 0;
  for (int64_t row = 0; row < rows.rows_count(); ++row) {
    bytes += rows.BytesOf(row, schema.declared()).held;
  }
  if (update.choose.has_value()) bytes += rows.rows_count() * AssignedBytes(update);
  if (bytes <= kUpdateBytesMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(update.choose.has_value() ? "filter_text" : "ids", ": the values of the ",
                   rows.rows_count(), " rows take ", bytes, " bytes, the limit is ",
                   kUpdateBytesMax, ": ask for fewer rows at once"));
}

}  // namespace

absl::Status UpdateGroup::SettleEarly() {
  for (const UpdateQueue::Place& place : updates_) {
    if (place->done) continue;
    if (const absl::Status dead = place->update.dead(); !dead.ok()) {
      place->result = dead;
      place->done = true;
    } else if (named_.store != nullptr && !place->update.token.empty()) {
      ABSL_ASSIGN_OR_RETURN(std::optional<std::string> known,
                            named_.store->FindUpdate(
                                {.collection_id = named_.store_id, .token = place->update.token}));
      if (!known.has_value()) continue;
      UpdateReply reply;
      reply.first_reply = *std::move(known);
      place->result = std::move(reply);
      place->done = true;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<UpdateGroup::Changes> UpdateGroup::Find(
    UpdateQueue::Waiting* waiting, const std::shared_ptr<const PinnedEpoch>& before,
    uint64_t epoch) {
  const RowUpdate& update = waiting->update;
  if (update.if_epoch.value_or(epoch) != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("if_epoch: ", *update.if_epoch, ", the collection is at epoch ", epoch));
  }
  const IdType type = named_.collection->spec().id_type;
  Changes changes;
  changes.waiting = waiting;
  changes.reply.epoch = epoch;
  changes.reply.missing = IdColumn(type);
  changes.reply.refused = IdColumn(type);
  changes.ids = IdColumn(type);
  const RowParts parts = {.ordinals = true};
  FetchResult found;
  std::vector<RowPlace> places;
  if (update.choose.has_value()) {
    ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen,
                          named_.attributes->Choose(*named_.collection, *update.choose, before,
                                                    [&update] { return !update.dead().ok(); }));
    ABSL_ASSIGN_OR_RETURN(found, named_.collection->FetchChosen(before.get(), *chosen.rows, parts));
    for (int64_t row = 0; row < found.ids.size(); ++row) places.push_back({.row = row});
  } else {
    ABSL_ASSIGN_OR_RETURN(found, named_.collection->Fetch(before.get(), update.ids, parts));
    places = PlacesOf(update.ids, found.ids, &changes.reply.missing);
  }
  const auto schema = named_.attributes->SchemaAt();
  ABSL_RETURN_IF_ERROR(CheckDeclared(update, *schema));
  ABSL_ASSIGN_OR_RETURN(const RowReader reader,
                        named_.attributes->FindRows(*before, found.ordinals, /*wanted=*/{}));
  ABSL_RETURN_IF_ERROR(CheckSize(update, reader, *schema));
  const AttributeBlock rows = ReadRows(reader, *schema);
  if (update.if_filter.has_value() && !places.empty()) {
    ABSL_ASSIGN_OR_RETURN(const OrdinalSet passing,
                          PassingRows(*update.if_filter, schema, rows, found.ids));
    std::erase_if(places, [&](const RowPlace& place) {
      if (passing.Contains(static_cast<uint32_t>(place.row))) return false;
      changes.reply.refused.AppendFrom(found.ids, place.row);
      return true;
    });
  }
  changes.reply.rows_updated = static_cast<int64_t>(places.size());
  if (places.empty()) return changes;
  changes.attributes = ApplyChanges(*schema, rows, places, update.attributes);
  if (!update.attributes.empty()) {
    ABSL_ASSIGN_OR_RETURN(
        changes.encoded,
        EncodeRowAttributes(*schema, changes.attributes,
                            {.row_bytes_max = std::numeric_limits<int64_t>::max()}));
    ABSL_RETURN_IF_ERROR(CheckRowBytes(update, changes.encoded, found.ids, places));
  }
  for (const RowPlace& place : places) {
    changes.ids.AppendFrom(found.ids, place.row);
    if (update.payloads.empty()) continue;
    changes.payloads.push_back(update.payloads[static_cast<size_t>(place.entry)]);
  }
  return changes;
}

absl::StatusOr<RowChanges> UpdateGroup::Choose(const std::shared_ptr<const PinnedEpoch>& before) {
  const IdType type = named_.collection->spec().id_type;
  RowChanges all = {.ids = IdColumn(type), .payloads = {}, .epochs = 0};
  bool any_payload = false;
  attributes_.emplace(named_.attributes.get());
  for (const UpdateQueue::Place& place : updates_) {
    if (place->done) continue;
    const uint64_t epoch = before->epoch() + static_cast<uint64_t>(all.epochs);
    absl::StatusOr<Changes> changes = Find(place.get(), before, epoch);
    if (!changes.ok()) {
      refused_.emplace_back(place.get(), changes.status());
    } else if (changes->ids.empty()) {
      unchanging_.push_back(*std::move(changes));
    } else {
      changes->reply.epoch += 1;
      all.epochs += 1;
      any_payload = any_payload || !changes->payloads.empty();
      ABSL_RETURN_IF_ERROR(attributes_->Append(changes->attributes));
      changes_.push_back(*std::move(changes));
    }
  }
  for (const Changes& changes : changes_) {
    for (int64_t row = 0; row < changes.ids.size(); ++row) {
      all.ids.AppendFrom(changes.ids, row);
      if (!any_payload) continue;
      all.payloads.push_back(changes.payloads.empty() ? nullptr
                                                      : changes.payloads[static_cast<size_t>(row)]);
    }
  }
  ABSL_RETURN_IF_ERROR(ReserveQuotas());
  return all;
}

// Until the commit, the new values count in addition to the old ones.
absl::Status UpdateGroup::ReserveQuotas() {
  if (named_.owner.empty() || named_.quotas == nullptr || changes_.empty()) return absl::OkStatus();
  QuotaAmounts amounts;
  amounts[Quota::kAttributeBytes] = attributes_->bytes();
  for (const Changes& changes : changes_) {
    for (const std::string* payload : changes.payloads) {
      if (payload == nullptr) continue;
      amounts[Quota::kHostBytes] += static_cast<int64_t>(payload->size());
    }
    if (named_.store == nullptr) continue;
    amounts[Quota::kDiskBytes] += changes.encoded.value_bytes() + changes.ids.bytes();
  }
  if (named_.store != nullptr) amounts[Quota::kDiskBytes] += amounts[Quota::kHostBytes];
  const char* const payloads = "payloads.payloads";
  const bool mostly_payloads = 2 * amounts[Quota::kHostBytes] > amounts[Quota::kDiskBytes];
  const QuotaFields fields = {.host = payloads,
                              .attributes = "attributes",
                              .disk = mostly_payloads ? payloads : "attributes"};
  ABSL_ASSIGN_OR_RETURN(quota_, named_.quotas->Reserve(named_.owner, amounts, fields));
  return absl::OkStatus();
}

absl::Status UpdateGroup::Record(const PendingChange& change) {
  ABSL_RETURN_IF_ERROR(attributes_->Add(change.first_ordinal));
  if (named_.store == nullptr) return absl::OkStatus();
  std::vector<store::StoredUpdate> stored;
  for (const Changes& changes : changes_) {
    const RowUpdate& update = changes.waiting->update;
    stored.push_back({.epoch = changes.reply.epoch,
                      .ids = &changes.ids,
                      .attributes = update.attributes.empty() ? nullptr : &changes.encoded,
                      .payloads = changes.payloads,
                      .token = update.token,
                      .reply = update.token.empty() ? "" : update.encode_reply(changes.reply)});
  }
  return named_.store->CommitUpdates(named_.store_id, stored);
}

absl::Status UpdateGroup::Run() {
  ABSL_RETURN_IF_ERROR(SettleEarly());
  named_.attributes->ReleaseOrdinals(*named_.collection);
  ABSL_ASSIGN_OR_RETURN(
      const UpdateResult result,
      named_.collection->Update([this](const auto& before) { return Choose(before); },
                                [this](const PendingChange& change) { return Record(change); }));
  CHECK(changes_.empty() || changes_.back().reply.epoch == result.epoch);
  quota_.Release();  // the values count with the collection now
  attributes_->Finalize(true);
  for (auto& [waiting, status] : refused_) {
    waiting->result = std::move(status);
    waiting->done = true;
  }
  for (std::vector<Changes>* all : {&changes_, &unchanging_}) {
    for (Changes& changes : *all) {
      changes.waiting->result = std::move(changes.reply);
      changes.waiting->done = true;
    }
  }
  if (!changes_.empty()) named_.changed();
  return absl::OkStatus();
}

}  // namespace nearfield::server

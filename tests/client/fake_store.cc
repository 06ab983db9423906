#include "tests/client/fake_store.h"

#include <algorithm>

#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

double Score(const std::vector<float>& query, const FakeCollection& collection,
             const FakeRow& row) {
  const std::vector<float> values =
      Widen(static_cast<DataType>(collection.info.dtype()), row.vector);
  double sum = 0;
  for (size_t d = 0; d < query.size(); ++d)
    sum += static_cast<double>(query[d]) * static_cast<double>(values[d]);
  return sum;
}

absl::StatusOr<std::vector<float>> QueryVector(const v1::Query& query,
                                               const FakeCollection& collection,
                                               std::optional<Id>* own_id) {
  std::vector<float> values;
  if (query.has_vector()) {
    values.assign(query.vector().values().begin(), query.vector().values().end());
  } else if (query.has_encoded()) {
    values = Widen(static_cast<DataType>(query.encoded().dtype()), query.encoded().data());
  } else {
    *own_id = query.row_id().has_number() ? Id(query.row_id().number()) : Id(query.row_id().text());
    for (const FakeRow& row : collection.rows) {
      if (row.id == **own_id)
        values = Widen(static_cast<DataType>(collection.info.dtype()), row.vector);
    }
    if (values.empty())
      return absl::NotFoundError(Cat("queries[0].row_id: no row ", ToString(**own_id)));
  }
  if (values.size() != collection.info.dim()) {
    return absl::InvalidArgumentError(Cat("queries[0]: dimension ", values.size(),
                                          ", the collection has ", collection.info.dim()));
  }
  return values;
}

// Scores all rows and orders them by score.
absl::Status SearchOne(const v1::Query& query, const FakeCollection& collection,
                       std::vector<std::pair<float, const FakeRow*>>* best) {
  std::optional<Id> own_id;
  NF_ASSIGN_OR_RETURN(const std::vector<float> values, QueryVector(query, collection, &own_id));
  for (const FakeRow& row : collection.rows) {
    if (own_id && row.id == *own_id) continue;
    best->emplace_back(static_cast<float>(Score(values, collection, row)), &row);
  }
  std::sort(best->begin(), best->end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->id < b.second->id;
  });
  return absl::OkStatus();
}

}  // namespace

std::vector<Id> IdsOf(const v1::IdList& list) {
  std::vector<Id> ids(list.numbers().begin(), list.numbers().end());
  ids.insert(ids.end(), list.texts().begin(), list.texts().end());
  return ids;
}

void AddId(const Id& id, v1::IdList* list) {
  if (TypeOf(id) == IdType::kUint64) {
    list->add_numbers(std::get<uint64_t>(id));
  } else {
    list->add_texts(std::get<std::string>(id));
  }
}

std::vector<FakeRow> RowsOf(const v1::UploadBlock& block) {
  std::vector<FakeRow> rows;
  const std::vector<Id> ids = IdsOf(block.ids());
  const size_t row_bytes = ids.empty() ? 0 : block.vectors().data().size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    rows.push_back(
        {.id = ids[i],
         .vector = block.vectors().data().substr(i * row_bytes, row_bytes),
         .payload = block.payloads_size() == 0 ? "" : block.payloads(static_cast<int>(i))});
  }
  return rows;
}

absl::Status FakeStore::Create(const v1::CreateCollectionRequest& request,
                               v1::CollectionInfo* info) {
  if (collections_.count(request.name()) > 0)
    return absl::AlreadyExistsError(Cat("name: ", request.name(), " is taken"));
  info->set_name(request.name());
  info->set_dim(request.dim());
  info->set_metric(request.metric());
  info->set_dtype(request.dtype());
  info->set_id_type(request.id_type());
  info->set_scan(request.scan());
  info->set_scan_precision(v1::SCAN_PRECISION_INT8);
  info->set_durable(true);
  info->set_rows(request.rows());
  *info->mutable_attributes() = request.attributes();
  info->set_epoch(1);
  collections_[request.name()].info = *info;
  return absl::OkStatus();
}

absl::Status FakeStore::Drop(const std::string& name, uint64_t* rows_count) {
  NF_ASSIGN_OR_RETURN(const FakeCollection* collection, Find(name));
  *rows_count = collection->rows.size();
  collections_.erase(name);
  return absl::OkStatus();
}

absl::StatusOr<FakeCollection*> FakeStore::Find(const std::string& name) {
  const auto alias = aliases_.find(name);
  const auto found = collections_.find(alias == aliases_.end() ? name : alias->second);
  if (found == collections_.end()) return absl::NotFoundError(Cat("collection: no \"", name, "\""));
  found->second.info.set_rows_count(found->second.rows.size());
  return &found->second;
}

absl::Status FakeStore::SetAlias(const v1::SetAliasRequest& request,
                                 v1::SetAliasResponse* response) {
  NF_ASSIGN_OR_RETURN(FakeCollection * collection, Find(request.collection()));
  std::string& target = aliases_[request.alias()];
  response->set_collection_before(target);
  if (!target.empty()) collections_[target].info.clear_aliases();
  target = collection->info.name();
  collection->info.add_aliases(request.alias());
  *response->mutable_collection() = collection->info;
  return absl::OkStatus();
}

absl::Status FakeStore::DropAlias(const v1::DropAliasRequest& request,
                                  v1::DropAliasResponse* response) {
  const auto found = aliases_.find(request.alias());
  if (found == aliases_.end()) {
    return absl::NotFoundError(Cat("no alias \"", request.alias(), "\""));
  }
  response->set_collection(found->second);
  collections_[found->second].info.clear_aliases();
  aliases_.erase(found);
  return absl::OkStatus();
}

absl::Status FakeStore::Search(const v1::SearchRequest& request, v1::SearchResponse* response) {
  NF_ASSIGN_OR_RETURN(const FakeCollection* collection, Find(request.collection()));
  response->set_epoch(collection->info.epoch());
  response->mutable_cost()->set_backend(v1::BACKEND_CPU);
  response->mutable_cost()->set_scan_precision(v1::SCAN_PRECISION_ROWS);
  response->mutable_cost()->set_batch_size(static_cast<uint32_t>(request.queries_size()));
  response->mutable_cost()->set_rows_scanned(collection->rows.size());
  for (const v1::Query& query : request.queries()) {
    std::vector<std::pair<float, const FakeRow*>> best;
    NF_RETURN_IF_ERROR(SearchOne(query, *collection, &best));
    v1::QueryResult* result = response->add_results();
    // A cursor is the position in decimal.
    const size_t begin = request.has_cursor() ? std::stoul(request.cursor()) : 0;
    const size_t end = std::min<size_t>(best.size(), begin + request.k());
    if ((request.with_cursor() || request.has_cursor()) && end < best.size()) {
      result->set_next_cursor(std::to_string(end));
    }
    if (request.has_filter()) result->set_matched_rows(collection->rows.size());
    for (size_t i = begin; i < end; ++i) {
      const auto& [score, row] = best[i];
      AddId(row->id, result->mutable_ids());
      result->add_scores(score);
      if (request.with_payload()) result->add_payloads(row->payload);
      if (!request.with_vectors()) continue;
      result->mutable_vectors()->set_dtype(collection->info.dtype());
      result->mutable_vectors()->mutable_data()->append(row->vector);
    }
  }
  return absl::OkStatus();
}

absl::Status FakeStore::Fetch(const v1::FetchRequest& request, v1::FetchResponse* response) {
  NF_ASSIGN_OR_RETURN(const FakeCollection* collection, Find(request.collection()));
  response->set_epoch(collection->info.epoch());
  for (const Id& id : IdsOf(request.ids())) {
    const auto row = std::find_if(collection->rows.begin(), collection->rows.end(),
                                  [&](const FakeRow& candidate) { return candidate.id == id; });
    if (row == collection->rows.end()) {
      AddId(id, response->mutable_missing());
      continue;
    }
    AddId(id, response->mutable_ids());
    if (request.with_payload()) response->add_payloads(row->payload);
    if (!request.with_vectors()) continue;
    response->mutable_vectors()->set_dtype(collection->info.dtype());
    response->mutable_vectors()->mutable_data()->append(row->vector);
  }
  return absl::OkStatus();
}

absl::Status FakeStore::Delete(const v1::DeleteRequest& request, v1::DeleteResponse* response) {
  NF_ASSIGN_OR_RETURN(FakeCollection * collection, Find(request.collection()));
  const size_t before = collection->rows.size();
  for (const Id& id : IdsOf(request.ids())) {
    std::erase_if(collection->rows, [&](const FakeRow& row) { return row.id == id; });
  }
  const size_t deleted = before - collection->rows.size();
  if (deleted > 0) collection->info.set_epoch(collection->info.epoch() + 1);
  response->set_rows_deleted(deleted);
  response->set_epoch(collection->info.epoch());
  return absl::OkStatus();
}

absl::Status FakeStore::Verify(const v1::VerifyRequest& request, v1::VerifyResponse* response) {
  NF_ASSIGN_OR_RETURN(const FakeCollection* collection, Find(request.collection()));
  const uint64_t epoch = collection->info.epoch();
  if (request.has_epoch() && request.epoch() != epoch) {
    return absl::FailedPreconditionError(
        Cat("epoch: the claim is of ", request.epoch(), ", the collection is at ", epoch));
  }
  v1::SearchRequest search;
  search.set_collection(request.collection());
  *search.add_queries() = request.query();
  search.set_k(request.k());
  v1::SearchResponse found;
  NF_RETURN_IF_ERROR(Search(search, &found));
  *response->mutable_expected() = found.results(0);
  const bool equal = request.claim().SerializeAsString() == found.results(0).SerializeAsString();
  response->set_equal(equal);
  response->set_epoch(epoch);
  response->set_rows_checked(collection->rows.size());
  response->set_first_difference(equal ? -1 : 0);
  if (!equal) response->set_explanation("the claim differs");
  return absl::OkStatus();
}

}  // namespace nearfield::client

// RowModel: the expected content of a collection, as a map from id to row. It defines the correct
// effect of every change, and, with the oracle, the correct answer to every query.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/engine.h"
#include "nearfield/engine/id_column.h"
#include "tests/testing/corpora.h"

namespace nearfield::testing {

// A copy of the model is the state of one epoch. `Attributes`: the attributes of a row, in the form
// that the test uses.
template <typename Attributes = std::monostate>
struct RowModel {
  struct Row {
    std::string vector;  // its elements, as stored
    std::string payload;
    Attributes attributes;

    bool operator==(const Row&) const = default;
  };
  // The rows of one upload, in upload order.
  using Upload = std::vector<std::pair<Id, Row>>;

  CollectionSpec spec;
  uint64_t epoch = 0;
  std::map<Id, Row> rows;

  // Returns false if a commit of the upload is refused: an id is twice in it (insert, replace), or
  // already here (insert).
  bool Accepts(UploadMode mode, const Upload& upload) const {
    std::set<Id> seen;
    for (const auto& [id, row] : upload) {
      if (mode != UploadMode::kUpsert && !seen.insert(id).second) return false;
      if (mode == UploadMode::kInsert && rows.count(id) > 0) return false;
    }
    return true;
  }

  // The last row with an id wins. A commit that changes nothing makes no epoch.
  void Commit(UploadMode mode, const Upload& upload) {
    const bool empties = mode == UploadMode::kReplace && !rows.empty();
    if (mode == UploadMode::kReplace) rows.clear();
    for (const auto& [id, row] : upload) rows[id] = row;
    if (empties || !upload.empty()) ++epoch;
  }

  // Ignores unknown ids. Returns the number of deleted rows; without any, it makes no epoch.
  int64_t Delete(absl::Span<const Id> ids) {
    size_t deleted = 0;
    for (const Id& id : ids) deleted += rows.erase(id);
    if (deleted > 0) ++epoch;
    return static_cast<int64_t>(deleted);
  }
  int64_t Delete(const IdColumn& ids) {
    std::vector<Id> each;
    for (int64_t i = 0; i < ids.size(); ++i) each.push_back(ids.at(i));
    return Delete(each);
  }

  std::vector<Id> Ids() const {
    std::vector<Id> ids;
    for (const auto& [id, row] : rows) ids.push_back(id);
    return ids;
  }

  // Requires: there is a row with each of these ids.
  Corpus RowsWith(absl::Span<const Id> ids) const {
    Corpus corpus = {.spec = spec, .rows = {}, .ids = IdColumn(spec.id_type)};
    for (const Id& id : ids) {
      const std::string& vector = rows.at(id).vector;
      corpus.rows.insert(corpus.rows.end(), vector.begin(), vector.end());
      corpus.ids.Append(id);
    }
    return corpus;
  }
  Corpus AllRows() const { return RowsWith(Ids()); }

  // Returns the oracle's answer over the rows with these ids. The query's filter does not apply.
  Neighbors Answer(absl::Span<const Id> ids, const Query& query) const {
    std::vector<Id> others;
    for (const Id& id : ids) {
      if (id != query.row_id) others.push_back(id);  // excluded from its own answer
    }
    std::vector<float> vector(query.vector.begin(), query.vector.end());
    if (query.row_id.has_value()) vector = Decode(spec, RowsWith({&*query.row_id, 1}).rows);
    const Neighbors all = OracleAnswer(RowsWith(others), vector, query.skip + query.k);
    Neighbors answer = {.ids = IdColumn(spec.id_type)};
    for (int64_t place = query.skip; place < all.ids.size(); ++place) {
      const float score = all.scores[static_cast<size_t>(place)];
      if (query.score_threshold.has_value() && score < *query.score_threshold) break;
      answer.ids.AppendFrom(all.ids, place);
      answer.scores.push_back(score);
    }
    return answer;
  }
};

// Returns the values of a fp32 row in the form of RowModel::Row::vector.
inline std::string StoredVector(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Returns the rows of a corpus as an upload, without payloads and attributes.
inline RowModel<>::Upload UploadOf(const Corpus& corpus) {
  RowModel<>::Upload upload;
  for (int64_t row = 0; row < corpus.rows_count(); ++row) {
    const absl::Span<const uint8_t> bytes = corpus.row(row);
    upload.emplace_back(corpus.ids.at(row),
                        RowModel<>::Row{.vector = std::string(bytes.begin(), bytes.end())});
  }
  return upload;
}

}  // namespace nearfield::testing

#include "tests/fault/crash_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::fault {
namespace {

bool Same(const CollectionSpec& a, const CollectionSpec& b) {
  return a.dim == b.dim && a.metric == b.metric && a.row_type == b.row_type &&
         a.id_type == b.id_type && a.scan == b.scan && a.rows == b.rows;
}

bool Same(const ModelUpload& a, const ModelUpload& b) {
  return a.collection == b.collection && a.state == b.state && a.next_block == b.next_block &&
         a.epoch == b.epoch;
}

bool Same(const Model& a, const Model& b) {
  return std::equal(a.collections.begin(), a.collections.end(), b.collections.begin(),
                    b.collections.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && Same(x.second.spec, y.second.spec) &&
                             x.second.epoch == y.second.epoch &&
                             x.second.aliases == y.second.aliases && x.second.rows == y.second.rows;
                    }) &&
         std::equal(a.uploads.begin(), a.uploads.end(), b.uploads.begin(), b.uploads.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && Same(x.second, y.second);
                    });
}

// Compares the rows of one collection with the acknowledged ones. Counts an id that operations in
// flight may change as `half` if its row is neither as before nor as after.
void CompareRows(const std::string& name, const ModelRows& found, const ModelRows& before,
                 const ModelRows& after, Findings* findings) {
  for (const auto& [id, row] : before) {
    const auto it = found.find(id);
    const auto then = after.find(id);
    const bool touched = then == after.end() || !(then->second == row);
    if (it == found.end()) {
      findings->Add(touched ? &findings->half : &findings->lost, 1,
                    absl::StrCat(name, ": a row is not there"));
    } else if (!(it->second == row) &&
               !(touched && then != after.end() && it->second == then->second)) {
      findings->Add(&findings->wrong, 1, absl::StrCat(name, ": a row has other bytes"));
    }
  }
  for (const auto& [id, row] : found) {
    if (before.count(id) > 0) continue;
    const auto then = after.find(id);
    const bool of_operation = then != after.end() && then->second == row;
    findings->Add(of_operation ? &findings->half : &findings->wrong, 1,
                  absl::StrCat(name, ": a row too many"));
  }
}

Findings Explain(const Model& found, const Model& before, const Model& after) {
  Findings findings;
  for (const auto& [name, collection] : before.collections) {
    const auto it = found.collections.find(name);
    const auto then = after.collections.find(name);
    if (it == found.collections.end()) {
      findings.Add(&findings.lost, 1, absl::StrCat(name, ": the collection is not there"));
      continue;
    }
    CompareRows(name, it->second.rows, collection.rows,
                then != after.collections.end() ? then->second.rows : ModelRows{}, &findings);
    if (it->second.epoch < collection.epoch) {
      findings.Add(
          &findings.lost, 1,
          absl::StrCat(name, ": epoch ", it->second.epoch, " instead of ", collection.epoch));
    }
    if (it->second.aliases != collection.aliases) {
      findings.Add(&findings.wrong, 1, absl::StrCat(name, ": other aliases"));
    }
  }
  for (const auto& [token, upload] : before.uploads) {
    const auto it = found.uploads.find(token);
    if (it == found.uploads.end()) {
      findings.Add(&findings.lost, 1, absl::StrCat(token, ": not there"));
    } else if (!Same(it->second, upload)) {
      findings.Add(it->second.next_block < upload.next_block ? &findings.lost : &findings.half, 1,
                   absl::StrCat(token, ": block ", it->second.next_block, " is next instead of ",
                                upload.next_block, ", or another state"));
    }
  }
  if (findings.none())
    findings.Add(&findings.half, 1, "neither as before the operation nor as after");
  return findings;
}

// Returns true if `found` is `before` plus some operations of `left`, in an order that the model
// allows. Appends these to `*happened` in that order.
bool Explains(const Model& found, const Model& before, const std::vector<Operation>& left,
              std::vector<Operation>* happened) {
  if (Same(found, before)) return true;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!before.Allows(left[i])) continue;
    Model after = before;
    after.Apply(left[i]);
    std::vector<Operation> others = left;
    others.erase(others.begin() + static_cast<int64_t>(i));
    happened->push_back(left[i]);
    if (Explains(found, after, others, happened)) return true;
    happened->pop_back();
  }
  return false;
}

absl::Status ReadRows(const store::Store& store, const store::StoredCollection& stored,
                      ModelRows* rows) {
  const auto row_bytes =
      static_cast<size_t>(stored.spec.dim * BytesPerElement(stored.spec.row_type));
  return store.Load(
      stored.id,
      [&](const store::StoredBlock& block) {
        for (int64_t i = 0; i < block.ids->size(); ++i) {
          const auto* const begin =
              reinterpret_cast<const char*>(block.rows.data()) + static_cast<size_t>(i) * row_bytes;
          const bool is_new =
              rows->try_emplace(block.ids->at(i),
                                ModelRow{.vector = std::string(begin, row_bytes),
                                         .payload = std::string(block.payloads->at(i)),
                                         .attributes = std::string(block.attributes->at(i))})
                  .second;
          if (!is_new) return absl::DataLossError("an id came twice");
        }
        return absl::OkStatus();
      },
      {.threads = 1});
}

}  // namespace

absl::StatusOr<Model> Read(const store::Store& store, const Model& expected) {
  Model found;
  std::map<std::string, int64_t> ids;
  for (const store::StoredCollection& stored : store.Collections()) {
    ModelCollection& collection = found.collections[stored.name];
    ids[stored.name] = stored.id;
    collection.spec = stored.spec;
    collection.epoch = stored.epoch;
    collection.aliases.insert(stored.aliases.begin(), stored.aliases.end());
    ABSL_RETURN_IF_ERROR(ReadRows(store, stored, &collection.rows));
    if (static_cast<int64_t>(collection.rows.size()) != stored.rows_count) {
      return absl::DataLossError("the count of rows is not that of the rows");
    }
  }
  for (const auto& [token, upload] : expected.uploads) {
    const absl::StatusOr<store::UploadInfo> facts =
        store.GetUpload({.collection_id = ids[upload.collection], .token = token});
    if (absl::IsNotFound(facts.status())) continue;
    ABSL_RETURN_IF_ERROR(facts.status());
    found.uploads[token] = {.collection = upload.collection,
                            .number = upload.number,
                            .state = facts->state,
                            .next_block = facts->next_block,
                            .epoch = facts->epoch};
  }
  return found;
}

Findings Compare(const Model& found, const Model& acknowledged,
                 const std::vector<Operation>& in_flight, std::vector<Operation>* happened) {
  happened->clear();
  if (Explains(found, acknowledged, in_flight, happened)) return {};
  Model after = acknowledged;
  for (const Operation& operation : in_flight) after.Apply(operation);
  return Explain(found, acknowledged, after);
}

}  // namespace nearfield::fault

#include "server/store/upload_index.h"

#include "engine/base/check.h"

namespace nearfield::store {

const int64_t* UploadIndex::Find(const TokenView& token) const {
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? nullptr : &found->second;
}

const UploadIndex::Committed& UploadIndex::CommittedInto(int64_t collection) const {
  static const Committed kNone;
  const auto found = committed_.find(collection);
  return found == committed_.end() ? kNone : found->second;
}

void UploadIndex::Change::Put(const UploadRow& row, int64_t commit_number) {
  added_.by_token_.emplace(Token{.collection = row.collection, .token = row.token}, row.id);
  if (row.state == UploadState::kOpen) {
    added_.open_.insert(row.id);
  } else {
    added_.committed_[row.collection].emplace(commit_number, row.id);
  }
}

void UploadIndex::Change::Remove(const UploadRow& row, int64_t commit_number) {
  removed_.push_back({.row = &row, .commit_number = commit_number});
}

void UploadIndex::Apply(Change change) noexcept {
  for (const auto& [row, commit_number] : change.removed_) {
    const auto named =
        by_token_.find(TokenView{.collection = row->collection, .token = row->token});
    CHECK(named != by_token_.end() && named->second == row->id);
    by_token_.erase(named);
    if (row->state == UploadState::kOpen) {
      open_.erase(row->id);
      continue;
    }
    const auto into = committed_.find(row->collection);
    CHECK(into != committed_.end());
    into->second.erase({commit_number, row->id});
    if (into->second.empty()) committed_.erase(into);
  }
  by_token_.merge(change.added_.by_token_);
  CHECK(change.added_.by_token_.empty());  // no two uploads into a collection have the same token
  open_.merge(change.added_.open_);
  for (auto& [collection, added] : change.added_.committed_) {
    const auto into = committed_.find(collection);
    if (into != committed_.end()) into->second.merge(added);
  }
  committed_.merge(change.added_.committed_);  // the collections that had none
}

}  // namespace nearfield::store

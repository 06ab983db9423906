// UploadIndex: the uploads with a token of a catalog, by token, by state and by age.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "server/store/catalog_rows.h"

namespace nearfield::store {

// A change is prepared before the commit of a transaction, because it allocates, and applied after
// it. Not thread-safe.
class UploadIndex {
 public:
  // A token is of one collection: two collections may have uploads with equal tokens.
  struct Token {
    int64_t collection = 0;
    std::string token;
  };
  struct TokenView {
    int64_t collection = 0;
    std::string_view token;
  };
  // Committed uploads in the order of their commits: commit number (0: of format 1) and id.
  using Committed = std::set<std::pair<int64_t, int64_t>>;

  // Returns the id of the upload; null if there is none.
  const int64_t* Find(const TokenView& token) const;
  // Returns the ids of the open uploads.
  const std::set<int64_t>& open() const { return open_; }
  // Returns the committed uploads into a collection, oldest first.
  const Committed& CommittedInto(int64_t collection) const;

  // The changes of a transaction.
  class Change;
  // Removes first, then adds. Requires: the rows of Change::Remove still exist.
  void Apply(Change change) noexcept;

 private:
  struct Less {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return std::make_tuple(a.collection, std::string_view(a.token)) <
             std::make_tuple(b.collection, std::string_view(b.token));
    }
  };

  std::map<Token, int64_t, Less> by_token_;
  std::set<int64_t> open_;
  std::map<int64_t, Committed> committed_;  // by collection
};

class UploadIndex::Change {
 public:
  void Put(const UploadRow& row, int64_t commit_number);
  void Remove(const UploadRow& row, int64_t commit_number);

 private:
  friend class UploadIndex;
  struct Removed {
    const UploadRow* row = nullptr;
    int64_t commit_number = 0;
  };
  UploadIndex added_;
  std::vector<Removed> removed_;
};

}  // namespace nearfield::store

// UpdateTokens: the remembered updates with a token of a catalog, by token and by age.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/catalog_rows.h"

namespace nearfield::store {

// A change is prepared before the commit of a transaction, because it allocates, and applied after
// it. Not thread-safe.
class UpdateTokens {
 public:
  // Each is keyed by the collection and, within it, by the token or the number.
  using ByToken = std::map<std::pair<int64_t, std::string>, int64_t>;  // to the row's id
  using ByNumber = std::map<std::pair<int64_t, int64_t>, int64_t>;

  // Returns the id of the row of a token; null if there is none.
  const int64_t* Find(int64_t collection, std::string_view token) const {
    const auto found = by_token_.find({collection, std::string(token)});
    return found == by_token_.end() ? nullptr : &found->second;
  }
  // Returns all rows; those of a collection are consecutive, oldest first.
  const ByNumber& by_number() const { return by_number_; }

  class Change {
   public:
    void Put(const UpdateTokenRow& row) {
      by_token_[{row.collection, row.token}] = row.id;
      by_number_[{row.collection, row.number}] = row.id;
    }
    void Remove(const UpdateTokenRow& row) {
      removed_.emplace_back(std::make_pair(row.collection, row.token), row.number);
    }

   private:
    friend class UpdateTokens;
    ByToken by_token_;
    ByNumber by_number_;
    std::vector<std::pair<ByToken::key_type, int64_t>> removed_;
  };
  // Removes first, then adds.
  void Apply(Change change) noexcept {
    for (const auto& [token, number] : change.removed_) {
      by_token_.erase(token);
      by_number_.erase({token.first, number});
    }
    by_token_.merge(change.by_token_);
    by_number_.merge(change.by_number_);
  }

 private:
  ByToken by_token_;
  ByNumber by_number_;
};

}  // namespace nearfield::store

// DeletedIds: the deleted ids and their epochs, which decide whether a stored row is live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nearfield/engine/id_column.h"
#include "server/store/block_codec.h"

namespace nearfield::store {

// Hashes text ids, also those that are looked up without a copy.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return absl::Hash<std::string_view>()(text); }
};

// A row of a segment with seq s is dead if a record with a larger seq holds its id. Only the
// largest seq of an id is held, because it decides. Memory: a hash table over the ids. Thread
// safety: look-ups are thread-safe, changes are not.
class DeletedIds {
 public:
  explicit DeletedIds(IdType type) : type_(type) {}

  // Adds a record. `bytes`: `count` ids as EncodeIds writes them. Errors: DataLoss.
  absl::Status Add(std::string_view bytes, int64_t count, int64_t seq);

  // Adds one id.
  void Mark(const IdColumn& ids, int64_t index, int64_t seq);

  bool empty() const { return numbers_.empty() && strings_.empty(); }
  int64_t size() const { return static_cast<int64_t>(numbers_.size() + strings_.size()); }
  // Returns the largest seq of a record that holds this id; 0: none.
  int64_t SeqOf(const IdColumn& ids, int64_t index) const;
  bool Dead(const IdColumn& ids, int64_t index, int64_t segment_seq) const {
    return SeqOf(ids, index) > segment_seq;
  }

 private:
  const IdType type_;
  // Not absl::flat_hash_map: if memory runs out while it grows, it frees memory that it never got.
  std::unordered_map<uint64_t, int64_t, absl::Hash<uint64_t>> numbers_;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> strings_;
};

// Removes from `block` the rows that are dead: deleted, or replaced by a later row of their own
// segment (`superseded`: places in the segment, ascending). Returns the number of removed rows.
// Moves rows inside the block's bytes.
int64_t DropDeadRows(const DeletedIds& deleted, int64_t segment_seq,
                     absl::Span<const int64_t> superseded, DecodedBlock* block);

}  // namespace nearfield::store

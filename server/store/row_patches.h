// RowPatches: new attributes and payloads of stored rows, with the epochs that made them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/id_column.h"
#include "server/store/block_codec.h"
#include "server/store/deleted_ids.h"

namespace nearfield::store {

// The new values of one row. The number of an epoch (seq) belongs to each; 0: the value stays.
struct RowPatch {
  int64_t attributes_seq = 0;
  int64_t payload_seq = 0;
  std::string attributes;  // all attributes of the row, as in a block
  std::string payload;

  // A value of a record replaces that of the row in segments with a smaller seq.
  bool ChangesAttributes(int64_t segment_seq) const { return attributes_seq > segment_seq; }
  bool ChangesPayload(int64_t segment_seq) const { return payload_seq > segment_seq; }
  bool Changes(int64_t segment_seq) const {
    return ChangesAttributes(segment_seq) || ChangesPayload(segment_seq);
  }
};

// Collects patches, and encodes them as the body of a record.
class PatchRecord {
 public:
  explicit PatchRecord(IdType type) : ids_(type) {}
  void Append(const IdColumn& ids, int64_t index, const RowPatch& patch);
  IdType type() const { return ids_.type(); }
  int64_t rows_count() const { return ids_.size(); }
  int64_t bytes() const;  // of Encode(), at most
  std::string Encode() const;
  // Errors: DataLoss (the bytes are no such body).
  static absl::StatusOr<PatchRecord> Decode(IdType type, std::string_view bytes, int64_t rows);

 private:
  friend class RowPatches;
  RowPatch at(int64_t row) const;

  IdColumn ids_;
  std::vector<std::pair<int64_t, int64_t>> seqs_;  // of the attributes and the payload
  BytesColumn attributes_;
  BytesColumn payloads_;
};

// The newest patch of each id: for attributes and payload apart, because a row may be deleted and
// uploaded again between two patches. Memory: a hash table over the ids, and the values. Thread
// safety: look-ups are thread-safe, changes are not.
class RowPatches {
 public:
  explicit RowPatches(IdType type) : type_(type) {}

  void Add(const PatchRecord& record);
  bool empty() const { return numbers_.empty() && strings_.empty(); }
  int64_t size() const { return static_cast<int64_t>(numbers_.size() + strings_.size()); }
  IdColumn Ids() const;  // of all patches, in no order
  // Returns the patch of this id; null if it has none.
  const RowPatch* Find(const IdColumn& ids, int64_t index) const;
  // Returns whether the row of a segment with this seq has a value that a patch replaces.
  bool Changes(const IdColumn& ids, int64_t index, int64_t segment_seq) const {
    const RowPatch* const patch = Find(ids, index);
    return patch != nullptr && patch->Changes(segment_seq);
  }
  // Replaces the values of the block's rows that have a patch.
  void Apply(int64_t segment_seq, DecodedBlock* block) const;

 private:
  const IdType type_;
  // std::unordered_map for the reason in DeletedIds.
  std::unordered_map<uint64_t, RowPatch, absl::Hash<uint64_t>> numbers_;
  std::unordered_map<std::string, RowPatch, TextHash, std::equal_to<>> strings_;
};

}  // namespace nearfield::store

#include "server/store/deleted_ids.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"

namespace nearfield::store {

absl::Status DeletedIds::Add(std::string_view bytes, int64_t count, int64_t seq) {
  IdColumn ids(type_);
  ABSL_RETURN_IF_ERROR(
      DecodeIds({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, count, &ids));
  for (int64_t i = 0; i < ids.size(); ++i) Mark(ids, i, seq);
  return absl::OkStatus();
}

void DeletedIds::Mark(const IdColumn& ids, int64_t index, int64_t seq) {
  int64_t& newest = type_ == IdType::kUint64 ? numbers_[ids.number(index)]
                                             : strings_[std::string(ids.string(index))];
  newest = std::max(newest, seq);
}

int64_t DeletedIds::SeqOf(const IdColumn& ids, int64_t index) const {
  if (type_ == IdType::kUint64) {
    const auto it = numbers_.find(ids.number(index));
    return it == numbers_.end() ? 0 : it->second;
  }
  const auto it = strings_.find(ids.string(index));
  return it == strings_.end() ? 0 : it->second;
}

int64_t DropDeadRows(const DeletedIds& deleted, int64_t segment_seq,
                     absl::Span<const int64_t> superseded, DecodedBlock* block) {
  const int64_t rows = block->header.rows;
  const int64_t first_row = block->header.first_row;
  const auto* replaced = std::lower_bound(superseded.begin(), superseded.end(), first_row);
  if (deleted.empty() && (replaced == superseded.end() || *replaced >= first_row + rows)) return 0;
  std::vector<int64_t> live;
  for (int64_t i = 0; i < rows; ++i) {
    const bool is_replaced = replaced != superseded.end() && *replaced == first_row + i;
    if (is_replaced) ++replaced;
    if (!is_replaced && !deleted.Dead(block->ids, i, segment_seq)) live.push_back(i);
  }
  const auto live_count = static_cast<int64_t>(live.size());
  if (live_count == rows) return 0;
  const size_t row_bytes = block->rows.size() / static_cast<size_t>(rows);
  IdColumn ids(block->ids.type());
  BytesColumn payloads;
  BytesColumn attributes;
  for (size_t to = 0; to < live.size(); ++to) {
    ids.AppendFrom(block->ids, live[to]);
    payloads.Append(block->payloads.at(live[to]));
    attributes.Append(block->attributes.at(live[to]));
    std::memmove(block->rows.data() + to * row_bytes,
                 block->rows.data() + static_cast<size_t>(live[to]) * row_bytes, row_bytes);
  }
  block->ids = std::move(ids);
  block->payloads = std::move(payloads);
  block->attributes = std::move(attributes);
  block->rows = block->rows.subspan(0, live.size() * row_bytes);
  return rows - live_count;
}

}  // namespace nearfield::store

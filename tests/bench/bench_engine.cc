#include "tests/bench/bench_engine.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/score/row_types.h"
#include "engine/score/score.h"

namespace nearfield::bench {

RowSource::RowSource(absl::Span<const float> base, int32_t dim, RowType row_type)
    : dim_(dim), row_type_(row_type), base_rows_(static_cast<int64_t>(base.size()) / dim) {
  if (row_type == RowType::kFloat32) {
    base_.resize(base.size() * sizeof(float));
    std::memcpy(base_.data(), base.data(), base_.size());
    return;
  }
  base_.resize(base.size() * sizeof(uint16_t));
  for (size_t i = 0; i < base.size(); ++i) {
    const uint16_t bits = row_type == RowType::kFloat16 ? score::HalfBitsFromFloat(base[i])
                                                        : score::Bfloat16BitsFromFloat(base[i]);
    std::memcpy(base_.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
}

absl::Span<const uint8_t> RowSource::Rows(int64_t begin, int64_t count,
                                          std::vector<uint8_t>* scratch) const {
  if (begin + count <= base_rows_) {
    return absl::MakeConstSpan(base_).subspan(static_cast<size_t>(begin * row_bytes()),
                                              static_cast<size_t>(count * row_bytes()));
  }
  scratch->resize(static_cast<size_t>(count * row_bytes()));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = begin + i;
    const uint8_t* const from = base_.data() + row % base_rows_ * row_bytes();
    const int64_t turned = row / base_rows_ % dim_ * BytesPerElement(row_type_);
    uint8_t* const to = scratch->data() + i * row_bytes();
    std::memcpy(to, from + turned, static_cast<size_t>(row_bytes() - turned));
    std::memcpy(to + row_bytes() - turned, from, static_cast<size_t>(turned));
  }
  return *scratch;
}

namespace {

// Commits rows [begin, end) of the source.
absl::Status AddRows(Collection& collection, const RowSource& source, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 16'384;
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload,
                        collection.BeginUpload({.rows_max = end - begin}));
  std::vector<uint8_t> scratch;
  for (; begin < end; begin += kBlock) {
    const int64_t count = std::min(kBlock, end - begin);
    IdColumn ids;
    for (int64_t i = 0; i < count; ++i) ids.AppendNumber(static_cast<uint64_t>(begin + i));
    ABSL_RETURN_IF_ERROR(
        upload->Append({.ids = &ids, .rows = source.Rows(begin, count, &scratch)}));
  }
  return upload->Commit().status();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Collection>> FillCollection(Engine& engine,
                                                           const CollectionSpec& spec,
                                                           const RowSource& source,
                                                           int64_t rows_count,
                                                           const Layout& layout) {
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection, engine.CreateCollection(spec));
  const int64_t parts = int64_t{layout.generations} * (layout.generations + 1) / 2;
  int64_t parts_done = 0;
  for (int32_t i = 1; i <= layout.generations; ++i) {
    const int64_t begin = rows_count * parts_done / parts;
    parts_done += i;
    ABSL_RETURN_IF_ERROR(AddRows(*collection, source, begin, rows_count * parts_done / parts));
  }
  if (layout.deleted_every == 0) return collection;
  IdColumn deleted;
  for (int64_t id = 0; id < rows_count; id += layout.deleted_every) {
    deleted.AppendNumber(static_cast<uint64_t>(id));
  }
  ABSL_RETURN_IF_ERROR(collection->Delete(deleted).status());
  return collection;
}

bool SameBits(const Neighbors& a, const Neighbors& b) {
  if (a.scores.size() != b.scores.size()) return false;
  for (size_t i = 0; i < a.scores.size(); ++i) {
    if (score::BitsFromFloat(a.scores[i]) != score::BitsFromFloat(b.scores[i])) return false;
    if (a.ids.Compare(static_cast<int64_t>(i), b.ids, static_cast<int64_t>(i)) != 0) return false;
  }
  return true;
}

}  // namespace nearfield::bench

#include "server/attributes/chunk.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"

namespace nearfield::server {
namespace {

constexpr int64_t kOrdinalsCount = int64_t{1} << 32;

absl::Status TooManyRows(int64_t first, int64_t rows) {
  return absl::ResourceExhaustedError(absl::StrCat(rows, " rows with ordinals from ", first,
                                                   " on exceed the largest ordinal, ",
                                                   kOrdinalsCount - 1));
}

}  // namespace

void AttributeChunk::SetRows(OrdinalSet rows) {
  CHECK(!rows.empty());
  rows.Compact();
  rows_ = std::move(rows);
  rows_count_ = rows_.size();
  first_ = rows_.first();
  last_ = rows_.last();
  CHECK_LE(rows_count_, kRowsMax);
  CHECK_LT(int64_t{last_} - first_, kSpanMax);
}

std::shared_ptr<const AttributeChunk> AttributeChunk::Merge(
    const AttributeSchema& schema, absl::Span<const std::shared_ptr<const AttributeChunk>> parts,
    const OrdinalSet& dead) {
  std::vector<const OrdinalSet*> sets;
  for (const auto& part : parts) sets.push_back(&part->rows_);
  OrdinalSet rows = OrdinalSet::Union(sets);
  const OrdinalSet dead_here = OrdinalSet::Intersection(rows, dead);
  rows.Subtract(dead_here);
  if (rows.empty()) return nullptr;
  auto chunk = std::make_shared<AttributeChunk>();
  chunk->SetRows(std::move(rows));
  for (int32_t attribute = 0; attribute < schema.size(); ++attribute) {
    std::vector<const AttributeIndex*> indexes;
    bool any = false;
    for (const auto& part : parts) {
      indexes.push_back(&part->index(attribute));
      any = any || !indexes.back()->present().empty();
    }
    chunk->indexes_.push_back(any ? std::make_shared<const AttributeIndex>(AttributeIndex::Merge(
                                        schema.at(attribute), indexes, dead_here))
                                  : nullptr);
  }
  return chunk;
}

const AttributeIndex& AttributeChunk::index(int32_t attribute) const {
  static const AttributeIndex* const none = new AttributeIndex();
  const auto place = static_cast<size_t>(attribute);
  return place < indexes_.size() && indexes_[place] != nullptr ? *indexes_[place] : *none;
}

std::shared_ptr<const AttributeChunk> AttributeChunk::Without(
    const std::vector<int32_t>& attributes) const {
  std::shared_ptr<AttributeChunk> rest;
  for (const int32_t attribute : attributes) {
    const auto place = static_cast<size_t>(attribute);
    if (place >= indexes_.size() || indexes_[place] == nullptr) continue;
    if (rest == nullptr) rest = std::make_shared<AttributeChunk>(*this);
    rest->indexes_[place] = nullptr;
  }
  return rest;
}

int64_t AttributeChunk::bytes() const {
  int64_t bytes = static_cast<int64_t>(sizeof *this) + rows_.bytes();
  for (const auto& index : indexes_) {
    bytes += static_cast<int64_t>(sizeof index) + (index == nullptr ? 0 : index->bytes());
  }
  return bytes;
}

absl::Status AttributeChunkBuilder::Append(const AttributeBlock& block) {
  if (block.rows_count > kOrdinalsCount - rows_count_) {
    return TooManyRows(0, rows_count_ + block.rows_count);
  }
  return CatchOutOfMemory([&] {
    BlockCursor cursor(&block);
    for (int64_t row = 0; row < block.rows_count; ++row) AppendRow(block, row, &cursor);
    return absl::OkStatus();
  });
}

void AttributeChunkBuilder::AppendRow(const AttributeBlock& block, int64_t row,
                                      BlockCursor* cursor) {
  if (parts_.empty() || parts_.back().rows_count == AttributeChunk::kRowsMax) {
    parts_.emplace_back();
    for (const AttributeColumn& column : block.columns) {
      parts_.back().entries.push_back({.values = ValueColumn(column.values.type())});
    }
  }
  Part& part = parts_.back();
  const auto ordinal = static_cast<uint32_t>(rows_count_);
  for (int32_t attribute = 0; attribute < schema_->size(); ++attribute) {
    const BlockCursor::Values values = cursor->Take(row, attribute);
    if (!values.present) continue;
    AttributeEntries& entries = part.entries[static_cast<size_t>(attribute)];
    entries.present.push_back(ordinal);
    for (int64_t value = values.begin; value < values.end; ++value) {
      entries.values.AppendFrom(block.columns[static_cast<size_t>(attribute)].values, value);
      entries.ordinals.push_back(ordinal);
    }
  }
  ++part.rows_count;
  ++rows_count_;
}

int64_t AttributeChunkBuilder::bytes() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) {
    for (const AttributeEntries& entries : part.entries) {
      bytes += static_cast<int64_t>(sizeof entries) + entries.values.bytes() +
               static_cast<int64_t>(4 * (entries.ordinals.capacity() + entries.present.capacity()));
    }
  }
  return bytes;
}

int64_t AttributeChunkBuilder::built_bytes_max() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) {
    // The set of the rows is a range.
    bytes += static_cast<int64_t>(sizeof(AttributeChunk)) +
             OrdinalSet::BytesMax(1, part.rows_count) * (part.rows_count / (1 << 16) + 2);
    for (int32_t attribute = 0; attribute < schema_->size(); ++attribute) {
      bytes += AttributeIndex::BuiltBytesMax(schema_->at(attribute),
                                             part.entries[static_cast<size_t>(attribute)]);
    }
  }
  return bytes;
}

absl::StatusOr<AttributeChunks> AttributeChunkBuilder::Build(uint32_t first_ordinal) {
  if (rows_count_ > kOrdinalsCount - int64_t{first_ordinal}) {
    return TooManyRows(first_ordinal, rows_count_);
  }
  return CatchOutOfMemory(
      [&]() -> absl::StatusOr<AttributeChunks> { return BuildParts(first_ordinal); });
}

AttributeChunks AttributeChunkBuilder::BuildParts(uint32_t first_ordinal) {
  AttributeChunks chunks;
  uint64_t begin = first_ordinal;
  for (Part& part : parts_) {
    auto chunk = std::make_shared<AttributeChunk>();
    const uint64_t end = begin + static_cast<uint64_t>(part.rows_count);
    CHECK_LE(end, static_cast<uint64_t>(kOrdinalsCount));
    chunk->SetRows(OrdinalSet::FromRange({.begin = begin, .end = end}));
    for (int32_t attribute = 0; attribute < schema_->size(); ++attribute) {
      AttributeEntries& entries = part.entries[static_cast<size_t>(attribute)];
      for (uint32_t& ordinal : entries.ordinals) ordinal += first_ordinal;
      for (uint32_t& ordinal : entries.present) ordinal += first_ordinal;
      chunk->indexes_.push_back(entries.present.empty()
                                    ? nullptr
                                    : std::make_shared<const AttributeIndex>(
                                          AttributeIndex::Build(schema_->at(attribute), entries)));
      entries = {};  // so that only one attribute at a time is in memory twice
    }
    chunks.push_back(std::move(chunk));
    begin = end;
  }
  parts_.clear();
  rows_count_ = 0;
  return chunks;
}

}  // namespace nearfield::server

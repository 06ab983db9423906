#include "engine/resolve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/id_order.h"
#include "engine/score/row_types.h"

namespace nearfield {
namespace {

using corpus::IdText;
using corpus::RowRef;

std::string Name(size_t query, const char* field) {
  return absl::StrCat("queries[", query, "].", field);
}

bool AllZero(absl::Span<const float> vector) {
  return std::all_of(vector.begin(), vector.end(), [](float value) { return value == 0.0f; });
}

absl::Status CheckVector(const CollectionSpec& spec, absl::Span<const float> vector, size_t query) {
  if (vector.size() != static_cast<size_t>(spec.dim)) {
    return absl::InvalidArgumentError(absl::StrCat(Name(query, "vector"), " has ", vector.size(),
                                                   " dimensions; the collection has ", spec.dim));
  }
  for (size_t d = 0; d < vector.size(); ++d) {
    if (!std::isfinite(vector[d])) {
      return absl::InvalidArgumentError(
          absl::StrCat(Name(query, "vector"), " is not finite in dimension ", d));
    }
  }
  if (spec.metric == Metric::kCosine && AllZero(vector)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(query, "vector"), " is all zeros, which has no direction for cosine"));
  }
  return absl::OkStatus();
}

absl::Status CheckQuery(const CollectionSpec& spec, const Query& query, int32_t k_max,
                        size_t index) {
  if (query.k < 1 || query.k > k_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(index, "k"), " = ", query.k, " is out of range: 1 to ", k_max));
  }
  if (!query.row_id) return CheckVector(spec, query.vector, index);
  if (!query.vector.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries[", index, "] has both a vector and a row_id; give one"));
  }
  const IdType type =
      std::holds_alternative<uint64_t>(*query.row_id) ? IdType::kUint64 : IdType::kString;
  if (type != spec.id_type) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(index, "row_id"), " = ", IdText(*query.row_id), " is of the wrong type; the ids are ",
        spec.id_type == IdType::kUint64 ? "uint64" : "strings"));
  }
  return absl::OkStatus();
}

// A stored row as fp32: exact for every row type.
void Widen(RowType row_type, const uint8_t* row, absl::Span<float> vector) {
  if (row_type == RowType::kFloat32) {
    std::memcpy(vector.data(), row, vector.size() * sizeof(float));
    return;
  }
  for (size_t d = 0; d < vector.size(); ++d) {
    uint16_t bits;
    std::memcpy(&bits, row + d * sizeof(bits), sizeof(bits));
    vector[d] = row_type == RowType::kFloat16 ? score::FloatFromHalfBits(bits)
                                              : score::FloatFromBfloat16Bits(bits);
  }
}

// Fills the vectors of the queries by id, at `by_id`.
absl::Status ReadStored(const corpus::Corpus& corpus, const corpus::CorpusSnapshot& snapshot,
                        absl::Span<const Query> queries, absl::Span<const size_t> by_id,
                        ResolvedQueries* resolved) {
  const CollectionSpec& spec = corpus.spec();
  IdColumn ids(spec.id_type);
  for (const size_t index : by_id) ids.Append(*queries[index].row_id);
  const std::vector<std::optional<RowRef>> found = corpus::Locate(snapshot, ids);
  const auto dim = static_cast<size_t>(spec.dim);
  const auto row_size = static_cast<size_t>(corpus.row_bytes());
  std::vector<uint8_t> rows(by_id.size() * row_size);
  std::vector<corpus::RowCopy> copies;
  for (size_t i = 0; i < by_id.size(); ++i) {
    if (!found[i]) {
      return absl::NotFoundError(absl::StrCat(Name(by_id[i], "row_id"), " = ",
                                              IdText(*queries[by_id[i]].row_id),
                                              " names no row at epoch ", snapshot.epoch));
    }
    copies.push_back({.row = *found[i], .to = rows.data() + i * row_size});
    resolved->self[by_id[i]] = found[i];
  }
  ABSL_RETURN_IF_ERROR(corpus::ReadRows(snapshot, copies, corpus.row_bytes()));
  for (size_t i = 0; i < by_id.size(); ++i) {
    const absl::Span<float> vector(resolved->vectors.data() + by_id[i] * dim, dim);
    Widen(spec.row_type, rows.data() + i * row_size, vector);
    if (spec.metric == Metric::kCosine && AllZero(vector)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Name(by_id[i], "row_id"), " = ", IdText(*queries[by_id[i]].row_id),
                       " names a row that is all zeros, which has no direction for cosine"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ResolvedQueries> ResolveQueries(const corpus::Corpus& corpus,
                                               const corpus::CorpusSnapshot& snapshot,
                                               absl::Span<const Query> queries, int32_t k_max) {
  const auto dim = static_cast<size_t>(corpus.spec().dim);
  std::vector<size_t> by_id;
  for (size_t i = 0; i < queries.size(); ++i) {
    ABSL_RETURN_IF_ERROR(CheckQuery(corpus.spec(), queries[i], k_max, i));
    if (queries[i].row_id) by_id.push_back(i);
  }
  ResolvedQueries resolved;
  resolved.vectors.resize(queries.size() * dim);
  resolved.self.resize(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    resolved.k.push_back(queries[i].k);
    std::copy(queries[i].vector.begin(), queries[i].vector.end(),
              resolved.vectors.begin() + static_cast<int64_t>(i * dim));
  }
  if (!by_id.empty()) {
    ABSL_RETURN_IF_ERROR(ReadStored(corpus, snapshot, queries, by_id, &resolved));
  }
  return resolved;
}

}  // namespace nearfield

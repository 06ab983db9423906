#include "engine/search/resolve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/id_order.h"
#include "engine/score/element.h"
#include "engine/score/score.h"
#include "nearfield/engine/row_codec.h"

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
  if (const auto first = FirstNotFinite(vector)) {
    return VectorError(static_cast<int64_t>(query), static_cast<int64_t>(*first));
  }
  if (spec.metric == Metric::kCosine && AllZero(vector)) {
    return VectorError(static_cast<int64_t>(query), -1);
  }
  return absl::OkStatus();
}

absl::Status CheckQuery(const CollectionSpec& spec, const Query& query, int32_t k_max,
                        size_t index) {
  if (query.k < 1 || query.k > k_max) {
    return RangeError(Name(index, "k"), query.k, 1, k_max);
  }
  if (query.skip < 0 || query.skip > kRowsMax) {
    return RangeError(Name(index, "skip"), query.skip, 0, kRowsMax);
  }
  if (query.score_threshold && std::isnan(*query.score_threshold)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(index, "score_threshold"), " is not a number"));
  }
  if (query.terms != nullptr) {
    ABSL_RETURN_IF_ERROR(CheckRowTerms(*query.terms, Name(index, "terms")));
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

// Reads the stored vectors of the queries at `by_id`.
absl::Status ReadStored(const corpus::Corpus& corpus, const corpus::CorpusSnapshot& snapshot,
                        absl::Span<const Query> queries, absl::Span<const size_t> by_id,
                        float* vectors, ResolvedQueries* resolved) {
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
    const absl::Span<float> vector(vectors + by_id[i] * dim, dim);
    const uint8_t* const row = rows.data() + i * row_size;
    for (size_t d = 0; d < dim; ++d) vector[d] = score::ElementAt(spec.row_type, row, d);
    if (spec.metric == Metric::kCosine && AllZero(vector)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Name(by_id[i], "row_id"), " = ", IdText(*queries[by_id[i]].row_id),
                       " names a row that is all zeros, which has no direction for cosine"));
    }
  }
  return absl::OkStatus();
}

// Fills in the terms. Queries with the same terms share one object.
void ResolveTerms(const corpus::CorpusSnapshot& snapshot, absl::Span<const Query> queries,
                  ResolvedQueries* resolved) {
  for (size_t i = 0; i < queries.size(); ++i) {
    const std::shared_ptr<const RowTerms>& terms = queries[i].terms;
    if (terms == nullptr) continue;
    resolved->terms.resize(queries.size());
    if (i > 0 && queries[i - 1].terms == terms) {
      resolved->terms[i] = resolved->terms[i - 1];
    } else {
      resolved->terms[i] = std::make_shared<corpus::SlotTerms>(snapshot, terms);
    }
  }
}

// At least this many queries are copied to memory from which the device reads them.
constexpr int64_t kQueriesToCopyMin = 8;

// Returns true if the vectors are already contiguous.
bool LieTogether(absl::Span<const Query> queries, size_t dim) {
  const float* const first = queries.front().vector.data();
  for (size_t i = 0; i < queries.size(); ++i) {
    if (queries[i].row_id || queries[i].vector.data() != first + i * dim) return false;
  }
  return true;
}

}  // namespace

absl::Status VectorError(int64_t query, int64_t dimension) {
  const std::string name = Name(static_cast<size_t>(query), "vector");
  return absl::InvalidArgumentError(
      dimension < 0 ? absl::StrCat(name, " is all zeros, which has no direction for cosine")
                    : absl::StrCat(name, " is not finite in dimension ", dimension));
}

ResolvedQueries Pick(const ResolvedQueries& all, absl::Span<const size_t> places, size_t dim) {
  ResolvedQueries picked;
  picked.copies.reset(new float[places.size() * dim]);
  picked.vectors = {picked.copies.get(), places.size() * dim};
  float* to = picked.copies.get();
  for (const size_t place : places) {
    to = std::copy_n(all.vectors.data() + place * dim, dim, to);
    picked.k.push_back(all.k[place]);
    picked.self.push_back(all.self[place]);
    if (!all.terms.empty()) picked.terms.push_back(all.terms[place]);
  }
  return picked;
}

absl::StatusOr<ResolvedQueries> ResolveQueries(const corpus::Corpus& corpus,
                                               const corpus::CorpusSnapshot& snapshot,
                                               absl::Span<const Query> queries, int32_t k_max) {
  const auto dim = static_cast<size_t>(corpus.spec().dim);
  const auto count = static_cast<int64_t>(queries.size());
  const auto bytes = static_cast<int64_t>(queries.size() * dim * sizeof(float));
  ResolvedQueries resolved;
  resolved.self.resize(queries.size());
  resolved.k.reserve(queries.size());
  for (const Query& query : queries) resolved.k.push_back(query.k);
  const auto values = static_cast<int64_t>(queries.size() * dim);
  if (count >= kQueriesToCopyMin) {
    resolved.copies = corpus.device()->backend().TakeQueryMemory(values);
    resolved.in_query_memory = resolved.copies != nullptr;
  }
  if (resolved.copies == nullptr && !LieTogether(queries, dim)) {
    resolved.copies.reset(new float[queries.size() * dim]);
  }
  float* const vectors = resolved.copies.get();
  resolved.vectors = {vectors != nullptr ? vectors : queries.front().vector.data(),
                      queries.size() * dim};
  // A vector is checked and copied while it is in the cache.
  const auto check_and_copy = [&](int64_t i) -> absl::Status {
    const auto index = static_cast<size_t>(i);
    const Query& query = queries[index];
    ABSL_RETURN_IF_ERROR(CheckQuery(corpus.spec(), query, k_max, index));
    if (vectors != nullptr) {
      std::copy(query.vector.begin(), query.vector.end(), vectors + index * dim);
    }
    return absl::OkStatus();
  };
  ABSL_RETURN_IF_ERROR(corpus.device()->host_work().ParallelFor(count, bytes, check_and_copy));
  ResolveTerms(snapshot, queries, &resolved);
  if (vectors == nullptr) return resolved;
  std::vector<size_t> by_id;
  for (size_t i = 0; i < queries.size(); ++i) {
    if (queries[i].row_id) by_id.push_back(i);
  }
  if (!by_id.empty()) {
    ABSL_RETURN_IF_ERROR(ReadStored(corpus, snapshot, queries, by_id, vectors, &resolved));
  }
  if (resolved.in_query_memory) {
    corpus::Device& device = *corpus.device();
    ABSL_RETURN_IF_ERROR(device.Observe(device.backend().SendQueries(vectors, values)));
  }
  return resolved;
}

}  // namespace nearfield

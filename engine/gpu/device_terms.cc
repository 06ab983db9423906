#include "engine/gpu/device_terms.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/gpu/kernels/terms/batch_terms.h"
#include "engine/gpu/search_job.h"

namespace nearfield::gpu {
namespace {

absl::StatusOr<std::shared_ptr<const DeviceTerms>> TermsOf(GpuNumberColumns& columns,
                                                           const SearchJob& job,
                                                           const backend::TermSource& source) {
  auto terms = std::make_shared<DeviceTerms>();
  terms->list.score_weight = source.score_weight();
  terms->list.count = static_cast<int32_t>(source.terms_count());
  terms->columns.resize(job.planes.size());
  for (std::size_t i = 0; i < source.terms_count(); ++i) {
    terms->list.terms[i] = source.parameters(i);
    for (const int64_t scanned : job.scanned) {
      const auto generation = static_cast<std::size_t>(scanned);
      ABSL_ASSIGN_OR_RETURN(
          GpuNumberColumns::Column column,
          columns.Get(source, i, generation, job.planes[generation]->rows_count()));
      terms->columns[generation].of[i] = column->column;
      terms->memory.push_back(std::move(column));
    }
  }
  return terms;
}

}  // namespace

absl::StatusOr<std::size_t> TakeTerms(GpuNumberColumns& columns, absl::Span<const int64_t> queries,
                                      SearchJob& job) {
  job.terms.assign(static_cast<std::size_t>(job.queries_count()), nullptr);
  std::shared_ptr<const DeviceTerms> terms;
  const backend::TermSource* source_of_terms = nullptr;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const auto query = static_cast<std::size_t>(queries[i]);
    const backend::TermSource* const source = job.queries->terms[query];
    if (source != source_of_terms) {
      auto taken = TermsOf(columns, job, *source);
      if (i > 0 && absl::IsResourceExhausted(taken.status())) return i;
      ABSL_ASSIGN_OR_RETURN(terms, std::move(taken));
      source_of_terms = source;
    }
    job.terms[query] = terms;
  }
  return queries.size();
}

TermSumsArgs SumsArgs(const SearchJob& job, const DeviceTerms& terms, double* sums) {
  TermSumsArgs args;
  args.list = terms.list;
  args.generations = job.corpus.count;
  args.sums = sums;
  for (int32_t g = 0; g < job.corpus.count; ++g) {
    const auto place = static_cast<std::size_t>(g);
    args.columns[g] = terms.columns[static_cast<std::size_t>(job.scanned[place])];
    args.rows_begin[g] = job.corpus.generations[g].rows_begin;
    args.rows_count[g] = job.corpus.generations[g].rows_count;
  }
  return args;
}

int64_t BatchTermsBytes(const SearchJob& job) {
  const int64_t term_bytes =
      int64_t{sizeof(BatchTerm)} + job.corpus.count * int64_t{sizeof(NumberColumn)};
  int64_t most = 0;
  for (const auto& terms : job.terms) {
    if (terms == nullptr) continue;
    most = std::max(most, int64_t{sizeof(BatchTermList)} + terms->list.count * term_bytes);
  }
  return most;
}

int64_t StageTerms(const SearchJob& job, absl::Span<const int64_t> queries, char* host,
                   const char* device) {
  auto* const lists = reinterpret_cast<BatchTermList*>(host);
  auto at = static_cast<int64_t>(queries.size() * sizeof(BatchTermList));
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const DeviceTerms& terms = *job.TermsOf(queries[i]);
    const int64_t count = terms.list.count;
    auto* const of_query = reinterpret_cast<BatchTerm*>(host + at);
    lists[i] = {.score_weight = terms.list.score_weight,
                .terms = reinterpret_cast<const BatchTerm*>(device + at),
                .count = count};
    at += count * int64_t{sizeof(BatchTerm)};
    for (int64_t term = 0; term < count; ++term) {
      auto* column = reinterpret_cast<NumberColumn*>(host + at);
      of_query[term] = {.parameters = terms.list.terms[term],
                        .columns = reinterpret_cast<const NumberColumn*>(device + at)};
      for (const int64_t generation : job.scanned) {
        *column++ = terms.columns[static_cast<std::size_t>(generation)].of[term];
      }
      at += job.corpus.count * int64_t{sizeof(NumberColumn)};
    }
  }
  return at;
}

}  // namespace nearfield::gpu

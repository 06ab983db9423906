#include "engine/cpu/code_queries.h"

#include <algorithm>
#include <atomic>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/cpu/first_error.h"
#include "engine/score/arithmetic_mode.h"

namespace nearfield::cpu {
namespace {

// With at least this many queries, panels are full enough to beat one query at a time.
constexpr int32_t kPanelQueriesMin = 5;
// Elements to encode that justify waking one more thread: about 2 us per query of 768 dimensions.
constexpr int64_t kElementsAThread = 16 * 768;

}  // namespace

double QuerySquare(const ScanKernels& kernels, const float* query, int32_t dim, float* padded) {
  const int32_t dim_padded = PaddedDim(dim);
  std::fill(std::copy(query, query + dim, padded), padded + dim_padded, 0.0f);
  alignas(64) double squares[kRowGroup];
  kernels.square_rows(
      {reinterpret_cast<const std::byte*>(padded), 1, dim_padded, RowType::kFloat32}, squares);
  return squares[0];
}

bool CodeQueries::InPanels(int32_t count) { return count >= kPanelQueriesMin; }

void CodeQueries::EncodeQuery(const Input& input, const ScanKernels& kernels, int32_t query,
                              double* scratch) {
  const int32_t dim = input.format.dim;
  const int32_t whole_max = kernels_->whole_max(dim);
  double* const last = scratch + EncodeScratchDoubles(dim);  // the second code, or the whole one
  const float* const vector = input.queries + int64_t{query} * dim;
  const EncodeQueryArgs args = {
      .rotation = input.rotation,
      .dim = dim,
      .metric = input.format.metric,
      .query = vector,
      .first = whole_max == 0 || in_panels() ? first_code(query) : nullptr,
      .second = reinterpret_cast<int8_t*>(last),
      .whole = whole_max > 0 ? reinterpret_cast<int16_t*>(last) : nullptr,
      .whole_max = whole_max,
      .scratch = scratch};
  const auto q = static_cast<size_t>(query);
  bounds_[q] = kernels_->encode_query(args);
  kernels_->pack_one({args.first, args.second, args.whole}, dim, ones_.get() + query * one_bytes_);
  double* const wide = wide_.get() + query * dim_padded_;
  std::fill(std::copy(vector, vector + dim, wide), wide + dim_padded_, 0.0);
  if (input.format.metric != Metric::kCosine) return;
  squares_[q] = QuerySquare(kernels, vector, dim, reinterpret_cast<float*>(scratch));
}

void CodeQueries::PackPanels(const Input& input) {
  const int32_t dim = input.format.dim;
  const int32_t lanes = kernels_->lanes;
  for (int32_t p = 0; p < panels_count_; ++p) {
    kernels_->pack_panel(first_code(int64_t{p} * lanes), dim, std::min(lanes, count_ - p * lanes),
                         dim, panels_.get() + p * panel_bytes_);
  }
  float* const terms = terms_.get();
  std::fill(terms, terms + 4 * width_, 0.0f);
  for (int32_t q = 0; q < count_; ++q) {
    const bound::QueryBound& bound = bounds_[static_cast<size_t>(q)].first_only;
    terms[q] = bound.first_scale;
    terms[width_ + q] = bound.of_residual;
    terms[2 * width_ + q] = bound.of_norm;
    terms[3 * width_ + q] = bound.squared_norm_lower;
  }
}

absl::Status CodeQueries::Prepare(const Input& input, const ScanKernels& kernels,
                                  ThreadPool& pool) {
  const int32_t dim = input.format.dim;
  kernels_ = &kernels.codes;
  const int32_t lanes = kernels_->lanes;
  count_ = static_cast<int32_t>(input.k.size());
  panels_count_ = InPanels(count_) ? (count_ + lanes - 1) / lanes : 0;
  dim_ = dim;
  dim_padded_ = PaddedDim(dim);
  one_bytes_ = RoundUp(kernels_->one_bytes(dim), kCodeLine);
  panel_bytes_ = kernels_->panel_bytes(dim);
  width_ = int64_t{panels_count_} * lanes;
  ones_.Ensure(count_ * one_bytes_);
  panels_.Ensure(panels_count_ * panel_bytes_);
  codes_.Ensure(count_ * dim_);
  terms_.Ensure(4 * width_);
  wide_.Ensure(count_ * dim_padded_);
  const auto count = static_cast<size_t>(count_);
  bounds_.resize(count);
  squares_.assign(count, 1.0);
  if (states_count_ < count_) {
    states_ = std::make_unique<State[]>(count);
    states_count_ = count_;
  }
  for (size_t q = 0; q < count; ++q) {
    states_[q].floor.Reset(input.k[q]);
    states_[q].abandoned.store(false, std::memory_order_relaxed);
  }
  const auto participants = static_cast<int32_t>(
      std::clamp<int64_t>(count_ * dim_padded_ / kElementsAThread, 1, pool.threads_count()));
  scratch_.resize(static_cast<size_t>(pool.threads_count()));
  for (int32_t w = 0; w < participants; ++w) {
    scratch_[static_cast<size_t>(w)].Ensure(EncodeScratchDoubles(dim) + dim_padded_ / 4);
  }
  FirstError error;
  std::atomic<int32_t> next{0};
  pool.Run(participants, [&](int32_t worker) {
    if (!error.Check(score::CheckArithmeticMode())) return;
    double* const scratch = scratch_[static_cast<size_t>(worker)].get();
    for (int32_t q; (q = next.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      EncodeQuery(input, kernels, q, scratch);
    }
  });
  ABSL_RETURN_IF_ERROR(error.status());
  if (in_panels()) PackPanels(input);
  return absl::OkStatus();
}

}  // namespace nearfield::cpu

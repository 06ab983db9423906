// The names of values in tables, receipts and options.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "nearfield/engine/types.h"

namespace nearfield::bench {

template <typename T, size_t kSize>
using Names = std::array<std::pair<const char*, T>, kSize>;

inline constexpr Names<Metric, 3> kMetricNames = {
    {{"dot", Metric::kDot}, {"cosine", Metric::kCosine}, {"l2", Metric::kL2}}};
inline constexpr Names<RowType, 3> kRowTypeNames = {
    {{"fp32", RowType::kFloat32}, {"fp16", RowType::kFloat16}, {"bf16", RowType::kBFloat16}}};
inline constexpr Names<ScanPrecision, 2> kScanNames = {
    {{"int8", ScanPrecision::kInt8}, {"rows", ScanPrecision::kRows}}};

// Requires: the table has a name for the value.
template <typename T, size_t kSize>
const char* NameIn(const Names<T, kSize>& names, T value) {
  return std::find_if(names.begin(), names.end(),
                      [&](const auto& name) { return name.second == value; })
      ->first;
}

inline const char* Name(Metric metric) { return NameIn(kMetricNames, metric); }
inline const char* Name(RowType type) { return NameIn(kRowTypeNames, type); }
inline const char* Name(ScanPrecision precision) { return NameIn(kScanNames, precision); }

}  // namespace nearfield::bench

// Creates selectors that can force more than the engine's algorithms, to compare these with others.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/topk/algorithm.h"
#include "nearfield/engine/select.h"

namespace nearfield::select {

// Like Selector::Create, and loads `more` algorithms. kAdaptive does not choose them.
absl::StatusOr<std::unique_ptr<Selector>> CreateSelector(
    const SelectorOptions& options, std::span<const gpu::SelectAlgorithm* const> more);

}  // namespace nearfield::select

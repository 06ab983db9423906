// A selector that can also force the published algorithms.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/engine/select.h"

namespace nearfield::gpu::published {

// Like select::Selector::Create, with the algorithms of algorithms.h after those of the engine.
absl::StatusOr<std::unique_ptr<select::Selector>> CreateSelector(
    const select::SelectorOptions& options);

}  // namespace nearfield::gpu::published

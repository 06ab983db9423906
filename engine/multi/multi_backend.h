// MultiBackend: one backend over several, which together hold every collection. It spreads the rows
// of a large generation over all of them, searches them at the same time, and joins their lists by
// (score, rank), so that its answers are those of one backend with all of the rows, to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/multi/device_set.h"
#include "nearfield/engine/engine.h"

namespace nearfield::multi {

// Requires: at least one device, all of one kind, with the same k_max and batch_max.
std::unique_ptr<backend::Backend> MakeMultiBackend(std::vector<NamedBackend> devices,
                                                   const DeviceSpread& spread);

}  // namespace nearfield::multi

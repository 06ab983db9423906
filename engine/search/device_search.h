// SearchCorpusOnDevice: the search of queries in device memory, whose answers stay there.
#pragma once

#include "absl/status/statusor.h"
#include "engine/corpus/corpus.h"
#include "engine/search/search.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// As Engine::SearchOnDevice. The backend finds the rows and merges the generations, because the
// ids of the rows are on the device too.
absl::StatusOr<DeviceSearchResult> SearchCorpusOnDevice(const corpus::Corpus& corpus,
                                                        const SearchLimits& limits,
                                                        const DeviceSearch& search);

}  // namespace nearfield

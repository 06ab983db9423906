// The metrics of collections, with a bounded number of label values.
#pragma once

#include <cstddef>

#include "server/collections/catalog.h"
#include "server/operations/metric_set.h"

namespace nearfield::server {

// Collections that have metrics of their own: those with the most rows, live and deleted. The
// others are summed under kOtherCollections, which no collection can be called.
inline constexpr size_t kCollectionsShown = 100;
inline constexpr char kOtherCollections[] = "(others)";

void AddCollectionMetrics(const Catalog& catalog, MetricSet* metrics);

}  // namespace nearfield::server

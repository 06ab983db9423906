// The metrics of collections and of the principals that own them, with a bounded number of label
// values.
#pragma once

#include <cstddef>
#include <vector>

#include "server/collections/catalog.h"
#include "server/collections/principal_quotas.h"
#include "server/ops_http/metric_set.h"

namespace nearfield::server {

// Collections that have metrics of their own: those with the most rows, live and deleted. The
// others are summed under kOtherCollections, which no collection can be called.
inline constexpr size_t kCollectionsShown = 100;
inline constexpr char kOtherCollections[] = "(others)";
// Principals that have metrics of their own: those nearest to their limits, then those with the
// most device memory. The others are summed, without a limit, under kOtherCollections.
inline constexpr size_t kPrincipalsShown = 100;

void AddCollectionMetrics(const Catalog& catalog, MetricSet* metrics);
void AddPrincipalMetrics(std::vector<PrincipalQuotas::Use> uses, MetricSet* metrics);

}  // namespace nearfield::server

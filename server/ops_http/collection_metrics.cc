#include "server/ops_http/collection_metrics.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/convert/common.h"

namespace nearfield::server {
namespace {

struct Figures {
  std::string name;
  bool serving = true;
  CollectionSpec spec;
  CollectionStats stats;
  int64_t host_bytes = 0;  // with those of the attributes
};

Figures FiguresOf(const NamedCollection& named) {
  Figures figures = {.name = named.name,
                     .serving = IsReadable(named),
                     .spec = named.collection->spec(),
                     .stats = named.collection->Stats()};
  figures.host_bytes = figures.stats.host_bytes + named.attributes->bytes();
  return figures;
}

// Sums the figures at `begin` and after it. The epoch of the sum has no meaning.
Figures Sum(const std::vector<Figures>& all, size_t begin) {
  Figures sum = {.name = kOtherCollections};
  for (size_t i = begin; i < all.size(); ++i) {
    sum.serving = sum.serving && all[i].serving;
    sum.stats.rows_count += all[i].stats.rows_count;
    sum.stats.rows_deleted += all[i].stats.rows_deleted;
    sum.stats.generations_count += all[i].stats.generations_count;
    sum.stats.device_bytes += all[i].stats.device_bytes;
    sum.host_bytes += all[i].host_bytes;
  }
  return sum;
}

// Returns "float32" of "DATA_TYPE_FLOAT32".
std::string OwnWord(const std::string& constant) {
  return absl::AsciiStrToLower(constant.substr(constant.rfind('_') + 1));
}

void AddInfo(const Figures& figures, MetricSet* metrics) {
  const CollectionSpec& spec = figures.spec;
  metrics->Gauge("nearfield_collection_info",
                 "Constant 1; the form of the rows and what scans read as labels.", 1,
                 {{"collection", figures.name},
                  {"dim", std::to_string(spec.dim)},
                  {"metric", OwnWord(pb::Metric_Name(ToProto(spec.metric)))},
                  {"dtype", OwnWord(pb::DataType_Name(ToProto(spec.row_type)))},
                  {"id_type", NameOf(spec.id_type)},
                  {"scan", NameOf(figures.stats.scan)}});
}

void AddOne(const Figures& figures, MetricSet* metrics) {
  const CollectionStats& stats = figures.stats;
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    metrics->Gauge(name, help, static_cast<double>(value), {{"collection", figures.name}});
  };
  gauge("nearfield_collection_rows", "Live rows.", stats.rows_count);
  gauge("nearfield_collection_rows_deleted", "Deleted rows whose memory is not released yet.",
        stats.rows_deleted);
  gauge("nearfield_collection_generations", "Generations.", stats.generations_count);
  gauge("nearfield_collection_device_bytes", "Memory for rows, codes, norms and ranks.",
        stats.device_bytes);
  gauge("nearfield_collection_host_bytes", "Memory for ids, payloads and attributes.",
        figures.host_bytes);
  gauge("nearfield_collection_serving",
        "0 if it could not be loaded, or stored rows of it could not be read, else 1.",
        figures.serving ? 1 : 0);
  if (figures.name == kOtherCollections) return;
  AddInfo(figures, metrics);
  metrics->Gauge("nearfield_collection_epoch", "Epoch.", static_cast<double>(stats.epoch),
                 {{"collection", figures.name}});
}

}  // namespace

void AddCollectionMetrics(const Catalog& catalog, MetricSet* metrics) {
  std::vector<Figures> all;
  for (const NamedCollectionPtr& named : catalog.List()) all.push_back(FiguresOf(*named));
  metrics->Gauge("nearfield_collections", "Collections.", static_cast<double>(all.size()));
  const size_t shown = std::min(all.size(), kCollectionsShown);
  const auto rows = [](const Figures& figures) {
    return figures.stats.rows_count + figures.stats.rows_deleted;
  };
  // The catalog is ordered by name, so equal numbers of rows stay ordered by name.
  std::stable_sort(all.begin(), all.end(), [&](const Figures& left, const Figures& right) {
    return rows(left) > rows(right);
  });
  for (size_t i = 0; i < shown; ++i) AddOne(all[i], metrics);
  if (shown < all.size()) AddOne(Sum(all, shown), metrics);
}

void AddPrincipalMetrics(std::vector<PrincipalQuotas::Use> uses, MetricSet* metrics) {
  // The largest share of a limit.
  const auto share = [](const PrincipalQuotas::Use& use) {
    double largest = 0;
    for (const QuotaKind& kind : kQuotaKinds) {
      if (use.max[kind.quota] == 0) continue;
      largest = std::max(largest, static_cast<double>(use.used[kind.quota]) /
                                      static_cast<double>(use.max[kind.quota]));
    }
    return std::make_pair(largest, use.used[Quota::kDeviceBytes]);
  };
  // The uses are ordered by name, so equal ones stay ordered by name.
  std::stable_sort(uses.begin(), uses.end(),
                   [&](const auto& left, const auto& right) { return share(left) > share(right); });
  if (uses.size() > kPrincipalsShown) {
    PrincipalQuotas::Use others = {.principal = kOtherCollections, .used = {}, .max = {}};
    for (size_t i = kPrincipalsShown; i < uses.size(); ++i) {
      for (const QuotaKind& kind : kQuotaKinds) {
        others.used[kind.quota] += uses[i].used[kind.quota];
      }
    }
    uses.resize(kPrincipalsShown);
    uses.push_back(std::move(others));
  }
  for (const PrincipalQuotas::Use& use : uses) {
    for (const QuotaKind& kind : kQuotaKinds) {
      if (kind.quota == Quota::kSnapshots) continue;
      const MetricLabels labels = {{"principal", use.principal}, {"quota", std::string(kind.name)}};
      metrics->Gauge("nearfield_principal_used",
                     "Use of a resource by a principal: of bytes, its collections with uploads.",
                     static_cast<double>(use.used[kind.quota]), labels);
      if (use.max[kind.quota] == 0) continue;
      metrics->Gauge("nearfield_principal_used_max",
                     "Limit of nearfield_principal_used; absent: none.",
                     static_cast<double>(use.max[kind.quota]), labels);
    }
  }
}

}  // namespace nearfield::server

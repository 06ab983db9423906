// DurableCatalogFixture: rows in a catalog over the real engine and store.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/corpus/id_order.h"
#include "nearfield/engine/engine.h"
#include "server/collections/catalog.h"
#include "server/collections/collection_upload.h"
#include "server/collections/delete_rows.h"
#include "tests/server/prelude.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/random.h"

namespace nearfield::server {

class DurableCatalogFixture : public ::testing::Test {
 protected:
  static constexpr int32_t kDim = 8;

  void SetUp() override { Open(); }
  // Opens the catalog on the same directory again.
  void Open() {
    catalog_ = nullptr;
    engine_ = nullptr;
    ASSERT_OK_AND_ASSIGN(engine_, Engine::Create({.backend = BackendChoice::kCpu,
                                                  .cpu_devices = cpu_devices_,
                                                  .memory_bytes = memory_bytes_,
                                                  .host_memory_bytes = host_memory_bytes_,
                                                  .threads = 1}));
    ASSERT_OK_AND_ASSIGN(auto kept, store::Store::Open({.dir = dir_ / "data"}));
    catalog_ = std::make_unique<Catalog>(
        Catalog::Base{.engine = engine_.get(),
                      .store = std::move(kept),
                      .attribute_limits = {.memory_bytes = attribute_memory_bytes_},
                      .quotas = &quotas_},
        /*collections_max=*/16);
    ASSERT_OK(catalog_->Load([](const Catalog::LoadProgress&) {}, nullptr));
  }

  std::shared_ptr<NamedCollection> Make(const std::string& name) {
    const auto named = catalog_->Create(name, {.dim = kDim});
    EXPECT_OK(named);
    return *named;
  }

  // Uploads rows with the ids [begin, end) and random values from `seed`.
  static void Upload(const std::shared_ptr<NamedCollection>& named, uint64_t begin, uint64_t end,
                     uint64_t seed) {
    testing::Random random(seed);
    std::vector<uint64_t> numbers;
    std::vector<float> values;
    for (uint64_t id = begin; id < end; ++id) {
      numbers.push_back(id);
      for (int32_t d = 0; d < kDim; ++d) values.push_back(random.Gaussian());
    }
    const IdColumn ids = IdColumn::OfNumbers(std::move(numbers));
    ASSERT_OK_AND_ASSIGN(auto upload,
                         CollectionUpload::Begin(named, {.reservation = {.rows_max = ids.size()}}));
    const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                          values.size() * sizeof(float));
    ASSERT_OK(upload->Append({.ids = &ids, .rows = bytes}, {.rows_count = ids.size()}));
    ASSERT_OK(upload->Commit());
  }

  static void Delete(const NamedCollection& named, uint64_t begin, uint64_t end) {
    std::vector<uint64_t> numbers;
    for (uint64_t id = begin; id < end; ++id) numbers.push_back(id);
    ASSERT_OK_AND_ASSIGN(const auto deleted,
                         DeleteRows(named, IdColumn::OfNumbers(std::move(numbers))));
    ASSERT_EQ(deleted.rows_deleted, static_cast<int64_t>(end - begin));
  }

  // Returns the epoch, and the ids and score bits of all rows, best first.
  std::string Answer(const NamedCollection& named) const {
    std::vector<float> values(kDim);
    for (int32_t d = 0; d < kDim; ++d)
      values[static_cast<size_t>(d)] = static_cast<float>(d) - 3.5f;
    Query query;
    query.vector = values;
    query.k = kKMax;
    const auto result = engine_->Search(*named.collection, {.queries = {query}});
    EXPECT_OK(result);
    if (!result.ok()) return "";
    std::string text = std::to_string(result->epoch);
    const Neighbors& neighbors = result->queries.front();
    for (size_t i = 0; i < neighbors.scores.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &neighbors.scores[i], sizeof(bits));
      text += " " + corpus::IdText(neighbors.ids.at(static_cast<int64_t>(i))) + ":" +
              std::to_string(bits);
    }
    return text;
  }

  const store::TempDir dir_;
  int64_t memory_bytes_ = int64_t{64} << 20;
  int32_t cpu_devices_ = 1;
  int64_t host_memory_bytes_ = int64_t{64} << 20;
  int64_t attribute_memory_bytes_ = INT64_MAX;
  PrincipalQuotas quotas_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Catalog> catalog_;
};

}  // namespace nearfield::server

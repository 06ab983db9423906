// CollectionOrdinalsTest: a collection in memory whose rows have one attribute, and a model of its
// rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "server/collections/catalog.h"
#include "server/collections/collection_upload.h"
#include "server/collections/delete_rows.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/answers.h"
#include "tests/testing/random.h"
#include "tests/testing/row_model.h"
#include "tests/testing/seed.h"

namespace nearfield::server {

// The attribute of the rows is n.
class CollectionOrdinalsTest : public ::testing::Test {
 protected:
  // A held state, and the rows that it must show.
  struct Held {
    std::shared_ptr<const PinnedEpoch> at;
    RowModel model;
  };

  void Start(int64_t ordinals_max) {
    engine_ = *Engine::Create({.backend = BackendChoice::kCpu,
                               .memory_bytes = int64_t{64} << 20,
                               .host_memory_bytes = int64_t{64} << 20,
                               .threads = 1,
                               .ordinals_max = ordinals_max});
    catalog_ =
        std::make_unique<Catalog>(Catalog::Base{.engine = engine_.get(),
                                                .store = nullptr,
                                                .attribute_limits = {.cache_bytes = 100'000}},
                                  /*collections_max=*/1);
    named_ = *catalog_->Create("c", spec_, schema_);
  }

  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  static std::vector<uint64_t> IdsOf(Range range) {
    std::vector<uint64_t> ids;
    for (uint64_t id = range.begin; id < range.end; ++id) ids.push_back(id);
    return ids;
  }

  // Uploads rows with these ids, values of n from `n`, and random vectors. Updates the model.
  absl::Status Upload(UploadMode mode, const std::vector<uint64_t>& ids,
                      const std::function<int64_t()>& n) {
    ABSL_ASSIGN_OR_RETURN(
        auto upload,
        CollectionUpload::Begin(named_, {.reservation = {.rows_max = 10'000, .mode = mode}}));
    RowModel::Upload rows;
    std::vector<PlainRow> attributes;
    std::vector<uint8_t> bytes;
    for (const uint64_t id : ids) {
      attributes.push_back({.attributes = {std::vector<PlainValue>{n()}}});
      const RowModel::Row row = {.vector = testing::StoredVector(DrawVector()),
                                 .payload = std::to_string(++rows_uploaded_),
                                 .attributes = attributes.back()};
      bytes.insert(bytes.end(), row.vector.begin(), row.vector.end());
      rows.emplace_back(id, row);
    }
    const IdColumn column = IdColumn::OfNumbers(ids);
    ABSL_RETURN_IF_ERROR(
        upload->Append({.ids = &column, .rows = bytes}, BlockOf(schema_, attributes)));
    ABSL_ASSIGN_OR_RETURN(const CommitResult result, upload->Commit());
    model_.Commit(mode, rows);
    model_.epoch = result.epoch;
    return absl::OkStatus();
  }
  absl::Status Upsert(Range ids, int64_t n) {
    return Upload(UploadMode::kUpsert, IdsOf(ids), [n] { return n; });
  }

  void Delete(Range ids) {
    const auto deleted = DeleteRows(*named_, IdColumn::OfNumbers(IdsOf(ids)));
    ASSERT_OK(deleted);
    model_.Delete(IdColumn::OfNumbers(IdsOf(ids)));
    model_.epoch = deleted->epoch;
  }

  void Tidy() {
    ASSERT_OK(
        named_->attributes->Tidy(*named_->collection, CollectionAttributes::Drop::kMany, Never));
  }

  std::vector<float> DrawVector() {
    return {static_cast<float>(random_.Between(-2, 3)), static_cast<float>(random_.Between(-2, 3))};
  }

  ChosenRows Choose(const FilterTree& tree, std::shared_ptr<const PinnedEpoch> at) {
    return *named_->attributes->Choose(*named_->collection, Filter(tree, schema_), std::move(at),
                                       Never);
  }

  // Returns all rows that pass at the state, in order.
  Neighbors Answer(const FilterTree& tree, std::shared_ptr<const PinnedEpoch> at) {
    const ChosenRows chosen = Choose(tree, std::move(at));
    Query query = {.vector = vector_, .row_id = {}, .k = kKMax};
    query.filter = chosen.rows;
    SearchBatch batch;
    batch.queries = {query};
    batch.at = chosen.at;
    auto result = engine_->Search(*named_->collection, batch);
    EXPECT_OK(result);
    return std::move(result->queries[0]);
  }

  // Checks that the filter and the slow filter choose the same rows of the state (null: current).
  void ExpectRight(const FilterTree& tree, const Held& state) {
    const Query asked = {.vector = vector_, .row_id = {}, .k = kKMax};
    ASSERT_THAT(Answer(tree, state.at), testing::BytesEqual(state.model.Answer(
                                            PassingIds(tree, specs_, state.model), asked)));
  }

  // Returns one bit for each row of the state (null: the current one), by ordinal.
  std::vector<uint64_t> Ordinals(const PinnedEpoch* at) {
    return named_->collection->LiveRows(at)->chosen;
  }

  const std::vector<float> vector_ = {1.5F, -0.5F};
  testing::Random random_{testing::TestSeed()};
  const CollectionSpec spec_ = {.dim = 2, .metric = Metric::kL2};
  const std::vector<AttributeSpec> specs_ = {{.name = "n"}};
  const AttributeSchema schema_ = *AttributeSchema::Create(specs_, {});
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Catalog> catalog_;
  std::shared_ptr<NamedCollection> named_;
  RowModel model_ = {.spec = spec_};
  int64_t rows_uploaded_ = 0;
};

}  // namespace nearfield::server

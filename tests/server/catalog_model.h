// CatalogModel: one durable collection with a model of its rows, its declared attributes and the
// states that readers hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/attributes/filter_text.h"
#include "server/attributes/schema_encoding.h"
#include "server/collections/catalog.h"
#include "server/collections/change_schema.h"
#include "server/collections/collection_upload.h"
#include "server/collections/delete_rows.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_printer.h"
#include "tests/server/store/model_store.h"
#include "tests/server/update_model.h"
#include "tests/testing/answers.h"
#include "tests/testing/random.h"
#include "tests/testing/row_model.h"
#include "tests/testing/seed.h"

namespace nearfield::server {

using testing::BytesEqual;
using testing::Random;

inline constexpr uint64_t kIdsMax = 300;
inline constexpr int32_t kDim = 4;
inline constexpr size_t kHeldMax = 4;

// Parameter: the number of devices that share the rows. The operations and the replies are the same
// for each.
class CatalogModel : public ::testing::TestWithParam<int32_t> {
 protected:
  // A state that a reader holds, with its correct content.
  struct Held {
    std::shared_ptr<const PinnedEpoch> at;
    RowModel model;
    Declared declared;
  };

  CatalogModel() { Start(); }

  void Start() {
    engine_ = *Engine::Create({.backend = BackendChoice::kCpu,
                               .cpu_devices = GetParam(),
                               .spread = {.one_device_bytes = 200, .stripe_rows = 3},
                               .memory_bytes = int64_t{64} << 20,
                               .host_memory_bytes = int64_t{64} << 20,
                               .threads = 1,
                               .k_max = 64});  // pages go beyond it
    ASSERT_OK_AND_ASSIGN(auto store, store::Store::Open({.dir = dir_ / "data"}));
    catalog_ = std::make_unique<Catalog>(Catalog::Base{.engine = engine_.get(),
                                                       .store = std::move(store),
                                                       .attribute_limits = {.cache_bytes = 20'000}},
                                         /*collections_max=*/4);
    ASSERT_OK(catalog_->Load([](const Catalog::LoadProgress&) {}, Never));
    if (!catalog_->Find("c").ok()) {
      ASSERT_OK(catalog_->Create("c", spec_, declared_.schema));
    }
    named_ = *catalog_->Find("c");
    ASSERT_EQ(EncodeSchema(*named_->attributes->SchemaAt()), EncodeSchema(declared_.schema));
  }

  void Restart() {
    held_.clear();
    named_ = nullptr;
    catalog_ = nullptr;
    engine_ = nullptr;
    Start();
  }

  std::vector<float> DrawVector() {
    std::vector<float> values;  // from few values, so that scores tie
    for (int32_t d = 0; d < kDim; ++d) values.push_back(static_cast<float>(random_.Between(-2, 3)));
    return values;
  }

  FilterTree DrawFilter() { return DrawFilter(declared_); }
  FilterTree DrawFilter(const Declared& declared) {
    const int depth = static_cast<int>(random_.Between(1, 4));
    return RandomFilter(random_, declared.Specs(), depth, kIdsMax);
  }

  Held Now() { return {.at = nullptr, .model = model_, .declared = declared_}; }

  static std::vector<Id> Passing(const FilterTree& tree, const Held& state) {
    RowModel model = state.model;
    const std::vector<AttributeSpec> specs = state.declared.ByNumber();
    for (auto& [id, row] : model.rows) row.attributes.attributes.resize(specs.size());
    return PassingIds(tree, specs, model);
  }

  // Evaluates the tree, or at random the text and arguments that are printed from it.
  absl::StatusOr<ChosenRows> Choose(const FilterTree& tree, const Held& state) {
    const AttributeSchema& schema = state.declared.schema;
    absl::StatusOr<FilterTree> sent = tree;
    if (FitsAsText(tree) && random_.OneIn(2)) {
      const PrintedFilter printed = PrintWithArguments(tree, random_);
      sent = ParseFilterText(printed.text, printed.arguments, spec_.id_type, schema, {});
    }
    EXPECT_OK(sent);
    const Filter filter(*sent, schema);
    return named_->attributes->Choose(*named_->collection, filter, state.at, Never);
  }

  // Expects the attributes that the model has for these rows.
  void ExpectAttributes(const PinnedEpoch& at, const IdColumn& ids,
                        const std::vector<uint32_t>& ordinals, const Held& state) {
    std::vector<PlainRow> expected;
    for (int64_t i = 0; i < ids.size(); ++i) {
      expected.push_back(state.model.rows.at(ids.at(i)).attributes);
    }
    ASSERT_OK_AND_ASSIGN(const RowReader rows, named_->attributes->FindRows(at, ordinals, {}));
    state.declared.ExpectRows(rows, std::move(expected));
  }

  Random random_{testing::TestSeed()};
  const store::TempDir dir_;
  const CollectionSpec spec_ = {.dim = kDim, .metric = Metric::kL2};
  Declared declared_ = {.schema = *AttributeSchema::Create(RandomSpecs(random_), {})};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Catalog> catalog_;
  std::shared_ptr<NamedCollection> named_;
  RowModel model_ = {.spec = spec_};
  std::deque<Held> held_;
  std::map<std::string, std::string> tokens_;  // of updates that changed rows, with their replies
  int operation_ = 0;
};

}  // namespace nearfield::server

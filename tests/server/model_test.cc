// Tests random changes, searches and restarts of one durable collection against a map and the
// oracle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/collections/catalog.h"
#include "server/collections/collection_upload.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/row_model.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/answers.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::absl_testing::StatusIs;
using testing::BytesEqual;
using testing::Random;

constexpr int kOperations = 10'000;
constexpr uint64_t kIdsMax = 300;
constexpr int32_t kDim = 4;
constexpr size_t kHeldMax = 4;

class CatalogModelTest : public ::testing::Test {
 protected:
  // A state that a reader holds, with its correct content.
  struct Held {
    std::shared_ptr<const PinnedEpoch> at;
    RowModel model;
  };

  CatalogModelTest() { Start(); }

  void Start() {
    EngineOptions options;
    options.backend = BackendChoice::kCpu;
    options.memory_bytes = int64_t{64} << 20;
    options.host_memory_bytes = int64_t{64} << 20;
    options.threads = 1;
    options.k_max = 64;  // pages go beyond it
    engine_ = *Engine::Create(options);
    auto store = store::Store::Open({.dir = dir_ / "data"});
    ASSERT_OK(store);
    catalog_ = std::make_unique<Catalog>(
        Catalog::Base{
            .engine = engine_.get(), .store = *std::move(store), .filter_cache_bytes = 20'000},
        /*collections_max=*/4);
    ASSERT_OK(catalog_->Load([](const Catalog::LoadProgress&) {}, [] { return false; }));
    if (!catalog_->Find("c").ok()) {
      ASSERT_OK(catalog_->Create("c", spec_, schema_));
    }
    named_ = *catalog_->Find("c");
    ASSERT_EQ(named_->attributes->schema().size(), schema_.size());
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

  FilterTree DrawFilter() {
    return RandomFilter(random_, specs_, static_cast<int>(random_.Between(1, 4)), kIdsMax);
  }

  void Upload() {
    const auto mode = random_.OneOf<UploadMode>(
        {UploadMode::kInsert, UploadMode::kUpsert, UploadMode::kUpsert, UploadMode::kReplace});
    const int64_t rows_count = random_.Between(mode == UploadMode::kReplace ? 0 : 1, 40);
    const std::string token =
        random_.OneIn(3) ? "token " + std::to_string(operation_) : std::string();
    auto upload = Begin(mode, rows_count, token);
    RowModel next = model_;
    if (mode == UploadMode::kReplace) next.rows.clear();
    bool duplicate = false;
    std::vector<uint64_t> seen;
    for (int64_t row = 0; row < rows_count;) {
      const int64_t block_rows = std::min(rows_count - row, random_.Between(1, 20));
      AppendBlock(mode, block_rows, &next, &seen, &duplicate, upload.get());
      if (::testing::Test::HasFatalFailure()) return;
      row += block_rows;
      // The stream breaks, and another one resumes the upload.
      if (!token.empty() && random_.OneIn(4)) {
        const UploadPlace place = upload->place();
        upload = nullptr;
        upload = Begin(mode, rows_count, token);
        ASSERT_EQ(upload->place().next_block, place.next_block);
        ASSERT_EQ(upload->place().rows_count, place.rows_count);
      }
    }
    const bool given_up = random_.OneIn(10);
    if (!given_up) {
      const auto result = upload->Commit();
      if (!duplicate) {
        ASSERT_OK(result);
        if (rows_count > 0 || !model_.rows.empty()) ++next.epoch;
        EXPECT_EQ(result->epoch, next.epoch);
        model_ = std::move(next);
        return;
      }
      EXPECT_THAT(result, StatusIs(absl::StatusCode::kAlreadyExists));
    }
    upload = nullptr;
    if (!token.empty()) {
      ASSERT_OK(named_->store->DropUpload(token));
    }
  }

  std::unique_ptr<CollectionUpload> Begin(UploadMode mode, int64_t rows_count,
                                          const std::string& token) {
    auto upload = CollectionUpload::Begin(
        named_, {.reservation = {.rows_max = std::max<int64_t>(rows_count, 1),
                                 .payload_bytes_max = 40 * 20,
                                 .mode = mode},
                 .token = token});
    EXPECT_OK(upload);
    return *std::move(upload);
  }

  void AppendBlock(UploadMode mode, int64_t rows_count, RowModel* next, std::vector<uint64_t>* seen,
                   bool* duplicate, CollectionUpload* upload) {
    IdColumn ids;
    std::vector<uint8_t> bytes;
    BytesColumn payloads;
    const std::vector<PlainRow> attributes = RandomRows(random_, specs_, rows_count);
    for (const PlainRow& plain : attributes) {
      const auto id = static_cast<uint64_t>(random_.Between(0, kIdsMax));
      const bool twice = std::find(seen->begin(), seen->end(), id) != seen->end();
      seen->push_back(id);
      if (mode != UploadMode::kUpsert && twice) *duplicate = true;
      if (mode == UploadMode::kInsert && model_.rows.count(id) > 0) *duplicate = true;
      const RowModel::Row row = {.values = DrawVector(),
                                 .payload = std::string(static_cast<size_t>(id % 7), 'p'),
                                 .attributes = plain};
      const auto* const begin = reinterpret_cast<const uint8_t*>(row.values.data());
      bytes.insert(bytes.end(), begin, begin + kDim * sizeof(float));
      ids.AppendNumber(id);
      payloads.Append(row.payload);
      next->rows[id] = row;
    }
    ASSERT_OK(upload->Append({.ids = &ids, .rows = bytes, .payloads = &payloads},
                             BlockOf(schema_, attributes)));
  }

  void DeleteIds() {
    IdColumn ids;
    RowModel next = model_;
    for (int64_t count = random_.Between(1, 30); count > 0; --count) {
      const auto id = static_cast<uint64_t>(random_.Between(0, kIdsMax));
      ids.AppendNumber(id);
      next.rows.erase(id);
    }
    ExpectDeleted(DeleteRows(*named_, ids), std::move(next));
  }

  void DeleteByFilter() {
    const FilterTree tree = random_.OneIn(3) ? DrawFilter() : And({DrawFilter(), DrawFilter()});
    RowModel next = model_;
    for (const uint64_t id : model_.Passing(tree, specs_)) next.rows.erase(id);
    const auto chosen = Choose(tree, nullptr);
    ASSERT_OK(chosen);
    ExpectDeleted(DeleteRows(*named_, *chosen), std::move(next));
  }

  void ExpectDeleted(const absl::StatusOr<DeleteResult>& result, RowModel next) {
    ASSERT_OK(result);
    const size_t deleted = model_.rows.size() - next.rows.size();
    EXPECT_EQ(result->rows_deleted, static_cast<int64_t>(deleted));
    if (deleted > 0) ++next.epoch;
    EXPECT_EQ(result->epoch, next.epoch);
    model_ = std::move(next);
  }

  absl::StatusOr<ChosenRows> Choose(const FilterTree& tree, std::shared_ptr<const PinnedEpoch> at) {
    const auto filter = ValidateFilter(tree, schema_, {});
    EXPECT_OK(filter);
    return named_->attributes->Choose(*named_->collection, *filter, std::move(at),
                                      [] { return false; });
  }

  void Compact() {
    ASSERT_OK(named_->collection->Compact({.dead_share_max = 0, .generations_max = 1}));
    ASSERT_OK(named_->attributes->Tidy(*named_->collection, [] { return false; }));
    store::CompactOptions options;
    options.dead_share_max = 0;
    options.small_segments_min = 2;
    ASSERT_OK(named_->store->Compact(named_->store_id, options));
  }

  void Hold() {
    // Evaluate a filter while the epoch is current. Search() evaluates filters at the held epoch
    // later.
    const auto chosen = Choose(DrawFilter(), nullptr);
    ASSERT_OK(chosen);
    held_.push_back({.at = chosen->at, .model = model_});
    if (held_.size() > kHeldMax) held_.pop_front();
  }

  void Search() {
    const bool earlier = !held_.empty() && random_.OneIn(2);
    const Held state =
        earlier ? held_[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(held_.size())))]
                : Held{.at = nullptr, .model = model_};
    ModelQuery asked = {.vector = DrawVector(), .row_id = {}};
    asked.k = static_cast<int32_t>(random_.Between(1, 65));
    if (random_.OneIn(3)) asked.skip = random_.Between(0, 150);
    if (random_.OneIn(4)) asked.score_min = static_cast<float>(random_.Between(-3, 4));
    if (random_.OneIn(5) && !state.model.rows.empty()) {
      const std::vector<uint64_t> ids = state.model.AllIds();
      asked.row_id = random_.OneOf<uint64_t>(ids);
      asked.vector.clear();
    }
    std::vector<uint64_t> passing = state.model.AllIds();
    Query query = {.vector = asked.vector, .row_id = asked.row_id, .k = asked.k};
    query.skip = asked.skip;
    query.score_min = asked.score_min;
    std::shared_ptr<const PinnedEpoch> at = state.at;
    if (random_.OneIn(2)) {
      const FilterTree tree = DrawFilter();
      const auto chosen = Choose(tree, at);
      ASSERT_OK(chosen);
      query.filter = chosen->rows;
      at = chosen->at;
      passing = state.model.Passing(tree, specs_);
      EXPECT_EQ(*named_->collection->CountRows(at.get(), *chosen->rows),
                static_cast<int64_t>(passing.size()));
    }
    SearchBatch batch;
    batch.queries = {query};
    batch.at = at;
    const auto result = engine_->Search(*named_->collection, batch);
    ASSERT_OK(result);
    EXPECT_EQ(result->epoch, state.model.epoch);
    const bool passes_itself =
        asked.row_id && std::find(passing.begin(), passing.end(), *asked.row_id) != passing.end();
    EXPECT_EQ(result->queries[0].rows_matched,
              static_cast<int64_t>(passing.size()) - (passes_itself ? 1 : 0));
    ASSERT_THAT(result->queries[0], BytesEqual(ModelAnswer(spec_, state.model, passing, asked)));
  }

  void Fetch() {
    IdColumn ids;
    for (int i = 0; i < 20; ++i)
      ids.AppendNumber(static_cast<uint64_t>(random_.Between(0, kIdsMax)));
    const auto found = named_->collection->Fetch(ids, {.vectors = true, .payloads = true});
    ASSERT_OK(found);
    int64_t place = 0;
    for (int64_t i = 0; i < ids.size(); ++i) {
      const auto row = model_.rows.find(std::get<uint64_t>(ids.at(i)));
      if (row == model_.rows.end()) continue;
      ASSERT_LT(place, found->ids.size());
      EXPECT_EQ(found->ids.Compare(place, ids, i), 0);
      EXPECT_EQ(found->payloads.at(place), row->second.payload);
      EXPECT_EQ(std::memcmp(found->rows.data() + place * kDim * 4, row->second.values.data(),
                            kDim * sizeof(float)),
                0);
      ++place;
    }
    EXPECT_EQ(place, found->ids.size());
  }

  void Step() {
    const int64_t draw = random_.Between(0, 1000);
    if (draw < 150) return Upload();
    if (draw < 250) return DeleteIds();
    if (draw < 290) return DeleteByFilter();
    if (draw < 330) return Compact();
    if (draw < 400) return Hold();
    if (draw < 402) return Restart();
    if (draw < 460) return Fetch();
    return Search();
  }

  Random random_{testing::TestSeed()};
  const store::TempDir dir_;
  const CollectionSpec spec_ = {.dim = kDim, .metric = Metric::kL2};
  const std::vector<AttributeSpec> specs_ = RandomSpecs(random_);
  const AttributeSchema schema_ = *AttributeSchema::Create(specs_, {});
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Catalog> catalog_;
  std::shared_ptr<NamedCollection> named_;
  RowModel model_;
  std::deque<Held> held_;
  int operation_ = 0;
};

TEST_F(CatalogModelTest, EveryOperationDoesWhatTheMapDoes) {
  for (; operation_ < kOperations; ++operation_) {
    SCOPED_TRACE(operation_);
    Step();
    if (HasFailure()) return;
    const CollectionStats stats = named_->collection->Stats();
    ASSERT_EQ(stats.epoch, model_.epoch);
    ASSERT_EQ(stats.rows_count, static_cast<int64_t>(model_.rows.size()));
  }
}

}  // namespace
}  // namespace nearfield::server

// Tests random changes, searches and restarts of one durable collection against a map and the
// oracle.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/collections/change_schema.h"
#include "server/collections/collection_upload.h"
#include "server/collections/delete_rows.h"
#include "tests/server/catalog_model.h"
#include "tests/testing/answers.h"

namespace nearfield::server {
namespace {

constexpr int kOperations = 10'000;

class CatalogModelTest : public CatalogModel {
 protected:
  void Upload() {
    const auto mode = random_.OneOf<UploadMode>(
        {UploadMode::kInsert, UploadMode::kUpsert, UploadMode::kUpsert, UploadMode::kReplace});
    const int64_t rows_count = random_.Between(mode == UploadMode::kReplace ? 0 : 1, 40);
    const std::string token =
        random_.OneIn(3) ? "token " + std::to_string(operation_) : std::string();
    auto upload = Begin(mode, rows_count, token);
    RowModel::Upload rows;
    for (int64_t row = 0; row < rows_count;) {
      const int64_t block_rows = std::min(rows_count - row, random_.Between(1, 20));
      AppendBlock(block_rows, &rows, upload.get());
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
      if (model_.Accepts(mode, rows)) {
        ASSERT_OK(result);
        model_.Commit(mode, rows);
        EXPECT_EQ(result->epoch, model_.epoch);
        return;
      }
      EXPECT_THAT(result, StatusIs(kAlreadyExists));
    }
    upload = nullptr;
    if (!token.empty()) {
      ASSERT_OK(named_->store->DropUpload({.collection_id = named_->store_id, .token = token}));
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

  void AppendBlock(int64_t rows_count, RowModel::Upload* rows, CollectionUpload* upload) {
    IdColumn ids;
    std::vector<uint8_t> bytes;
    BytesColumn payloads;
    const std::vector<PlainRow> attributes = declared_.DrawRows(random_, rows_count);
    for (const PlainRow& plain : attributes) {
      const auto id = static_cast<uint64_t>(random_.Between(0, kIdsMax));
      const RowModel::Row row = {.vector = testing::StoredVector(DrawVector()),
                                 .payload = std::string(static_cast<size_t>(id % 7), 'p'),
                                 .attributes = plain};
      bytes.insert(bytes.end(), row.vector.begin(), row.vector.end());
      ids.AppendNumber(id);
      payloads.Append(row.payload);
      rows->emplace_back(id, row);
    }
    ASSERT_OK(upload->Append({.ids = &ids, .rows = bytes, .payloads = &payloads},
                             BlockOf(declared_.schema, attributes)));
  }

  void DeleteIds() {
    IdColumn ids;
    for (int64_t count = random_.Between(1, 30); count > 0; --count) {
      ids.AppendNumber(static_cast<uint64_t>(random_.Between(0, kIdsMax)));
    }
    ExpectDeleted(DeleteRows(*named_, ids), model_.Delete(ids));
  }

  void DeleteByFilter() {
    const FilterTree tree = random_.OneIn(3) ? DrawFilter() : And({DrawFilter(), DrawFilter()});
    ASSERT_OK_AND_ASSIGN(const auto chosen, Choose(tree, Now()));
    ExpectDeleted(DeleteRows(*named_, chosen), model_.Delete(Passing(tree, Now())));
  }

  void ExpectDeleted(const absl::StatusOr<DeleteResult>& result, int64_t rows_count) {
    ASSERT_OK(result);
    EXPECT_EQ(result->rows_deleted, rows_count);
    EXPECT_EQ(result->epoch, model_.epoch);
  }

  // Runs updates that wait at the same time: the same as if they came one after the other.
  void Update() {
    std::deque<DrawnUpdate> updates;
    std::vector<UpdateQueue::Place> places;
    for (int64_t count = random_.Between(1, 5); count > 0; --count) {
      const bool with_token = random_.OneIn(3);
      updates.emplace_back(random_, declared_, model_, kIdsMax,
                           with_token ? absl::StrCat("u", random_.Between(0, 50)) : "");
      places.push_back(named_->updates->Add(updates.back().Request()));
    }
    for (size_t i = 0; i < updates.size(); ++i) {
      const std::string token = places[i]->update.token;
      const auto result = named_->updates->Run(*named_, places[i]);
      if (const auto known = tokens_.find(token); !token.empty() && known != tokens_.end()) {
        ASSERT_OK(result);
        EXPECT_EQ(result->first_reply, known->second);
        continue;
      }
      const std::optional<UpdateReply> expected = updates[i].Apply(&model_);
      if (!expected.has_value()) {
        EXPECT_THAT(result, StatusIs(kFailedPrecondition));
        continue;
      }
      ASSERT_OK(result);
      EXPECT_EQ(result->first_reply, "");
      ExpectReply(*result, *expected);
      if (expected->rows_updated > 0) tokens_[token] = absl::StrCat("at ", expected->epoch);
    }
  }

  void ChangeDeclaration() {
    const AttributeSchema changed = declared_.Changed(random_);
    ASSERT_OK_AND_ASSIGN(const uint64_t epoch,
                         ChangeSchema(*named_, [&](const AttributeSchema&) { return changed; }));
    declared_.schema = changed;
    EXPECT_EQ(epoch, ++model_.epoch);
  }

  void Compact() {
    ASSERT_OK(named_->collection->Compact({.dead_share_max = 0, .generations_max = 1}));
    ASSERT_OK(
        named_->attributes->Tidy(*named_->collection, CollectionAttributes::Drop::kMany, Never));
    store::CompactOptions options;
    options.dead_share_max = 0;
    options.small_segments_min = 2;
    ASSERT_OK(named_->store->Compact(named_->store_id, options));
  }

  void Hold() {
    // Evaluate a filter while the epoch is current. Search() evaluates filters at the held epoch
    // later.
    ASSERT_OK_AND_ASSIGN(const auto chosen, Choose(DrawFilter(), Now()));
    held_.push_back({.at = chosen.at, .model = model_, .declared = declared_});
    if (held_.size() > kHeldMax) held_.pop_front();
  }

  void Search() {
    const bool earlier = !held_.empty() && random_.OneIn(2);
    const Held state =
        earlier ? held_[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(held_.size())))]
                : Now();
    std::vector<Id> passing = state.model.Ids();
    const std::vector<float> vector = DrawVector();
    Query query = {.vector = vector, .row_id = {}};
    query.k = static_cast<int32_t>(random_.Between(1, 65));
    if (random_.OneIn(3)) query.skip = random_.Between(0, 150);
    if (random_.OneIn(4)) query.score_threshold = static_cast<float>(random_.Between(-3, 4));
    if (random_.OneIn(5) && !passing.empty()) {
      query.row_id = random_.OneOf<Id>(passing);
      query.vector = {};
    }
    std::shared_ptr<const PinnedEpoch> at = state.at;
    if (random_.OneIn(2)) {
      const FilterTree tree = DrawFilter(state.declared);
      ASSERT_OK_AND_ASSIGN(const auto chosen, Choose(tree, state));
      query.filter = chosen.rows;
      at = chosen.at;
      passing = Passing(tree, state);
      EXPECT_EQ(*named_->collection->CountRows(at.get(), *chosen.rows),
                static_cast<int64_t>(passing.size()));
    }
    if (at == nullptr) at = named_->collection->PinEpoch();
    SearchBatch batch;
    batch.queries = {query};
    batch.at = at;
    batch.parts.ordinals = true;
    ASSERT_OK_AND_ASSIGN(const auto result, engine_->Search(*named_->collection, batch));
    EXPECT_EQ(result.epoch, state.model.epoch);
    const bool passes_itself =
        query.row_id && std::find(passing.begin(), passing.end(), *query.row_id) != passing.end();
    EXPECT_EQ(result.queries[0].matched_rows,
              static_cast<int64_t>(passing.size()) - (passes_itself ? 1 : 0));
    const Neighbors& neighbors = result.queries[0];
    ASSERT_THAT(neighbors, BytesEqual(state.model.Answer(passing, query)));
    ExpectAttributes(*at, neighbors.ids, neighbors.ordinals, state);
  }

  void Fetch() {
    const bool earlier = !held_.empty() && random_.OneIn(2);
    const Held state =
        earlier
            ? held_.front()
            : Held{.at = named_->collection->PinEpoch(), .model = model_, .declared = declared_};
    IdColumn ids;
    for (int i = 0; i < 20; ++i)
      ids.AppendNumber(static_cast<uint64_t>(random_.Between(0, kIdsMax)));
    ASSERT_OK_AND_ASSIGN(
        const auto found,
        named_->collection->Fetch(state.at.get(), ids,
                                  {.vectors = true, .payloads = true, .ordinals = true}));
    EXPECT_EQ(found.epoch, state.model.epoch);
    int64_t place = 0;
    for (int64_t i = 0; i < ids.size(); ++i) {
      const auto row = state.model.rows.find(ids.at(i));
      if (row == state.model.rows.end()) continue;
      ASSERT_LT(place, found.ids.size());
      EXPECT_EQ(found.ids.Compare(place, ids, i), 0);
      EXPECT_EQ(found.payloads.at(place), row->second.payload);
      EXPECT_EQ(std::memcmp(found.rows.data() + place * kDim * 4, row->second.vector.data(),
                            kDim * sizeof(float)),
                0);
      ++place;
    }
    EXPECT_EQ(place, found.ids.size());
    ExpectAttributes(*state.at, found.ids, found.ordinals, state);
  }

  // Reads a state in the order of the ids, in pieces of random sizes.
  void Scan() {
    const bool earlier = !held_.empty() && random_.OneIn(2);
    const Held state =
        earlier
            ? held_[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(held_.size())))]
            : Held{.at = named_->collection->PinEpoch(), .model = model_, .declared = declared_};
    OrderedRead read = {.at = state.at.get(),
                        .parts = {.vectors = true, .payloads = true, .ordinals = true}};
    std::vector<Id> passing = state.model.Ids();
    std::shared_ptr<const RowFilter> filter;
    if (random_.OneIn(2)) {
      const FilterTree tree = DrawFilter(state.declared);
      ASSERT_OK_AND_ASSIGN(const auto chosen, Choose(tree, state));
      filter = chosen.rows;
      read.filter = filter.get();
      passing = Passing(tree, state);
    }
    std::vector<Id> got;
    for (bool ended = false; !ended;) {
      read.rows_max = random_.Between(1, 100);
      read.rows_examined_max = random_.Between(1, 200);
      ASSERT_OK_AND_ASSIGN(const auto piece, named_->collection->ReadInOrder(read));
      EXPECT_EQ(piece.found.epoch, state.model.epoch);
      for (int64_t i = 0; i < piece.found.ids.size(); ++i) {
        const Id id = piece.found.ids.at(i);
        got.push_back(id);
        const RowModel::Row& row = state.model.rows.at(id);
        EXPECT_EQ(piece.found.payloads.at(i), row.payload);
        EXPECT_EQ(std::memcmp(piece.found.rows.data() + i * kDim * 4, row.vector.data(),
                              kDim * sizeof(float)),
                  0);
      }
      ExpectAttributes(*state.at, piece.found.ids, piece.found.ordinals, state);
      read.after = piece.last;
      ended = piece.ended;
    }
    ASSERT_EQ(got, passing);
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
    if (draw < 500) return Scan();
    if (draw < 600) return Update();
    if (draw < 610) return ChangeDeclaration();
    return Search();
  }
};

TEST_P(CatalogModelTest, EveryOperationDoesWhatTheMapDoes) {
  const int operations = testing::RandomRounds(GetParam() == 1 ? kOperations : kOperations / 4);
  for (; operation_ < operations; ++operation_) {
    SCOPED_TRACE(operation_);
    Step();
    if (HasFailure()) return;
    const CollectionStats stats = named_->collection->Stats();
    ASSERT_EQ(stats.epoch, model_.epoch);
    ASSERT_EQ(stats.rows_count, static_cast<int64_t>(model_.rows.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CatalogModelTest, ::testing::Values(1, 2, 3, 5, 8));

}  // namespace
}  // namespace nearfield::server

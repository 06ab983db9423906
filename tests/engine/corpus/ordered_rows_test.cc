// Tests reads in the order of the ids: however a collection came to its state, and however a read
// is divided, it returns the rows of a sorted map.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/row_model.h"

namespace nearfield::testing {
namespace {

using Row = RowModel<>::Row;
using Rows = std::vector<std::pair<Id, Row>>;

// One state of the collection and its model.
struct State {
  std::shared_ptr<const PinnedEpoch> at;
  RowModel<> model;
};

struct Division {
  int64_t rows_max = kRowsMax;
  int64_t bytes_max = 0;
  int64_t rows_examined_max = kRowsMax;
};

class OrderedRowsTest : public ::testing::TestWithParam<IdType> {
 protected:
  OrderedRowsTest() { Keep(); }

  void Keep() { states_.push_back({collection_->PinEpoch(), model_}); }

  // Returns an id of the pool, which is small, so that most uploads replace some rows.
  Id DrawId() { return pool_.at(random_.Between(0, pool_.size())); }
  IdColumn DrawIds(int64_t count) {
    IdColumn ids(GetParam());
    for (int64_t i = 0; i < count; ++i) ids.Append(DrawId());
    return ids;
  }

  absl::Status Send(const RowModel<>::Upload& rows, UploadMode mode) {
    IdColumn ids(GetParam());
    BytesColumn payloads;
    std::vector<uint8_t> bytes;
    for (const auto& [id, row] : rows) {
      ids.Append(id);
      payloads.Append(row.payload);
      bytes.insert(bytes.end(), row.vector.begin(), row.vector.end());
    }
    auto upload = collection_->BeginUpload({.rows_max = std::max<int64_t>(1, ids.size()),
                                            .payload_bytes_max = payloads.value_bytes(),
                                            .mode = mode});
    if (!upload.ok()) return upload.status();
    const absl::Status appended =
        (*upload)->Append({.ids = &ids, .rows = bytes, .payloads = &payloads});
    if (!appended.ok()) return appended;
    return (*upload)->Commit().status();
  }

  RowModel<>::Upload DrawUpload() {
    RowModel<>::Upload rows;
    for (int64_t i = random_.Between(0, 12); i > 0; --i) {
      rows.emplace_back(
          DrawId(), Row{.vector = StoredVector({random_.Gaussian(), 1.0f}),
                        .payload = std::string(static_cast<size_t>(random_.Between(0, 40)), 'p')});
    }
    return rows;
  }

  void Change() {
    const int64_t what = random_.Between(0, 10);
    if (what < 6) {
      const RowModel<>::Upload rows = DrawUpload();
      const UploadMode mode = random_.OneIn(20) ? UploadMode::kReplace : UploadMode::kUpsert;
      if (!model_.Accepts(mode, rows)) return;
      ASSERT_OK(Send(rows, mode));
      model_.Commit(mode, rows);
    } else if (what < 9) {
      const IdColumn ids = DrawIds(random_.Between(0, 8));
      ASSERT_OK(collection_->Delete(ids));
      model_.Delete(ids);
    } else {
      ASSERT_OK(
          collection_->Compact({.dead_share_max = random_.Unit() * 0.9,
                                .generations_max = static_cast<int32_t>(random_.Between(1, 17))}));
    }
    ASSERT_EQ(collection_->Stats().epoch, model_.epoch);
  }

  // Reads to the end, and appends the rows to `rows`.
  void ReadAll(OrderedRead read, const Division& division, Rows* rows) {
    read.parts = {.vectors = true, .payloads = true, .ordinals = true};
    read.parts.bytes_max = division.bytes_max;
    read.rows_examined_max = division.rows_examined_max;
    while (true) {
      read.rows_max = division.rows_max;
      ASSERT_OK_AND_ASSIGN(const OrderedRows piece, collection_->ReadInOrder(read));
      const FetchResult& found = piece.found;
      ASSERT_LE(found.ids.size(), read.rows_max);
      ASSERT_EQ(found.epoch, read.at->epoch());
      for (int64_t i = 0; i < found.ids.size(); ++i) {
        const std::string vector(found.rows.begin() + i * 8, found.rows.begin() + (i + 1) * 8);
        rows->emplace_back(found.ids.at(i),
                           Row{.vector = vector, .payload = std::string(found.payloads.at(i))});
        IdColumn id(GetParam());
        id.AppendFrom(found.ids, i);
        ASSERT_OK_AND_ASSIGN(const RowFilter itself, collection_->RowsWithIds(read.at, id));
        EXPECT_TRUE(itself.Chooses(found.ordinals[static_cast<size_t>(i)]));
      }
      if (piece.ended) return;
      ASSERT_TRUE(piece.last.has_value());
      ASSERT_TRUE(!read.after.has_value() || *piece.last > *read.after) << "no progress";
      read.after = piece.last;
    }
  }

  Division DrawDivision() {
    Division division;
    if (random_.OneIn(2)) division.rows_max = random_.Between(1, 10);
    if (random_.OneIn(3)) division.bytes_max = random_.Between(600, 2000);
    if (random_.OneIn(3)) division.rows_examined_max = random_.Between(1, 10);
    return division;
  }

  // Reads one of the states with a random start, filter and division.
  void ExpectModel(const State& state) {
    OrderedRead read = {.at = state.at.get()};
    if (random_.OneIn(2)) read.after = DrawId();
    const IdColumn chosen = DrawIds(20);
    RowFilter filter;
    if (random_.OneIn(2)) {
      ASSERT_OK_AND_ASSIGN(filter, collection_->RowsWithIds(read.at, chosen));
      read.filter = &filter;
    }
    Rows want;
    for (const auto& [id, row] : state.model.rows) {
      bool passes = read.filter == nullptr;
      for (int64_t i = 0; i < chosen.size(); ++i) passes = passes || chosen.at(i) == id;
      if (passes && (!read.after.has_value() || id > *read.after)) want.emplace_back(id, row);
    }
    Rows got;
    ReadAll(read, DrawDivision(), &got);
    ASSERT_EQ(got, want);
  }

  Random random_{TestSeed()};
  FakeEngine fake_ = MakeFakeEngine();
  const CollectionSpec spec_ = {.dim = 2, .id_type = GetParam()};
  const std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(spec_);
  const IdColumn pool_ = MakeIds(GetParam(), 60, TestSeed());
  RowModel<> model_ = {.spec = spec_};
  std::vector<State> states_;
};

TEST_P(OrderedRowsTest, SmokeAnyDivisionOfAnyStateIsTheSortedMap) {
  for (int step = 0; step < 1000; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    Change();
    if (HasFatalFailure()) return;
    if (random_.OneIn(10)) Keep();
    if (states_.size() > 6) states_.erase(states_.begin());
    ExpectModel({collection_->PinEpoch(), model_});
    ExpectModel(random_.OneOf(absl::MakeConstSpan(states_)));
    if (HasFatalFailure()) return;
  }
}

TEST_P(OrderedRowsTest, ADeletedRowDoesNotHideTheRowThatReplacedIt) {
  // Sixteen rows have this id; only the last is live. A read that ends among them would skip it.
  const Id id = pool_.at(0);
  for (float value = 0; value < 16; ++value) {
    const RowModel<>::Upload rows = {
        {id, {.vector = StoredVector({value, 1.0f})}},
        {pool_.at(1 + static_cast<int64_t>(value)), {.vector = StoredVector({value, 1.0f})}}};
    ASSERT_OK(Send(rows, UploadMode::kUpsert));
    model_.Commit(UploadMode::kUpsert, rows);
  }
  const auto at = collection_->PinEpoch();
  for (int64_t examined = 1; examined < 40; ++examined) {
    Rows got;
    ReadAll({.at = at.get()}, {.rows_examined_max = examined}, &got);
    EXPECT_EQ(got, Rows(model_.rows.begin(), model_.rows.end()));
  }
}

TEST_P(OrderedRowsTest, ARowAboveTheBytesIsRefusedAndNamesThem) {
  const Id id = pool_.at(0);
  ASSERT_OK(Send({{id, {.vector = StoredVector({1, 1}), .payload = std::string(1000, 'p')}}},
                 UploadMode::kInsert));
  OrderedRead read = {.parts = {.payloads = true, .bytes_max = 1000}, .rows_max = 5};
  EXPECT_THAT(collection_->ReadInOrder(read).status(),
              StatusIs(kResourceExhausted, HasSubstr("the limit is 1000")));
  read.parts.bytes_max = 2000;
  ASSERT_OK_AND_ASSIGN(const OrderedRows rows, collection_->ReadInOrder(read));
  EXPECT_EQ(rows.found.ids.size(), 1);
  EXPECT_TRUE(rows.ended);
}

TEST_P(OrderedRowsTest, WrongReadsAreRefused) {
  EXPECT_THAT(collection_->ReadInOrder({.rows_max = 0}).status(),
              StatusIs(kInvalidArgument, HasSubstr("rows_max = 0")));
  EXPECT_THAT(collection_->ReadInOrder({.rows_max = 1, .rows_examined_max = 0}).status(),
              StatusIs(kInvalidArgument, HasSubstr("rows_examined_max = 0")));
  OrderedRead read = {.rows_max = 1};
  read.after = GetParam() == IdType::kUint64 ? Id("x") : Id(uint64_t{7});
  EXPECT_THAT(collection_->ReadInOrder(read).status(), StatusIs(kInvalidArgument));
  const auto other = *fake_.engine->CreateCollection(spec_);
  const auto at = other->PinEpoch();
  EXPECT_THAT(collection_->ReadInOrder({.at = at.get(), .rows_max = 1}).status(),
              StatusIs(kInvalidArgument, HasSubstr("another collection")));
  fake_.device->Lose();
  EXPECT_FALSE(fake_.engine->SelfTest(1).ok());
  EXPECT_THAT(collection_->ReadInOrder({.rows_max = 1}).status(), StatusIs(kUnavailable));
}

INSTANTIATE_TEST_SUITE_P(Ids, OrderedRowsTest, ::testing::Values(IdType::kUint64, IdType::kString));

}  // namespace
}  // namespace nearfield::testing

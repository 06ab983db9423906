// Tests of the attributes of a collection's rows across epochs: rows in use are not dropped,
// dropped rows free their memory, and memory is bounded.
#include "server/collections/collection_attributes.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/status_macros.h"
#include "server/attributes/schema_encoding.h"
#include "server/collections/catalog.h"
#include "server/collections/delete_rows.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Ids;

constexpr int64_t kBatch = 2000;

class CollectionAttributesTest : public ::testing::Test {
 protected:
  CollectionAttributesTest() : CollectionAttributesTest(int64_t{1} << 30) {}
  explicit CollectionAttributesTest(int64_t memory_bytes)
      : shared_(std::make_shared<AttributeShared>(
            AttributeShared::Limits{.memory_bytes = memory_bytes, .cache_bytes = 1 << 20})),
        attributes_(std::make_unique<CollectionAttributes>(schema_, shared_)) {}

  // Uploads rows [first, first + kBatch), each with "n" = its id.
  absl::Status Upload(uint64_t first, const std::function<void()>& before_commit = nullptr) {
    std::vector<uint64_t> ids;
    std::vector<PlainRow> rows;
    for (uint64_t id = first; id < first + kBatch; ++id) {
      ids.push_back(id);
      rows.push_back({.attributes = {std::vector<PlainValue>{static_cast<int64_t>(id)}}});
    }
    AttributeUpload attributes(attributes_.get());
    ABSL_RETURN_IF_ERROR(attributes.Append(BlockOf(schema_, rows)));
    const testing::Corpus corpus = testing::PlainRows(ids, std::vector<float>(ids.size(), 1));
    auto upload = *collection_->BeginUpload({.rows_max = kBatch});
    ABSL_RETURN_IF_ERROR(upload->Append({.ids = &corpus.ids, .rows = corpus.rows}));
    ABSL_RETURN_IF_ERROR(attributes.Add(*upload->TakeOrdinals()));
    if (before_commit) before_commit();
    ABSL_RETURN_IF_ERROR(upload->Commit().status());
    attributes.Finalize(true);
    return absl::OkStatus();
  }

  absl::Status Tidy(CollectionAttributes::Drop drop = CollectionAttributes::Drop::kMany) {
    return attributes_->Tidy(*collection_, drop, Never);
  }

  void DeleteBelow(int64_t end) {
    const ChosenRows rows = *Choose(Compare("n", Comparison::kLess, Integers({end})), nullptr);
    ASSERT_OK(collection_->DeleteRows(*rows.rows, nullptr));
  }

  absl::StatusOr<ChosenRows> Choose(const FilterTree& tree, std::shared_ptr<const PinnedEpoch> at) {
    return attributes_->Choose(*collection_, Filter(tree, schema_), std::move(at), Never);
  }
  int64_t CountAt(const FilterTree& tree, std::shared_ptr<const PinnedEpoch> at) {
    const ChosenRows chosen = *Choose(tree, std::move(at));
    return *collection_->CountRows(chosen.at.get(), *chosen.rows);
  }

  const AttributeSchema schema_ = *AttributeSchema::Create({{.name = "n"}}, {});
  testing::FakeEngine fake_ = testing::MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(testing::kPlainSpec);
  std::shared_ptr<AttributeShared> shared_;
  std::unique_ptr<CollectionAttributes> attributes_;
};

TEST_F(CollectionAttributesTest, DeadRowsGiveTheirMemoryBackOnceNobodyHoldsThem) {
  for (uint64_t batch = 0; batch < 4; ++batch) ASSERT_OK(Upload(batch * kBatch));
  ASSERT_OK(Tidy());
  const int64_t full = attributes_->bytes();
  EXPECT_EQ(shared_->memory_bytes, full);
  const FilterTree low = Compare("n", Comparison::kLess, Integers({100}));
  std::shared_ptr<const PinnedEpoch> held = Choose(low, nullptr)->at;
  DeleteBelow(3 * kBatch);
  ASSERT_OK(Tidy());
  EXPECT_EQ(attributes_->bytes(), full) << "an earlier epoch shows them";
  EXPECT_EQ(CountAt(low, nullptr), 0);
  EXPECT_EQ(CountAt(low, held), 100);
  EXPECT_EQ(CountAt(Not(low), held), 4 * kBatch - 100);
  held = nullptr;
  ASSERT_OK(Tidy());
  EXPECT_LT(attributes_->bytes(), full / 2);
  EXPECT_EQ(shared_->memory_bytes, attributes_->bytes());
  EXPECT_EQ(CountAt(Not(low), nullptr), kBatch);
  attributes_ = nullptr;
  EXPECT_EQ(shared_->memory_bytes, 0);
}

TEST_F(CollectionAttributesTest, FewDeadRowsGoWithAWholeTidyOrOnceMemoryIsScarce) {
  constexpr int64_t kFewDead = 1010;  // more than half of their chunk
  ASSERT_OK(Upload(0));
  const int64_t full = attributes_->bytes();
  DeleteBelow(kFewDead);
  ASSERT_OK(Tidy());
  EXPECT_EQ(attributes_->bytes(), full) << "they are few";
  ASSERT_OK(Tidy(CollectionAttributes::Drop::kAll));
  EXPECT_LT(attributes_->bytes(), full);

  // The same, while another collection takes half of the memory.
  attributes_ = nullptr;
  shared_ = std::make_shared<AttributeShared>(
      AttributeShared::Limits{.memory_bytes = 6 * full, .cache_bytes = 1 << 20});
  shared_->memory_bytes += 3 * full;
  attributes_ = std::make_unique<CollectionAttributes>(schema_, shared_);
  collection_ = *fake_.engine->CreateCollection(testing::kPlainSpec);
  ASSERT_OK(Upload(0));
  DeleteBelow(kFewDead);
  ASSERT_OK(Tidy());
  EXPECT_LT(attributes_->bytes(), full);
  shared_->Release(3 * full);
}

// A page without a filter pins the epoch, and a filtered search of the same epoch pins it
// separately. The next filtered page must find the rows through the first pin.
TEST_F(CollectionAttributesTest, AnEpochThatAnyoneHoldsKeepsItsRows) {
  ASSERT_OK(Upload(0));
  const FilterTree low = Compare("n", Comparison::kLess, Integers({100}));
  const std::shared_ptr<const PinnedEpoch> kept = collection_->PinEpoch();
  EXPECT_EQ(CountAt(low, nullptr), 100);
  auto replacement = *collection_->BeginUpload({.rows_max = 1, .mode = UploadMode::kReplace});
  ASSERT_OK(replacement->Commit());
  ASSERT_OK(Tidy());
  EXPECT_EQ(CountAt(low, nullptr), 0);
  EXPECT_EQ(CountAt(low, kept), 100);
  EXPECT_EQ(CountAt(Compare("n", Comparison::kLess, Integers({200})), kept), 200);
}

TEST_F(CollectionAttributesTest, AnUploadThatFailsLeavesNothing) {
  ASSERT_OK(Upload(0));
  const int64_t bytes = attributes_->bytes();
  EXPECT_THAT(Upload(1), StatusIs(kAlreadyExists));
  EXPECT_EQ(shared_->memory_bytes, bytes);
  {
    AttributeUpload given_up(attributes_.get());
    ASSERT_OK(given_up.Append(BlockOf(schema_, {{{.attributes = {std::nullopt}}}})));
    ASSERT_OK(given_up.Add(1'000'000));
    EXPECT_EQ(Choose(Not(Exists("n")), nullptr)->rows->chosen.back(), 1u);
  }
  EXPECT_EQ(CountAt(Not(Exists("n")), nullptr), 0);
  EXPECT_TRUE(Choose(Not(Exists("n")), nullptr)->rows->chosen.empty());
  EXPECT_EQ(shared_->memory_bytes, attributes_->bytes());
}

// With several callers, some upload was always between adding its attributes and its commit. Dead
// rows were searched for only while no upload was there, so they stayed forever.
TEST_F(CollectionAttributesTest, DeadRowsAreDroppedWhileAnUploadCommits) {
  for (uint64_t batch = 0; batch < 3; ++batch) ASSERT_OK(Upload(batch * kBatch));
  const int64_t full = attributes_->bytes();
  DeleteBelow(3 * kBatch);
  ASSERT_OK(Upload(3 * kBatch, [&] {
    ASSERT_OK(Tidy());
    EXPECT_LT(attributes_->bytes(), full / 2);
  }));
  EXPECT_EQ(CountAt(Exists("n"), nullptr), kBatch);
  EXPECT_EQ(CountAt(Compare("n", Comparison::kLess, Integers({3 * kBatch + 7})), nullptr), 7);
}

// The rows of an upload are indexed before they are visible. A choice made before that excludes
// them, even if they are deleted afterwards.
TEST_F(CollectionAttributesTest, RowsThatBecomeVisibleAfterTheChoiceAreNotDeleted) {
  ASSERT_OK(Upload(0));
  const FilterTree all = Exists("n");
  ChosenRows chosen;
  ASSERT_OK(Upload(kBatch, [&] { chosen = *Choose(all, nullptr); }));
  NamedCollection named;
  named.collection = collection_;
  named.changed = [] {};
  ASSERT_OK_AND_ASSIGN(const auto deleted, DeleteRows(named, chosen));
  EXPECT_EQ(deleted.rows_deleted, kBatch);
  EXPECT_EQ(CountAt(all, nullptr), kBatch);
  EXPECT_EQ(CountAt(Compare("n", Comparison::kLess, Integers({kBatch})), nullptr), 0);
}

class CollectionAttributesMemoryTest : public CollectionAttributesTest {
 protected:
  CollectionAttributesMemoryTest() : CollectionAttributesTest(100'000) {}
};

TEST_F(CollectionAttributesMemoryTest, AnUploadBeyondTheMemoryIsRefusedWithBothNumbers) {
  ASSERT_OK(Upload(0));
  absl::Status status;
  uint64_t uploads = 1;
  for (; status.ok(); ++uploads) status = Upload(uploads * kBatch);
  EXPECT_THAT(status, FailsWith(kResourceExhausted, "attribute_memory_bytes = 100000"));
  EXPECT_LE(shared_->memory_bytes, 100'000);
  EXPECT_EQ(CountAt(Exists("n"), nullptr), static_cast<int64_t>(uploads - 1) * kBatch);
}

TEST(SchemaEncodingTest, EverySchemaComesBackAndNothingElseIsTaken) {
  testing::Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const std::string encoded = EncodeSchema(*AttributeSchema::Create(specs, {}));
    ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeSchema(encoded));
    ASSERT_EQ(decoded.size(), static_cast<int32_t>(specs.size()));
    for (int32_t i = 0; i < decoded.size(); ++i) {
      EXPECT_EQ(decoded.at(i), specs[static_cast<size_t>(i)]);
    }
    if (encoded.empty()) continue;
    std::string damaged = encoded;
    damaged[static_cast<size_t>(random.Between(0, static_cast<int64_t>(damaged.size())))] =
        static_cast<char>(random.Between(0, 256));
    if (random.OneIn(2)) damaged.resize(damaged.size() - 1);
    const auto other = DecodeSchema(damaged);
    if (other.ok()) {
      EXPECT_EQ(EncodeSchema(*other), damaged);
    } else {
      EXPECT_THAT(other, FailsWith(kDataLoss, "attribute schema"));
    }
  }
}

}  // namespace
}  // namespace nearfield::server

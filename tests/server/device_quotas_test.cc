// Tests of the limit of device memory of each principal, over the real engine and store.
#include "server/collections/device_quotas.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/durable_rows.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

class DeviceQuotasTest : public DurableCatalogFixture {
 protected:
  NamedCollectionPtr MakeOf(const std::string& owner, const std::string& name) {
    const auto named = catalog_->Create(name, {.dim = kDim}, {}, owner);
    EXPECT_OK(named);
    return *named;
  }
  static int64_t BytesOf(const NamedCollection& named, int64_t rows) {
    return named.collection->UploadDeviceBytes(rows).value();
  }
  static absl::StatusOr<std::unique_ptr<CollectionUpload>> Begin(const NamedCollectionPtr& named,
                                                                 int64_t rows_max) {
    return CollectionUpload::Begin(named, {.reservation = {.rows_max = rows_max}});
  }
  void Limit(const std::string& principal, int64_t bytes_max) {
    quotas_.SetLimits({.bytes_max = {{principal, bytes_max}}});
  }
  int64_t UsedBy(const std::string& principal) {
    for (const DeviceQuotas::Use& use : quotas_.Uses()) {
      if (use.principal == principal) return use.bytes;
    }
    return 0;
  }
  const uint64_t seed_ = testing::TestSeed();
};

TEST_F(DeviceQuotasTest, AnUploadTakesExactlyWhatItIsCharged) {
  for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (const int32_t dim : {1, 8, 100, 700}) {
      const CollectionSpec spec = {.dim = dim, .row_type = type};
      ASSERT_OK_AND_ASSIGN(const auto named, catalog_->Create("c", spec, {}, "x"));
      for (const int64_t rows : {1, 7, 1000}) {
        const int64_t before = engine_->GetCapacity().device_bytes_used;
        ASSERT_OK_AND_ASSIGN(const auto upload, Begin(named, rows));
        EXPECT_EQ(engine_->GetCapacity().device_bytes_used - before, BytesOf(*named, rows));
        EXPECT_EQ(UsedBy("x"), BytesOf(*named, rows));
      }
      EXPECT_EQ(UsedBy("x"), 0);
      ASSERT_OK(catalog_->Drop("c"));
    }
  }
}

TEST_F(DeviceQuotasTest, TheLimitIsThatOfAllCollectionsOfTheOwner) {
  const auto a = MakeOf("x", "a");
  const auto b = MakeOf("x", "b");
  const auto of_other = MakeOf("y", "c");
  const auto of_nobody = MakeOf("", "d");
  Limit("x", BytesOf(*a, 100));
  Upload(a, 0, 60, seed_);
  EXPECT_THAT(Begin(b, 41),
              FailsWith(kResourceExhausted, "begin.rows_max", "principal x",
                        std::to_string(BytesOf(*b, 41)), std::to_string(BytesOf(*a, 60)),
                        std::to_string(BytesOf(*a, 100))));
  {
    ASSERT_OK_AND_ASSIGN(const auto running, Begin(b, 40));
    EXPECT_THAT(Begin(a, 1), StatusIs(kResourceExhausted));
    Upload(of_other, 0, 1000, seed_);
    Upload(of_nobody, 0, 1000, seed_);
  }
  EXPECT_OK(Begin(a, 40));  // the running one has ended without a commit
  Upload(b, 0, 40, seed_);
  EXPECT_EQ(UsedBy("x"), BytesOf(*a, 100));
  EXPECT_THAT(Begin(a, 1), StatusIs(kResourceExhausted));
}

TEST_F(DeviceQuotasTest, DropsAndCompactedDeletionsGiveBytesBack) {
  auto a = MakeOf("x", "a");
  Limit("x", 2 * BytesOf(*a, 1000));
  Upload(a, 0, 1000, seed_);
  Upload(a, 1000, 2000, seed_);
  EXPECT_THAT(Begin(a, 1), StatusIs(kResourceExhausted));
  Delete(*a, 0, 1500);  // never refused, although it takes bits
  ASSERT_OK_AND_ASSIGN(auto done, a->collection->Compact({.dead_share_max = 0}));
  while (!done.done) {
    ASSERT_OK_AND_ASSIGN(done, a->collection->Compact({.dead_share_max = 0}));
  }
  EXPECT_EQ(UsedBy("x"), BytesOf(*a, 500));
  EXPECT_OK(Begin(a, 1500));
  ASSERT_OK(catalog_->Drop("a"));
  EXPECT_EQ(UsedBy("x"), BytesOf(*a, 500)) << "a holder still reads the rows";
  a = nullptr;
  EXPECT_EQ(UsedBy("x"), 0);
  EXPECT_OK(Begin(MakeOf("x", "b"), 2000));
}

// The rows are loaded whatever the limit, and only then uploads are refused.
TEST_F(DeviceQuotasTest, ARestartWithALowerLimitLoadsEverything) {
  const auto bytes = BytesOf(*MakeOf("x", "a"), 1000);
  Upload(*catalog_->Find("a"), 0, 1000, seed_);
  MakeOf("", "b");
  const std::string before = Answer(**catalog_->Find("a"));
  Limit("x", 10);
  Open();
  const auto a = *catalog_->Find("a");
  EXPECT_EQ(Answer(*a), before);
  EXPECT_EQ(a->owner, "x");
  EXPECT_EQ((*catalog_->Find("b"))->owner, "");
  EXPECT_EQ(UsedBy("x"), bytes);
  EXPECT_THAT(Begin(a, 1), StatusIs(kResourceExhausted));
  Delete(*a, 0, 10);
  Limit("x", bytes + BytesOf(*a, 10) + 1000);  // and room for the bits of deleted rows
  EXPECT_OK(Begin(a, 10));
}

TEST_F(DeviceQuotasTest, TheDefaultHoldsForPrincipalsWithoutALimitOfTheirOwn) {
  const auto a = MakeOf("x", "a");
  const auto b = MakeOf("y", "b");
  EXPECT_OK(Begin(a, 10000));  // no limits were set yet
  quotas_.SetLimits(
      {.bytes_max_default = BytesOf(*a, 10), .bytes_max = {{"y", BytesOf(*b, 20)}, {"z", 5}}});
  EXPECT_OK(Begin(a, 10));
  EXPECT_THAT(Begin(a, 11), StatusIs(kResourceExhausted));
  EXPECT_OK(Begin(b, 20));
  EXPECT_THAT(Begin(b, 21), StatusIs(kResourceExhausted));
  std::vector<std::string> uses;
  for (const DeviceQuotas::Use& use : quotas_.Uses()) {
    uses.push_back(use.principal + " " + std::to_string(use.bytes_max));
  }
  EXPECT_THAT(uses, ElementsAre("x " + std::to_string(BytesOf(*a, 10)),
                                "y " + std::to_string(BytesOf(*b, 20)), "z 5"));
}

// Whatever uploads run at once, their principal never holds more than its limit, and each upload
// that fits when it is alone is accepted in the end. Until a commit returns, its row may count
// twice: as that of the upload and of the collection.
TEST_F(DeviceQuotasTest, ConcurrentUploadsNeverExceedTheLimit) {
  constexpr int kThreads = 4;
  constexpr int kUploads = 40;  // with 100 rows on average, under a limit of 500
  std::vector<NamedCollectionPtr> collections;
  for (int i = 0; i < kThreads; ++i) collections.push_back(MakeOf("x", "c" + std::to_string(i)));
  const int64_t bytes_max = BytesOf(*collections[0], 500);
  Limit("x", bytes_max);
  const int64_t counted_max = bytes_max + kThreads * BytesOf(*collections[0], 1);
  const auto held = [&collections] {
    int64_t bytes = 0;
    for (const NamedCollectionPtr& named : collections) {
      bytes += named->collection->Stats().device_bytes;
    }
    return bytes;
  };
  const auto expect_within_limit = [&] {
    EXPECT_LE(held(), bytes_max);
    EXPECT_LE(UsedBy("x"), counted_max);
  };
  std::atomic<int> running{kThreads};
  const auto work = [&](int thread) {
    testing::Random random(seed_ + static_cast<uint64_t>(thread));
    const NamedCollectionPtr& named = collections[static_cast<size_t>(thread)];
    for (int i = 0; i < kUploads; ++i) {
      const int64_t rows = random.Between(1, 200);
      const auto upload = Begin(named, rows);
      expect_within_limit();
      if (!upload.ok() || random.OneIn(2)) continue;  // refused, or left before its commit
      const IdColumn ids = IdColumn::OfNumbers({static_cast<uint64_t>(i)});
      const std::vector<uint8_t> row(kDim * sizeof(float));
      EXPECT_OK((*upload)->Append({.ids = &ids, .rows = row}, {.rows_count = 1}));
      EXPECT_OK((*upload)->Commit());
      expect_within_limit();
    }
    --running;
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  while (running > 0) expect_within_limit();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(UsedBy("x"), held());
  EXPECT_THAT(Begin(collections[0], 501), StatusIs(kResourceExhausted));
  EXPECT_OK(Begin(collections[0], 500 - held() / BytesOf(*collections[0], 1)));
}

}  // namespace
}  // namespace nearfield::server

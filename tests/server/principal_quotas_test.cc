// Tests of what each principal may hold, over the real engine and store.
#include "server/collections/principal_quotas.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/collections/snapshots.h"
#include "server/collections/update_queue.h"
#include "tests/server/durable_rows.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

class PrincipalQuotasTest : public DurableCatalogFixture {
 protected:
  NamedCollectionPtr MakeOf(const std::string& owner, const std::string& name) {
    const auto named = catalog_->Create(name, {.dim = kDim}, {}, owner);
    EXPECT_OK(named);
    return *named;
  }
  static int64_t BytesOf(const NamedCollection& named, int64_t rows) {
    return named.collection->UploadBytes({.rows_max = rows}).value().device;
  }
  static absl::StatusOr<std::unique_ptr<CollectionUpload>> Begin(const NamedCollectionPtr& named,
                                                                 int64_t rows_max) {
    return CollectionUpload::Begin(named, {.reservation = {.rows_max = rows_max}});
  }
  static QuotaAmounts Amount(Quota quota, int64_t amount) {
    QuotaAmounts amounts;
    amounts[quota] = amount;
    return amounts;
  }
  void Limit(const std::string& principal, int64_t amount_max, Quota quota = Quota::kDeviceBytes) {
    quotas_.SetLimits({.defaults = {}, .own = {{principal, Amount(quota, amount_max)}}});
  }
  int64_t UsedBy(const std::string& principal, Quota quota = Quota::kDeviceBytes) {
    for (const PrincipalQuotas::Use& use : quotas_.Uses()) {
      if (use.principal == principal) return use.used[quota];
    }
    return 0;
  }
  const uint64_t seed_ = testing::TestSeed();
};

TEST_F(PrincipalQuotasTest, AnUploadTakesExactlyWhatItIsCharged) {
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

TEST_F(PrincipalQuotasTest, TheLimitIsThatOfAllCollectionsOfTheOwner) {
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

TEST_F(PrincipalQuotasTest, DropsAndCompactedDeletionsGiveBytesBack) {
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
TEST_F(PrincipalQuotasTest, ARestartWithALowerLimitLoadsEverything) {
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

TEST_F(PrincipalQuotasTest, TheDefaultHoldsForPrincipalsWithoutALimitOfTheirOwn) {
  const auto a = MakeOf("x", "a");
  const auto b = MakeOf("y", "b");
  EXPECT_OK(Begin(a, 10000));  // no limits were set yet
  quotas_.SetLimits({.defaults = Amount(Quota::kDeviceBytes, BytesOf(*a, 10)),
                     .own = {{"y", Amount(Quota::kDeviceBytes, BytesOf(*b, 20))},
                             {"z", Amount(Quota::kDeviceBytes, 5)}}});
  EXPECT_OK(Begin(a, 10));
  EXPECT_THAT(Begin(a, 11), StatusIs(kResourceExhausted));
  EXPECT_OK(Begin(b, 20));
  EXPECT_THAT(Begin(b, 21), StatusIs(kResourceExhausted));
  std::vector<std::string> uses;
  for (const PrincipalQuotas::Use& use : quotas_.Uses()) {
    uses.push_back(use.principal + " " + std::to_string(use.max[Quota::kDeviceBytes]));
  }
  EXPECT_THAT(uses, ElementsAre("x " + std::to_string(BytesOf(*a, 10)),
                                "y " + std::to_string(BytesOf(*b, 20)), "z 5"));
}

// Whatever uploads run at once, their principal never holds more than its limit, and each upload
// that fits when it is alone is accepted in the end. Until a commit returns, its row may count
// twice: as that of the upload and of the collection.
TEST_F(PrincipalQuotasTest, ConcurrentUploadsNeverExceedTheLimit) {
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

// A principal with 300 KB of device memory filled the host memory of all with payloads.
TEST_F(PrincipalQuotasTest, PayloadsCountAsHostMemory) {
  const auto a = MakeOf("x", "a");
  const UploadReservation large = {.rows_max = 10, .payload_bytes_max = 1 << 20};
  const int64_t bytes = a->collection->UploadBytes(large).value().host;
  EXPECT_GT(bytes, 1 << 20);
  const auto begin = [&] { return CollectionUpload::Begin(a, {.reservation = large}); };
  Limit("x", bytes - 1, Quota::kHostBytes);
  EXPECT_THAT(begin(), FailsWith(kResourceExhausted, "begin.payload_bytes_max", "principal x",
                                 std::to_string(bytes), "principal_host_bytes"));
  Limit("x", bytes, Quota::kHostBytes);
  const int64_t before = engine_->GetCapacity().host_bytes_used;
  ASSERT_OK_AND_ASSIGN(const auto upload, begin());
  EXPECT_EQ(engine_->GetCapacity().host_bytes_used - before, bytes);
  EXPECT_EQ(UsedBy("x", Quota::kHostBytes), bytes);
  EXPECT_THAT(begin(), StatusIs(kResourceExhausted));
  EXPECT_OK(CollectionUpload::Begin(MakeOf("y", "b"), {.reservation = large}));
}

TEST_F(PrincipalQuotasTest, CommittedRowsCountAsHostMemoryAndDisk) {
  const auto a = MakeOf("x", "a");
  Upload(a, 0, 1000, seed_);
  EXPECT_EQ(UsedBy("x", Quota::kHostBytes), a->collection->Stats().host_bytes);
  const int64_t on_disk = a->store->Collections().front().bytes;
  EXPECT_GT(on_disk, int64_t{1000} * kDim * 4);
  EXPECT_EQ(UsedBy("x", Quota::kDiskBytes), on_disk);
  const int64_t more = store::UploadBytes(a->collection->spec(), 10, 0);
  Limit("x", on_disk + more - 1, Quota::kDiskBytes);
  EXPECT_THAT(Begin(a, 10), FailsWith(kResourceExhausted, "principal_disk_bytes"));
  Limit("x", on_disk + more, Quota::kDiskBytes);
  EXPECT_OK(Begin(a, 10));
  ASSERT_OK(catalog_->Drop("a"));
  EXPECT_EQ(UsedBy("x", Quota::kDiskBytes), 0);
}

// The durable blocks of an upload whose stream ended count until it is dropped, and an upload that
// just fits can be resumed.
TEST_F(PrincipalQuotasTest, AnOpenUploadCountsAsDiskAndCanBeResumed) {
  const auto a = MakeOf("x", "a");
  const BeginUploadRequest request = {
      .reservation = {.rows_max = 100}, .token = "t", .check_caller = nullptr};
  const int64_t whole = store::UploadBytes(a->collection->spec(), 100, 0);
  Limit("x", whole, Quota::kDiskBytes);
  {
    ASSERT_OK_AND_ASSIGN(const auto upload, CollectionUpload::Begin(a, request));
    EXPECT_EQ(UsedBy("x", Quota::kDiskBytes), whole);
    const IdColumn ids = IdColumn::OfNumbers({7});
    const std::vector<uint8_t> row(kDim * sizeof(float));
    ASSERT_OK(upload->Append({.ids = &ids, .rows = row}, {.rows_count = 1}));
  }
  const int64_t durable = UsedBy("x", Quota::kDiskBytes);
  EXPECT_GT(durable, 0);
  EXPECT_LT(durable, whole);
  EXPECT_THAT(Begin(a, 100), StatusIs(kResourceExhausted));
  {
    ASSERT_OK_AND_ASSIGN(const auto upload, CollectionUpload::Begin(a, request));
    EXPECT_EQ(upload->place().rows_count, 1);
    EXPECT_EQ(UsedBy("x", Quota::kDiskBytes), whole);
  }
  ASSERT_OK(a->store->DropUpload({.collection_id = a->store_id, .token = "t"}));
  EXPECT_EQ(UsedBy("x", Quota::kDiskBytes), 0);
}

TEST_F(PrincipalQuotasTest, AttributesCountAsTheyArriveAndAfterTheCommit) {
  ASSERT_OK_AND_ASSIGN(
      const auto schema,
      AttributeSchema::Create({{.name = "text", .type = AttributeType::kKeyword}}, {}));
  ASSERT_OK_AND_ASSIGN(const auto a, catalog_->Create("a", {.dim = kDim}, schema, "x"));
  const auto append = [&](CollectionUpload& upload, uint64_t id) {
    const IdColumn ids = IdColumn::OfNumbers({id});
    const std::vector<uint8_t> row(kDim * sizeof(float));
    AttributeBlock block = EmptyBlock(schema);
    block.rows_count = 1;
    block.columns[0].present = {true};
    block.columns[0].values.AppendKeyword(std::string(200, 'x'));
    return upload.Append({.ids = &ids, .rows = row}, block);
  };
  ASSERT_OK_AND_ASSIGN(auto upload, Begin(a, 3));
  const int64_t empty = UsedBy("x", Quota::kAttributeBytes);
  EXPECT_EQ(empty, a->attributes->bytes());
  ASSERT_OK(append(*upload, 1));
  const int64_t one = UsedBy("x", Quota::kAttributeBytes);
  EXPECT_GT(one, empty + 200);
  Limit("x", one, Quota::kAttributeBytes);
  EXPECT_THAT(append(*upload, 2), FailsWith(kResourceExhausted, "block.attributes", "principal x",
                                            "principal_attribute_bytes"));
  upload = nullptr;
  EXPECT_EQ(UsedBy("x", Quota::kAttributeBytes), empty);
  ASSERT_OK_AND_ASSIGN(upload, Begin(a, 3));
  ASSERT_OK(append(*upload, 1));
  ASSERT_OK(upload->Commit());
  EXPECT_EQ(UsedBy("x", Quota::kAttributeBytes), a->attributes->bytes());
  EXPECT_GT(a->attributes->bytes(), empty);
}

// Errors named fields of an upload.
TEST_F(PrincipalQuotasTest, AnUpdateThatNeedsMoreNamesItsOwnFields) {
  ASSERT_OK_AND_ASSIGN(
      const auto schema,
      AttributeSchema::Create({{.name = "text", .type = AttributeType::kKeyword}}, {}));
  ASSERT_OK_AND_ASSIGN(const auto a, catalog_->Create("a", {.dim = kDim}, schema, "x"));
  {
    ASSERT_OK_AND_ASSIGN(const auto upload, Begin(a, 1));
    const IdColumn ids = IdColumn::OfNumbers({7});
    const std::vector<uint8_t> row(kDim * sizeof(float));
    AttributeBlock block = EmptyBlock(schema);
    block.rows_count = 1;
    block.columns[0].present = {false};
    ASSERT_OK(upload->Append({.ids = &ids, .rows = row}, block));
    ASSERT_OK(upload->Commit());
  }
  const std::string payload(10'000, 'p');
  const auto run = [&](bool attributes, bool payloads) {
    RowUpdate update;
    update.ids.AppendNumber(7);
    if (attributes) {
      update.attributes.push_back({.changed = {true}, .column = EmptyColumn(schema.at(0))});
      update.attributes[0].column.present = {true};
      update.attributes[0].column.values.AppendKeyword(std::string(1000, 'x'));
    }
    if (payloads) update.payloads = {&payload};
    update.dead = [] { return absl::OkStatus(); };
    return a->updates->Run(*a, a->updates->Add(std::move(update))).status();
  };
  const auto refused = [](const std::string& field, const std::string& setting) {
    return StatusIs(kResourceExhausted, AllOf(StartsWith(field + ": "), HasSubstr(setting)));
  };
  Limit("x", UsedBy("x", Quota::kAttributeBytes), Quota::kAttributeBytes);
  EXPECT_THAT(run(true, false), refused("attributes", "principal_attribute_bytes"));
  Limit("x", UsedBy("x", Quota::kHostBytes), Quota::kHostBytes);
  EXPECT_THAT(run(false, true), refused("payloads.payloads", "principal_host_bytes"));
  Limit("x", UsedBy("x", Quota::kDiskBytes), Quota::kDiskBytes);
  EXPECT_THAT(run(true, false), refused("attributes", "principal_disk_bytes"));
  EXPECT_THAT(run(true, true), refused("payloads.payloads", "principal_disk_bytes"));
}

// An admin of some collections made collections and aliases until no other caller could.
TEST_F(PrincipalQuotasTest, CollectionsAndAliasesAreLimited) {
  QuotaAmounts two = Amount(Quota::kCollections, 2);
  two[Quota::kAliases] = 2;
  quotas_.SetLimits({.defaults = {}, .own = {{"x", two}}});
  MakeOf("x", "a");
  MakeOf("x", "b");
  EXPECT_THAT(catalog_->Create("c", {.dim = kDim}, {}, "x"),
              FailsWith(kResourceExhausted, "name", "principal x", "principal_collections"));
  MakeOf("y", "c");
  ASSERT_OK(catalog_->SetAlias("a1", "a", "x"));
  ASSERT_OK(catalog_->SetAlias("a2", "c", "x"));
  EXPECT_THAT(catalog_->SetAlias("a3", "a", "x"),
              FailsWith(kResourceExhausted, "alias", "principal x", "principal_aliases"));
  ASSERT_OK(catalog_->SetAlias("a3", "a", "y"));
  ASSERT_OK(catalog_->SetAlias("a3", "b", "x")) << "moves an alias of y";
  EXPECT_EQ(UsedBy("x", Quota::kAliases), 2);
  Open();  // owners survive a restart
  EXPECT_EQ(UsedBy("x", Quota::kCollections), 2);
  EXPECT_EQ(UsedBy("x", Quota::kAliases), 2);
  EXPECT_EQ(UsedBy("y", Quota::kAliases), 1);
  EXPECT_THAT(catalog_->SetAlias("a4", "a", "x"), StatusIs(kResourceExhausted));
  ASSERT_OK(catalog_->DropAlias("a1"));
  ASSERT_OK(catalog_->SetAlias("a4", "a", "x"));
  ASSERT_OK(catalog_->Drop("c"));  // with the alias a2
  EXPECT_EQ(UsedBy("x", Quota::kAliases), 1);
  ASSERT_OK(catalog_->Drop("a"));
  EXPECT_EQ(UsedBy("x", Quota::kCollections), 1);
  EXPECT_EQ(UsedBy("x", Quota::kAliases), 0);
  MakeOf("x", "a");
  Open();
  EXPECT_EQ(UsedBy("x", Quota::kAliases), 0);
}

TEST_F(PrincipalQuotasTest, SnapshotsAreLimited) {
  Limit("x", 1, Quota::kSnapshots);
  MakeOf("x", "a");
  const SnapshotPlace place = {.store = catalog_->store(),
                               .dir = dir_ / "snapshots",
                               .snapshots_max = 10,
                               .quotas = &quotas_};
  const auto create = [&](const std::string& name, const std::string& owner) {
    return CreateSnapshot(place, name, {.owner = owner, .cancelled = Never});
  };
  ASSERT_OK_AND_ASSIGN(const SnapshotInfo first, create("one", "x"));
  EXPECT_EQ(first.owner, "x");
  EXPECT_THAT(create("two", "x"),
              FailsWith(kResourceExhausted, "name", "principal x", "principal_snapshots"));
  ASSERT_OK(create("two", "y"));
  ASSERT_OK(create("three", ""));
  ASSERT_OK(DeleteSnapshot(place, "one"));
  ASSERT_OK(create("four", "x"));
}

}  // namespace
}  // namespace nearfield::server

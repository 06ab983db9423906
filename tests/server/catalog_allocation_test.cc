// Tests changes of the catalog while any allocation fails: memory and the store stay consistent.
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/durable_rows.h"
#include "tests/testing/allocation_failure.h"

namespace nearfield::server {
namespace {

using testing::AllocationFailure;

class CatalogAllocationTest : public DurableCatalogFixture {
 protected:
  // Pairs of a collection's name and "", and of an alias and its collection.
  using Names = std::vector<std::pair<std::string, std::string>>;

  Names InMemory() const {
    Names names;
    for (const auto& named : catalog_->List()) names.emplace_back(named->name, "");
    for (const auto& [alias, named] : catalog_->ListAliases()) {
      names.emplace_back(alias, named->name);
    }
    return names;
  }
  Names InStore() const {
    Names names;
    Names aliases;
    for (const store::StoredCollection& stored : catalog_->store()->Collections()) {
      names.emplace_back(stored.name, "");
      for (const std::string& alias : stored.aliases) aliases.emplace_back(alias, stored.name);
    }
    names.insert(names.end(), aliases.begin(), aliases.end());
    return names;
  }

  // Calls `call` with its 1st, 2nd, .. allocation failing, until a call makes fewer allocations.
  // Calls `undo` after each call that returned OK.
  void FailEach(const std::function<absl::Status()>& call, const std::function<void()>& undo) {
    bool failed = true;
    for (int64_t n = 1; failed; ++n) {
      ASSERT_LT(n, 5000) << "allocates without end";
      const Names before = InStore();
      absl::Status status;
      {
        const AllocationFailure failure(n);
        status = call();
        failed = failure.happened();
      }
      ASSERT_EQ(InMemory(), InStore()) << "allocation " << n << ", " << status;
      if (status.ok()) {
        undo();
      } else {
        ASSERT_TRUE(failed && absl::IsResourceExhausted(status)) << n << ": " << status;
        ASSERT_EQ(InStore(), before) << "allocation " << n << ", " << status;
      }
    }
  }
};

// The store had committed the collection when memory ran out for its entry in the catalog. The name
// was taken, and no call could use or drop it before the next start.
TEST_F(CatalogAllocationTest, ACollectionIsCreatedInMemoryAndInTheStoreOrInNeither) {
  FailEach([&] { return catalog_->Create("b", {.dim = kDim}).status(); },
           [&] {
             ASSERT_OK_AND_ASSIGN(const auto named, catalog_->Find("b"));
             EXPECT_EQ(named->incarnation, catalog_->store()->IncarnationOf(named->store_id));
             ASSERT_OK(catalog_->Drop("b"));
           });
}

// Regression: the name was copied after the quota was taken, and its release waited for itself.
TEST_F(CatalogAllocationTest, ACollectionOfAPrincipalIsCreatedOrNot) {
  const std::string owner(40, 'p');
  FailEach([&] { return catalog_->Create("new", {.dim = kDim}, {}, owner).status(); },
           [&] { ASSERT_OK(catalog_->Drop("new")); });
  for (const PrincipalQuotas::Use& use : quotas_.Uses()) {
    EXPECT_EQ(use.used[Quota::kCollections], 0) << use.principal;
  }
}

TEST_F(CatalogAllocationTest, ACollectionIsDroppedFromBothOrFromNeither) {
  const auto make = [&] {
    Make("b");
    ASSERT_OK(catalog_->SetAlias("live", "b"));
  };
  make();
  FailEach([&] { return catalog_->Drop("b").status(); }, make);
}

// An alias named the new collection in the store, and still the old one in memory.
TEST_F(CatalogAllocationTest, AnAliasIsSetInBothOrInNeither) {
  Make("a");
  Make("b");
  ASSERT_OK(catalog_->SetAlias("live", "a"));
  FailEach([&] { return catalog_->SetAlias("live", "b").status(); },
           [&] { ASSERT_OK(catalog_->SetAlias("live", "a")); });
  FailEach([&] { return catalog_->SetAlias("new", "b").status(); },
           [&] { ASSERT_OK(catalog_->DropAlias("new")); });
  FailEach([&] { return catalog_->DropAlias("live").status(); },
           [&] { ASSERT_OK(catalog_->SetAlias("live", "a")); });
}

// The segment was sealed before its attributes were indexed. If the process then ended because
// memory ran out, the next start moved the segment to lost/, because it might have been committed.
TEST_F(CatalogAllocationTest, AnUploadWhoseAttributesFindNoMemoryIsNotSetAsideByTheNextStart) {
  const AttributeSchema schema = *AttributeSchema::Create({{.name = "n"}}, {});
  ASSERT_OK_AND_ASSIGN(const auto named, catalog_->Create("a", {.dim = kDim}, schema));
  ASSERT_OK_AND_ASSIGN(auto upload, CollectionUpload::Begin(named, {.reservation = {.rows_max = 1},
                                                                    .check_caller = nullptr}));
  const IdColumn ids = IdColumn::OfNumbers({1});
  const std::vector<uint8_t> rows(kDim * sizeof(float), 1);
  const std::vector<PlainRow> plain = {{.attributes = {std::vector<PlainValue>{int64_t{7}}}}};
  ASSERT_OK(upload->Append({.ids = &ids, .rows = rows}, BlockOf(schema, plain)));
  {
    const AllocationFailure first(1);
    ASSERT_THAT(upload->Commit(), StatusIs(kResourceExhausted));
  }
  const std::string copy = dir_ / "as a death leaves it";
  std::filesystem::copy(dir_ / "data", copy);
  ASSERT_OK_AND_ASSIGN(const auto next, store::Store::Open({.dir = copy}));
  EXPECT_THAT(next->orphans().set_aside, IsEmpty());
  EXPECT_EQ(next->orphans().unfinished_count, 1);
}

// The two halves of a block allocate on a thread each.
TEST_F(CatalogAllocationTest, ABlockWithoutMemoryEndsItsUploadAndNoOther) {
  const AttributeSchema schema = *AttributeSchema::Create({{.name = "n"}}, {});
  ASSERT_OK_AND_ASSIGN(const auto named, catalog_->Create("a", {.dim = kDim}, schema));
  const IdColumn ids = IdColumn::OfNumbers({1});
  const std::vector<uint8_t> rows(kDim * sizeof(float), 1);
  const std::vector<PlainRow> plain = {{.attributes = {std::vector<PlainValue>{int64_t{7}}}}};
  const AttributeBlock attributes = BlockOf(schema, plain);
  bool failed = true;
  for (int64_t n = 1; failed; ++n) {
    ASSERT_LT(n, 5000) << "allocates without end";
    ASSERT_OK_AND_ASSIGN(
        const auto upload,
        CollectionUpload::Begin(named, {.reservation = {.rows_max = 1}, .check_caller = nullptr}));
    absl::Status status;
    {
      const AllocationFailure failure(n, AllocationFailure::Threads::kAll);
      status = upload->Append({.ids = &ids, .rows = rows}, attributes);
      failed = failure.happened();
    }
    if (!status.ok()) {
      ASSERT_TRUE(failed && absl::IsResourceExhausted(status)) << n << ": " << status;
    } else if (!failed) {
      EXPECT_EQ(upload->Commit()->rows_count, 1);
    }
  }
}

}  // namespace
}  // namespace nearfield::server

#include "server/collections/catalog.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/collections/collection_upload.h"
#include "tests/server/prelude.h"
#include "tests/testing/scripted_engine.h"

namespace nearfield::server {
namespace {

TEST(CollectionNameTest, AcceptsExactlyThePattern) {
  for (const std::string& name :
       {std::string("a"), std::string("9"), std::string("A.b-c_d"), std::string(63, 'x')}) {
    EXPECT_OK(ValidateCollectionName(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string(64, 'x'), std::string("-a"), std::string(".a"),
        std::string("_a"), std::string("a b"), std::string("a/b"), std::string("../a"),
        std::string("a\n"), std::string("\xc3\xa4"), std::string("a\0b", 3)}) {
    EXPECT_THAT(ValidateCollectionName(name), StatusIs(kInvalidArgument)) << name;
  }
}

TEST(CollectionNameTest, AMessageNeverCarriesControlCharacters) {
  const std::string message(ValidateCollectionName("a\r\nfake log line\x1b").message());
  for (const char c : message) EXPECT_GE(c, ' ');
}

class CatalogTest : public ::testing::Test {
 protected:
  std::shared_ptr<testing::EngineScript> script_ = std::make_shared<testing::EngineScript>();
  std::unique_ptr<Engine> engine_ = testing::MakeScriptedEngine(script_);
  Catalog catalog_{{.engine = engine_.get(), .store = nullptr}, /*collections_max=*/2};
  const CollectionSpec spec_{.dim = 4};
};

TEST_F(CatalogTest, CreatesFindsListsAndDrops) {
  ASSERT_OK(catalog_.Create("b", spec_));
  ASSERT_OK(catalog_.Create("a", spec_));
  EXPECT_THAT(catalog_.Create("a", spec_), FailsWith(kAlreadyExists, "\"a\""));
  EXPECT_THAT(catalog_.Create("c", spec_), FailsWith(kResourceExhausted, "limit"));
  ASSERT_EQ(catalog_.List().size(), 2u);
  EXPECT_EQ(catalog_.List().front()->name, "a");
  EXPECT_EQ((*catalog_.Find("b"))->collection->spec().dim, 4);
  ASSERT_OK(catalog_.Drop("b"));
  EXPECT_THAT(catalog_.Find("b"), StatusIs(kNotFound));
  EXPECT_THAT(catalog_.Drop("b"), FailsWith(kNotFound, "\"b\""));
  EXPECT_OK(catalog_.Create("c", spec_));
}

// Regression: a client that had created the collection looked whether it was empty, and then
// dropped the rows of a second client.
TEST_F(CatalogTest, ADropIfEmptySparesOpenUploadsRowsAndOtherIncarnations) {
  const NamedCollectionPtr a = *catalog_.Create("a", spec_);
  const DropCondition if_empty = {.only_if_empty = true, .incarnation = a->incarnation};
  EXPECT_THAT(catalog_.Drop("a", {.incarnation = a->incarnation + 1}),
              FailsWith(kFailedPrecondition, "incarnation"));
  {
    auto upload = *CollectionUpload::Begin(a, {.reservation = {.rows_max = 1}});
    EXPECT_THAT(catalog_.Drop("a", if_empty), FailsWith(kFailedPrecondition, "an open upload"));
  }
  ASSERT_OK(catalog_.Drop("a", if_empty));
  EXPECT_THAT(CollectionUpload::Begin(a, {.reservation = {.rows_max = 1}}).status(),
              FailsWith(kNotFound, "was dropped"));
}

TEST_F(CatalogTest, ADroppedCollectionLivesAsLongAsItsLastUser) {
  std::weak_ptr<Collection> memory;
  {
    const std::shared_ptr<NamedCollection> user = *catalog_.Create("a", spec_);
    memory = user->collection;
    ASSERT_OK(catalog_.Drop("a"));
    EXPECT_TRUE(user->dropped.load());
    EXPECT_FALSE(memory.expired());
    // The name is free immediately for another collection.
    EXPECT_NE((*catalog_.Create("a", spec_))->collection, user->collection);
  }
  EXPECT_TRUE(memory.expired());
}

TEST_F(CatalogTest, AnAliasIsAnotherNameUntilItIsDroppedOrItsCollectionIs) {
  const std::shared_ptr<NamedCollection> a = *catalog_.Create("a", spec_);
  const std::shared_ptr<NamedCollection> b = *catalog_.Create("b", spec_);
  ASSERT_OK_AND_ASSIGN(const auto first, catalog_.SetAlias("live", "a"));
  EXPECT_EQ(first.now, a);
  EXPECT_EQ(first.before, nullptr);
  EXPECT_EQ(*catalog_.Find("live"), a);
  EXPECT_EQ(*catalog_.FindAny("live"), a);
  ASSERT_OK_AND_ASSIGN(const auto moved, catalog_.SetAlias("live", "b"));
  EXPECT_EQ(moved.now, b);
  EXPECT_EQ(moved.before, a);
  EXPECT_EQ(*catalog_.Find("live"), b);
  // An alias of an alias refers to its collection, not to the alias.
  ASSERT_OK(catalog_.SetAlias("next", "live"));
  ASSERT_OK(catalog_.SetAlias("live", "a"));
  EXPECT_EQ(*catalog_.Find("next"), b);
  EXPECT_EQ(catalog_.ListAliases(), (Catalog::Aliases{{"live", a}, {"next", b}}));
  EXPECT_EQ(*catalog_.DropAlias("next"), b);
  EXPECT_THAT(catalog_.Find("next"), StatusIs(kNotFound));
  EXPECT_EQ(*catalog_.Find("b"), b);
  ASSERT_OK(catalog_.Drop("a"));
  EXPECT_THAT(catalog_.Find("live"), StatusIs(kNotFound));
  EXPECT_THAT(catalog_.ListAliases(), IsEmpty());
  EXPECT_OK(catalog_.Create("live", spec_)) << "the name is free again";
}

TEST_F(CatalogTest, ANameIsOfOneThingOnly) {
  ASSERT_OK(catalog_.Create("a", spec_));
  ASSERT_OK(catalog_.SetAlias("live", "a"));
  EXPECT_THAT(catalog_.Create("live", spec_),
              FailsWith(kAlreadyExists, "alias of the collection \"a\""));
  EXPECT_THAT(catalog_.SetAlias("a", "a"), StatusIs(kAlreadyExists));
  EXPECT_THAT(catalog_.Drop("live"),
              FailsWith(kFailedPrecondition, "alias of the collection \"a\""));
  EXPECT_THAT(catalog_.DropAlias("a"), StatusIs(kNotFound));
  EXPECT_THAT(catalog_.SetAlias("other", "gone"), StatusIs(kNotFound));
  for (const std::string name : {"", "a/b", "..", "../a", "-x", "a b"}) {
    EXPECT_THAT(catalog_.SetAlias(name, "a"), FailsWith(kInvalidArgument, "alias: ")) << name;
  }
  EXPECT_OK(catalog_.Find("live"));
}

TEST_F(CatalogTest, AliasesAreBounded) {
  ASSERT_OK(catalog_.Create("a", spec_));
  for (int64_t i = 0; i < kAliasesMax; ++i) {
    ASSERT_OK(catalog_.SetAlias("alias" + std::to_string(i), "a"));
  }
  EXPECT_THAT(catalog_.SetAlias("more", "a"), FailsWith(kResourceExhausted, "1024"));
  EXPECT_OK(catalog_.SetAlias("alias7", "a")) << "one that is there already";
  ASSERT_OK(catalog_.DropAlias("alias7"));
  EXPECT_OK(catalog_.SetAlias("more", "a"));
}

TEST_F(CatalogTest, AMovingAliasAlwaysNamesOneOfTheTwo) {
  const std::shared_ptr<NamedCollection> a = *catalog_.Create("a", spec_);
  const std::shared_ptr<NamedCollection> b = *catalog_.Create("b", spec_);
  ASSERT_OK(catalog_.SetAlias("live", "a"));
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        ASSERT_OK_AND_ASSIGN(const auto found, catalog_.Find("live"));
        ASSERT_TRUE(found == a || found == b);
        ASSERT_EQ(catalog_.ListAliases().size(), 1u);
      }
    });
  }
  for (int i = 0; i < 2000; ++i) ASSERT_OK(catalog_.SetAlias("live", i % 2 == 0 ? "b" : "a"));
  done = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(CatalogTest, OfManyCreationsOfOneNameExactlyOneSucceeds) {
  std::atomic<int> created{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { created += catalog_.Create("same", spec_).ok() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created, 1);
}

}  // namespace
}  // namespace nearfield::server

#include "server/catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/scripted_engine.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::absl_testing::StatusIs;
using ::testing::HasSubstr;

TEST(CollectionNameTest, AcceptsExactlyThePattern) {
  for (const std::string& name :
       {std::string("a"), std::string("9"), std::string("A.b-c_d"), std::string(63, 'x')}) {
    EXPECT_OK(ValidateCollectionName(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string(64, 'x'), std::string("-a"), std::string(".a"),
        std::string("_a"), std::string("a b"), std::string("a/b"), std::string("../a"),
        std::string("a\n"), std::string("\xc3\xa4"), std::string("a\0b", 3)}) {
    EXPECT_THAT(ValidateCollectionName(name), StatusIs(absl::StatusCode::kInvalidArgument)) << name;
  }
}

TEST(CollectionNameTest, AMessageNeverCarriesControlCharacters) {
  const std::string message(ValidateCollectionName("a\r\nfake log line\x1b").message());
  for (const char c : message) EXPECT_GE(c, ' ');
}

class CatalogTest : public ::testing::Test {
 protected:
  std::shared_ptr<EngineScript> script_ = std::make_shared<EngineScript>();
  std::unique_ptr<Engine> engine_ = MakeScriptedEngine(script_);
  Catalog catalog_{engine_.get(), /*collections_max=*/2};
  const CollectionSpec spec_{.dim = 4};
};

TEST_F(CatalogTest, CreatesFindsListsAndDrops) {
  ASSERT_OK(catalog_.Create("b", spec_));
  ASSERT_OK(catalog_.Create("a", spec_));
  EXPECT_THAT(catalog_.Create("a", spec_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("\"a\"")));
  EXPECT_THAT(catalog_.Create("c", spec_),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit")));
  ASSERT_EQ(catalog_.List().size(), 2u);
  EXPECT_EQ(catalog_.List().front()->name, "a");
  EXPECT_EQ((*catalog_.Find("b"))->collection->spec().dim, 4);
  ASSERT_OK(catalog_.Drop("b"));
  EXPECT_THAT(catalog_.Find("b"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(catalog_.Drop("b"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"b\"")));
  EXPECT_OK(catalog_.Create("c", spec_));
}

TEST_F(CatalogTest, ADroppedCollectionLivesAsLongAsItsLastUser) {
  std::weak_ptr<Collection> memory;
  {
    const std::shared_ptr<NamedCollection> user = *catalog_.Create("a", spec_);
    memory = user->collection;
    ASSERT_OK(catalog_.Drop("a"));
    EXPECT_TRUE(user->dropped.load());
    EXPECT_FALSE(memory.expired());
    // The name is free at once, for another collection.
    EXPECT_NE((*catalog_.Create("a", spec_))->collection, user->collection);
  }
  EXPECT_TRUE(memory.expired());
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

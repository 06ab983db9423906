// Tests commits when SQLite runs out of memory, and then the error that reports it does too.
#include <sqlite3.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/store/store.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/allocation_failure.h"

namespace nearfield::store {
namespace {

using testing::AllocationFailure;

// Size of one part of the index of the log. SQLite adds a part in the COMMIT that makes the log
// longer than the existing parts cover, after it has written the log.
constexpr int kLogIndexBytes = 32768;

sqlite3_mem_methods next = {};
int64_t left = 0;    // allocations of SQLite until the one that fails; 0: none fails
int only_bytes = 0;  // only allocations of this size count; 0: all
std::optional<AllocationFailure> follows;

// Returns whether this allocation of SQLite fails. If so, the next one of operator new fails too.
bool Fails(int bytes) {
  if (left == 0 || (only_bytes != 0 && bytes != only_bytes) || --left > 0) return false;
  follows.emplace(1);
  return true;
}
void* Malloc(int bytes) { return Fails(bytes) ? nullptr : next.xMalloc(bytes); }
void* Realloc(void* memory, int bytes) {
  return Fails(bytes) ? nullptr : next.xRealloc(memory, bytes);
}

// Configures SQLite before its first use.
const bool configured = [] {
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &next) != SQLITE_OK) return false;
  sqlite3_mem_methods failing = next;
  failing.xMalloc = Malloc;
  failing.xRealloc = Realloc;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) == SQLITE_OK;
}();

class StoreCommitMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(configured);
    Open();
  }
  void Open() {
    store_ = nullptr;
    StoreOptions options = {.dir = dir_ / "data", .log_pages_max = 1'000'000};
    options.on_fatal = [this](const absl::Status& status) {
      EXPECT_TRUE(absl::IsInternal(status));
      ++fatal_;
    };
    auto opened = Store::Open(options);
    ASSERT_OK(opened);
    store_ = *std::move(opened);
  }
  // Creates a collection that takes many pages of the log. The n-th allocation of SQLite fails,
  // counting only those of `bytes` bytes if that is not 0.
  absl::Status Create(const std::string& name, int64_t n, int bytes) {
    const std::string schema(bytes == 0 ? 1 : kSchemaBytesMax, 's');
    left = n;
    only_bytes = bytes;
    absl::Status status = store_->CreateCollection(name, {.dim = 1}, schema).status();
    left = 0;
    failed_ = follows.has_value();
    follows.reset();
    return status;
  }
  bool Has(const std::string& name) const {
    for (const StoredCollection& collection : store_->Collections()) {
      if (collection.name == name) return true;
    }
    return false;
  }

  const TempDir dir_;
  std::unique_ptr<Store> store_;
  int fatal_ = 0;
  bool failed_ = false;
};

TEST_F(StoreCommitMemoryTest, AChangeWithoutMemoryForItsErrorHasNotHappened) {
  failed_ = true;
  for (int64_t n = 1; failed_; ++n) {
    ASSERT_LT(n, 5000) << "allocates without end";
    const std::string name = "c" + std::to_string(n);
    const absl::Status status = Create(name, n, 0);
    ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << n << ": " << status;
    EXPECT_EQ(Has(name), status.ok()) << n;
    Open();
    EXPECT_EQ(Has(name), status.ok()) << n;
  }
  EXPECT_EQ(fatal_, 0);
}

// A COMMIT of unknown outcome was reported as RESOURCE_EXHAUSTED, "nothing changed", if memory also
// ran out for its error. The process continued without the change that the log has.
TEST_F(StoreCommitMemoryTest, ACommitOfUnknownOutcomeEndsTheProcessAlsoWithoutMemoryForItsError) {
  absl::Status status;
  for (int64_t n = 1; n < 100 && !failed_; ++n) {
    status = Create("c" + std::to_string(n), 1, kLogIndexBytes);
  }
  ASSERT_TRUE(failed_) << "no COMMIT made the index of the log longer";
  EXPECT_EQ(fatal_, 1);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  Open();
}

}  // namespace
}  // namespace nearfield::store

// Tests concurrent uploads into several collections, deletes, loads, compactions and snapshots.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/store/store.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

constexpr int kWriters = 3;

// Uploads blocks of one row each with unique ids, and deletes every second row again.
void Write(Store& store, int64_t collection, int64_t commits) {
  uint64_t epoch = 0;
  for (int64_t i = 0; i < commits; ++i) {
    const auto writer = store.BeginUpload(collection, {.bytes_expected = 10'000});
    ASSERT_OK(writer);
    const IdColumn ids = IdColumn::OfNumbers({static_cast<uint64_t>(i)});
    const std::vector<uint8_t> row(16, static_cast<uint8_t>(i));
    ASSERT_OK((*writer)->Append({.number = 0, .ids = &ids, .rows = row}));
    ASSERT_OK((*writer)->Sync());
    ASSERT_OK(store.CommitUpload(writer->get(), {.epoch = ++epoch}));
    if (i % 2 == 1) {
      ASSERT_OK(store.CommitDelete(collection, ++epoch, ids));
    }
  }
}

TEST(StoreConcurrencyTest, EveryLoadSeesAWholeStateAndNothingIsLost) {
  const TempDir dir;
  StoreOptions options = {.dir = dir / "data", .free_bytes_min = 0, .log_pages_max = 16};
  options.on_fatal = [](const absl::Status& status) { ADD_FAILURE() << status; };
  const auto opened = Store::Open(options);
  ASSERT_OK(opened);
  Store& store = **opened;
  constexpr int64_t kCommits = 40;
  std::vector<int64_t> collections;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    collections.push_back(*store.CreateCollection("c" + std::to_string(i), {.dim = 4}, ""));
  }
  std::atomic<bool> done{false};
  for (const int64_t id : collections)
    threads.emplace_back([&, id] { Write(store, id, kCommits); });
  std::thread reader([&] {
    for (size_t i = 0; !done; ++i) {
      int64_t rows = 0;
      ASSERT_OK(store.Load(collections[i % collections.size()],
                           [&rows](const StoredBlock& block) {
                             for (int64_t r = 0; r < block.ids->size(); ++r) {
                               EXPECT_EQ(block.rows[static_cast<size_t>(r) * 16],
                                         static_cast<uint8_t>(block.ids->number(r)));
                             }
                             rows += block.ids->size();
                             return absl::OkStatus();
                           },
                           {}));
      EXPECT_LE(rows, kCommits);
    }
  });
  std::thread compacter([&] {
    for (size_t i = 0; !done; ++i) {
      const int64_t id = collections[i % collections.size()];
      ASSERT_OK(store.Compact(id, {.small_segments_min = 3}));
    }
  });
  std::thread backup([&] {
    int i = 0;
    do {
      ASSERT_OK(store.Snapshot(dir / ("snapshot-" + std::to_string(i++))));
    } while (!done);
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  compacter.join();
  backup.join();
  for (const StoredCollection& collection : store.Collections()) {
    EXPECT_EQ(collection.rows_count, kCommits / 2);
    EXPECT_EQ(collection.epoch, static_cast<uint64_t>(kCommits + kCommits / 2));
  }
  EXPECT_OK(store.Verify());
  EXPECT_OK(Store::Restore(dir / "snapshot-0", dir / "restored"));
}

}  // namespace
}  // namespace nearfield::store

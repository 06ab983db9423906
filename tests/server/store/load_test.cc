// Tests Load: it returns all live rows, verified, for any number of threads and any block sizes, or
// an error.
#include <filesystem>
#include <fstream>
#include <vector>

#include "server/store/store.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::store {
namespace {

class StoreLoadTest : public ::testing::Test {
 protected:
  StoreLoadTest() : tested_(dir_ / "data") {
    id_ = tested_.Create("a", 1);
    for (int64_t number = 1; number <= 12; ++number) {
      EXPECT_OK(tested_.Upload("a", number));
      if (number % 3 == 0) {
        EXPECT_OK(tested_.Delete("a", number));
      }
    }
  }

  // Loads the ids in order, and counts the blocks.
  absl::Status LoadIds(const LoadOptions& options, std::vector<Id>* ids) {
    return tested_.store().Load(
        id_,
        [ids](const StoredBlock& block) {
          for (int64_t i = 0; i < block.ids->size(); ++i) ids->push_back(block.ids->at(i));
          return absl::OkStatus();
        },
        options);
  }

  const TempDir dir_;
  ModelStore tested_;
  int64_t id_ = 0;
};

TEST_F(StoreLoadTest, ThreadsAndReadSizesGiveTheSameRowsInTheSameOrder) {
  std::vector<Id> expected;
  ASSERT_OK(LoadIds({.threads = 1}, &expected));
  EXPECT_EQ(expected.size(), tested_.model().collections.at("a").rows.size());
  for (const int32_t threads : {1, 2, 5}) {
    for (const int64_t read_bytes : {1, 3000, 1 << 20}) {
      std::vector<Id> found;
      ASSERT_OK(LoadIds({.threads = threads, .read_bytes = read_bytes}, &found));
      EXPECT_EQ(found, expected) << threads << " threads, " << read_bytes << " bytes";
    }
  }
}

TEST_F(StoreLoadTest, ProgressEndsAtTheWhole) {
  LoadProgress last;
  LoadOptions options = {.read_bytes = 1000};
  int64_t calls = 0;
  options.progress = [&](const LoadProgress& progress) {
    EXPECT_GT(progress.bytes_read, last.bytes_read);
    last = progress;
    ++calls;
  };
  std::vector<Id> ids;
  ASSERT_OK(LoadIds(options, &ids));
  EXPECT_GT(calls, 1);
  EXPECT_EQ(last.bytes_read, last.bytes_total);
  EXPECT_EQ(last.bytes_total, tested_.store().Collections().front().bytes);
  EXPECT_EQ(last.rows_read, tested_.store().Collections().front().rows_stored);
}

TEST_F(StoreLoadTest, EndsWhenCancelledOrRefused) {
  LoadOptions options = {.read_bytes = 1};
  int64_t asked = 0;
  options.cancelled = [&asked] { return ++asked == 3; };
  std::vector<Id> ids;
  EXPECT_THAT(LoadIds(options, &ids), StatusIs(kCancelled));
  EXPECT_THAT(tested_.store().Load(
                  id_, [](const StoredBlock&) { return absl::OutOfRangeError("enough"); }, {}),
              StatusIs(kOutOfRange));
  EXPECT_THAT(
      tested_.store().Load(id_ + 50, [](const StoredBlock&) { return absl::OkStatus(); }, {}),
      StatusIs(kNotFound));
}

TEST_F(StoreLoadTest, ABadByteIsNamedByFileBlockAndPlace) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "data")) {
    if (entry.path().extension() == ".seg") files.push_back(entry.path());
  }
  testing::Random random(testing::TestSeed());
  for (int i = 0; i < 40; ++i) {
    const auto& path = files[random.Bits() % files.size()];
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
    const int64_t at = random.Between(4096, size);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char old = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(old ^ 0x10));
    file.flush();
    std::vector<Id> ids;
    EXPECT_THAT(LoadIds({}, &ids),
                FailsWith(kDataLoss, path.filename().string(), "block", "bytes ["))
        << "byte " << at;
    EXPECT_THAT(tested_.store().Verify(), StatusIs(kDataLoss));
    file.seekp(at);
    file.put(old);
  }
  EXPECT_OK(tested_.store().Verify());
}

TEST_F(StoreLoadTest, RowsThatWentWithoutARecordAreMissed) {
  // A caller that deletes absent ids makes the count wrong, and Load reports it.
  IdColumn ids = fault::DeletedBy(tested_.model().collections.at("a"), 77);
  IdColumn twice(ids.type());
  twice.AppendFrom(ids, 0);
  twice.AppendFrom(ids, 0);
  ASSERT_OK(
      tested_.store().CommitDelete(id_, tested_.model().collections.at("a").epoch + 1, twice));
  std::vector<Id> found;
  EXPECT_THAT(LoadIds({}, &found), FailsWith(kDataLoss, "live rows"));
}

TEST_F(StoreLoadTest, ADropDoesNotDisturbALoadThatBegan) {
  bool dropped = false;
  int64_t rows = 0;
  ASSERT_OK(tested_.store().Load(id_,
                                 [&](const StoredBlock& block) {
                                   if (!dropped) {
                                     EXPECT_OK(tested_.store().DropCollection(id_));
                                   }
                                   dropped = true;
                                   rows += block.ids->size();
                                   return absl::OkStatus();
                                 },
                                 {.threads = 1, .read_bytes = 1}));
  EXPECT_EQ(rows, static_cast<int64_t>(tested_.model().collections.at("a").rows.size()));
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "data")) {
    EXPECT_NE(entry.path().extension(), ".seg") << entry.path();
  }
}

}  // namespace
}  // namespace nearfield::store

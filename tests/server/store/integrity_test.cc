// Tests that rows and tokens survive concurrent operations, and that damage is reported. Each test
// covers one check of the store that no other test of the store covers.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "server/store/segment_format.h"
#include "server/store/store.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

// One block of rows with one element each.
struct PlainBlock {
  PlainBlock(const std::vector<uint64_t>& row_ids, float value)
      : ids(IdColumn::OfNumbers(row_ids)), rows(row_ids.size(), value) {}

  StoredBlock View() const {
    return {.ids = &ids,
            .rows = {reinterpret_cast<const uint8_t*>(rows.data()), rows.size() * sizeof(float)}};
  }

  IdColumn ids;
  std::vector<float> rows;
};

class StoreIntegrityTest : public ::testing::Test {
 protected:
  StoreIntegrityTest() { Open(dir_ / "data"); }

  void Open(const std::string& dir) {
    store_ = nullptr;
    auto opened = Store::Open({.dir = dir,
                               .on_fatal = [](const absl::Status& status) { FAIL() << status; },
                               .free_bytes_min = 0,
                               .upload_idle_s_max = 100,
                               .unix_seconds = [this] { return now_.load(); },
                               .steady_seconds = [this] { return now_.load(); }});
    ASSERT_OK(opened);
    store_ = *std::move(opened);
  }
  int64_t Create() { return *store_->CreateCollection("a", {.dim = 1}, ""); }

  // Upserts the rows in the next commit. `replaced`: ids that have rows already.
  void Upsert(int64_t collection, const PlainBlock& block, uint64_t epoch,
              const std::vector<uint64_t>& replaced = {}) {
    const auto writer = store_->BeginUpload(collection, {.mode = UploadMode::kUpsert});
    ASSERT_OK(writer);
    ASSERT_OK((*writer)->Append(block.View()));
    ASSERT_OK((*writer)->Sync());
    const IdColumn ids = IdColumn::OfNumbers(replaced);
    ASSERT_OK(store_->CommitUpload(writer->get(), {.epoch = epoch, .replaced_ids = &ids}));
  }

  absl::StatusOr<std::map<uint64_t, float>> Rows(int64_t collection) {
    std::map<uint64_t, float> rows;
    const absl::Status loaded = store_->Load(
        collection,
        [&rows](const StoredBlock& block) {
          for (int64_t i = 0; i < block.ids->size(); ++i) {
            std::memcpy(&rows[block.ids->number(i)],
                        block.rows.data() + static_cast<size_t>(i) * sizeof(float), sizeof(float));
          }
          return absl::OkStatus();
        },
        {});
    if (!loaded.ok()) return loaded;
    return rows;
  }

  std::string OnlySegment(const std::string& dir) const {
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      if (entry.path().extension() == ".seg") return entry.path();
    }
    return "";
  }

  static std::vector<uint64_t> Ids(uint64_t count) {
    std::vector<uint64_t> ids(count);
    for (uint64_t i = 0; i < count; ++i) ids[i] = i;
    return ids;
  }

  const TempDir dir_;
  std::atomic<int64_t> now_{1000};
  std::unique_ptr<Store> store_;
};

// A stream that was silent for the idle time lost its upload to the next one that began.
TEST_F(StoreIntegrityTest, AnIdleUploadThatAStreamStillWritesStays) {
  const int64_t id = Create();
  const auto writer = store_->BeginUpload(id, {.token = "slow"});
  ASSERT_OK(writer);
  now_ += 101;
  ASSERT_OK(store_->BeginUpload(id, {.token = "next"}));
  ASSERT_OK((*writer)->Append(PlainBlock({1, 2}, 0.5f).View()));
  ASSERT_OK((*writer)->Sync());
  EXPECT_OK(store_->CommitUpload(writer->get(), {.epoch = 1}));
  EXPECT_EQ(Rows(id)->size(), 2u);
}

// The file of an upload is made without the lock, so another stream may take the token meanwhile.
TEST_F(StoreIntegrityTest, OneOfManyStreamsThatBeginATokenTogetherGetsIt) {
  constexpr int kStreams = 6;
  const int64_t id = Create();
  for (int round = 0; round < 10; ++round) {
    const std::string token = "t" + std::to_string(round);
    std::latch start(kStreams);
    std::atomic<int> begun{0};
    std::vector<std::unique_ptr<SegmentWriter>> writers(kStreams);
    std::vector<std::thread> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.emplace_back([&, i] {
        start.arrive_and_wait();
        auto writer = store_->BeginUpload(id, {.token = token});
        if (writer.ok()) {
          ++begun;
          writers[static_cast<size_t>(i)] = *std::move(writer);
        } else {
          EXPECT_THAT(writer.status(), StatusIs(kAlreadyExists));
        }
      });
    }
    for (std::thread& stream : streams) stream.join();
    EXPECT_EQ(begun, 1);
  }
}

// A valid segment of another history has the number, sizes and header that the catalog expects.
// Only the digest of its content differs.
TEST_F(StoreIntegrityTest, ASegmentOfACopiedStoreIsNotTheOneThatWasCommitted) {
  const int64_t id = Create();
  store_ = nullptr;
  std::filesystem::copy(dir_ / "data", dir_ / "copy");
  Open(dir_ / "copy");
  Upsert(id, PlainBlock(Ids(10), 2.0f), 1);
  Open(dir_ / "data");
  Upsert(id, PlainBlock(Ids(10), 1.0f), 1);
  store_ = nullptr;
  const std::string segment = OnlySegment(dir_ / "data");
  ASSERT_EQ(std::filesystem::file_size(segment),
            std::filesystem::file_size(OnlySegment(dir_ / "copy")));
  std::filesystem::copy_file(OnlySegment(dir_ / "copy"), segment,
                             std::filesystem::copy_options::overwrite_existing);
  Open(dir_ / "data");
  EXPECT_THAT(Rows(id), FailsWith(kDataLoss, "digest"));
}

// Compaction drops the deletion records that no id of a kept segment needs. An id that is misread
// would bring its row back.
TEST_F(StoreIntegrityTest, ADamagedIdOfAKeptSegmentEndsTheCompaction) {
  const int64_t id = Create();
  Upsert(id, PlainBlock(Ids(100), 1.0f), 1);
  ASSERT_OK(store_->CommitDelete(id, 2, IdColumn::OfNumbers({7})));
  const std::string segment = OnlySegment(dir_ / "data");
  std::vector<uint8_t> header(kBlockHeaderBytes);
  std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(kSegmentHeaderBytes);
  file.read(reinterpret_cast<char*>(header.data()), kBlockHeaderBytes);
  const auto block = ParseBlockHeader(header);
  ASSERT_OK(block);
  file.seekp(kSegmentHeaderBytes + block->PlaneBegin(0) + 7 * 8);
  file.put(static_cast<char>(8));
  file.close();
  EXPECT_THAT(store_->Compact(id, {}).status(), FailsWith(kDataLoss, segment, "checksum"));
}

// A row of the last commit is in the compacted segment, and a kept segment still needs the record
// that replaced its predecessor. So the compacted segment must have the seq of the commit.
TEST_F(StoreIntegrityTest, ACompactedRowOutlivesTheRecordOfItsPredecessor) {
  const int64_t id = Create();
  Upsert(id, PlainBlock(Ids(2000), 1.0f), 1);
  Upsert(id, PlainBlock({5}, 2.0f), 2, {5});
  const auto result = store_->Compact(
      id, {.dead_share_max = 0.5, .small_bytes_max = 10'000, .small_segments_min = 1});
  ASSERT_OK(result);
  EXPECT_EQ(result->segments_after, 2);
  const auto rows = Rows(id);
  ASSERT_OK(rows);
  EXPECT_EQ(rows->size(), 2000u);
  EXPECT_EQ(rows->at(5), 2.0f);
}

}  // namespace
}  // namespace nearfield::store

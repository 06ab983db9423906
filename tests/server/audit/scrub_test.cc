// Tests of the scrub: it finds and names a flipped bit in memory, during any commits.
#include "server/audit/scrub.h"

#include <thread>

#include "server/collections/delete_rows.h"
#include "server/collections/update_queue.h"
#include "tests/server/audit/audit_fixture.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

// Waits take no time; the test acts during them.
class MovedPace final : public Pace {
 public:
  bool Wait(std::chrono::nanoseconds time) override {
    waited += time;
    if (on_wait) on_wait(time);
    return !ended;
  }
  void End() override { ended = true; }

  std::chrono::nanoseconds waited{0};
  std::function<void(std::chrono::nanoseconds)> on_wait;
  std::atomic<bool> ended{false};
};

std::vector<uint8_t> RowBytes(float value) {
  const float row[2] = {value, 1.0f};
  const auto* bytes = reinterpret_cast<const uint8_t*>(row);
  return {bytes, bytes + sizeof(row)};
}

class ScrubTest : public AuditFixture {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(auto store, store::Store::Open({.dir = place_ / "data"}));
    catalog_ = std::make_unique<Catalog>(
        Catalog::Base{.engine = fake_.engine.get(), .store = std::move(store)}, 10);
    ASSERT_OK_AND_ASSIGN(named_, catalog_->Create("docs", testing::kPlainSpec));
  }

  // Makes one commit in blocks of four rows. Row i is (value, 1); its payload is the id in decimal.
  absl::Status Upload(const std::vector<uint64_t>& ids, float value,
                      UploadMode mode = UploadMode::kInsert) {
    ABSL_ASSIGN_OR_RETURN(
        const auto upload,
        CollectionUpload::Begin(
            named_, {.reservation = {
                         .rows_max = std::ssize(ids), .payload_bytes_max = 1000, .mode = mode}}));
    for (size_t begin = 0; begin < ids.size(); begin += 4) {
      const size_t end = std::min(begin + 4, ids.size());
      IdColumn block_ids;
      BytesColumn payloads;
      std::vector<uint8_t> rows;
      for (size_t i = begin; i < end; ++i) {
        block_ids.AppendNumber(ids[i]);
        payloads.Append(std::to_string(ids[i]));
        const std::vector<uint8_t> row = RowBytes(value + static_cast<float>(ids[i]));
        rows.insert(rows.end(), row.begin(), row.end());
      }
      ABSL_RETURN_IF_ERROR(upload->Append({.ids = &block_ids, .rows = rows, .payloads = &payloads},
                                          AttributeBlock{.rows_count = block_ids.size()}));
    }
    return upload->Commit().status();
  }

  absl::Status UpdatePayload(uint64_t id, const std::string& payload) {
    RowUpdate update;
    update.ids.AppendNumber(id);
    update.payloads = {&payload};
    update.dead = [] { return absl::OkStatus(); };
    return named_->updates->Run(*named_, named_->updates->Add(std::move(update))).status();
  }

  absl::Status Scrub() {
    return ScrubCollection(
        *named_, {.bytes_per_second = 1000, .pace = &pace_, .alarm = &alarm_, .counts = &counts_});
  }

  std::unique_ptr<Catalog> catalog_;
  std::shared_ptr<NamedCollection> named_;
  MovedPace pace_;
  Alarm alarm_{AlarmOptions(place_ / "audit")};
  ScrubCounts counts_;
};

TEST_F(ScrubTest, EqualRowsAreCountedAtTheRateAsked) {
  ASSERT_OK(Upload({1, 2, 3, 4, 5, 6, 7, 8, 9}, 0));
  ASSERT_OK(Upload({20, 21, 2}, 100, UploadMode::kUpsert));
  ASSERT_OK(DeleteRows(*named_, testing::Ids({5, 21})));
  ASSERT_OK(Scrub());
  EXPECT_EQ(counts_.rows, 9);
  EXPECT_EQ(counts_.bytes, 72);
  EXPECT_EQ(counts_.rows_skipped, 0);
  EXPECT_EQ(pace_.waited, std::chrono::milliseconds(72));
  EXPECT_EQ(stops_, 0);
}

TEST_F(ScrubTest, AFlippedResidentBitIsNamed) {
  ASSERT_OK(Upload({1, 2, 3, 4}, 0));
  ASSERT_OK(Upload({11, 12, 13, 14, 15, 16}, 0));
  ASSERT_TRUE(fake_.device->FlipResidentBit(RowBytes(15), /*bit=*/17));
  ASSERT_OK(Scrub());
  EXPECT_EQ(counts_.mismatches, 1);
  EXPECT_EQ(counts_.rows, 9);
  EXPECT_EQ(stops_, 1);
  ASSERT_THAT(raised(), SizeIs(1));
  EXPECT_THAT(
      raised()[0].what,
      HasSubstr("collection docs, epoch 2, 0000000000000003.seg: block 1, id 15: differs in "
                "memory, first at byte 2: stored 70, resident 72"));
  const nlohmann::json record = ReadRecord(raised()[0]);
  EXPECT_EQ(record["kind"], "row");
  EXPECT_EQ(record["id"], 15);
  EXPECT_EQ(record["block"], 1);
  EXPECT_EQ(record["file"], "0000000000000003.seg");
  EXPECT_EQ(record["stored"]["vector"], "000070410000803f");
  EXPECT_EQ(record["resident"]["vector"], "000072410000803f");
  EXPECT_EQ(record["resident"]["payload"], "3135");
}

TEST_F(ScrubTest, EveryBitOfARowCounts) {
  ASSERT_OK(Upload({7}, 0));
  for (int64_t bit = 0; bit < 64; ++bit) {
    std::vector<uint8_t> row = RowBytes(7);
    ASSERT_TRUE(fake_.device->FlipResidentBit(row, bit));
    ASSERT_OK(Scrub());
    EXPECT_EQ(counts_.mismatches, bit + 1);
    row[static_cast<size_t>(bit / 8)] ^= static_cast<uint8_t>(1u << (bit % 8));
    ASSERT_TRUE(fake_.device->FlipResidentBit(row, bit));
  }
}

TEST_F(ScrubTest, ARowThatIsNotInMemoryIsNamed) {
  ASSERT_OK(Upload({1, 2, 3}, 0));
  ASSERT_OK(named_->collection->Delete(testing::Ids({2})));  // bypasses the store
  ASSERT_OK(Scrub());
  ASSERT_THAT(raised(), SizeIs(1));
  EXPECT_THAT(raised()[0].what, HasSubstr("id 2: is not in memory"));
  EXPECT_EQ(ReadRecord(raised()[0])["resident"], nullptr);
}

TEST_F(ScrubTest, RowsThatChangeMeanwhileRaiseNothing) {
  ASSERT_OK(Upload({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 0));
  int waits = 0;
  pace_.on_wait = [&](auto) {
    if (++waits != 1) return;  // after the first block
    ASSERT_OK(Upload({6, 7}, 50, UploadMode::kUpsert));
    ASSERT_OK(DeleteRows(*named_, testing::Ids({9, 12, 1})));
  };
  ASSERT_OK(Scrub());
  EXPECT_EQ(counts_.rows, 8);
  EXPECT_EQ(counts_.rows_skipped, 4);
  EXPECT_EQ(stops_, 0);
  ASSERT_OK(Scrub());
  EXPECT_EQ(counts_.rows, 8 + 9);
  EXPECT_EQ(counts_.rows_skipped, 4);
}

TEST_F(ScrubTest, AFlippedBitIsFoundWhileOthersChange) {
  ASSERT_OK(Upload({1, 2, 3, 4, 5, 6, 7, 8}, 0));
  ASSERT_TRUE(fake_.device->FlipResidentBit(RowBytes(8), 3));
  int waits = 0;
  pace_.on_wait = [&](auto) {
    ++waits;
    const auto id = static_cast<uint64_t>(waits);
    ASSERT_OK(Upload({id}, 50, UploadMode::kUpsert));
  };
  ASSERT_OK(Scrub());
  ASSERT_THAT(raised(), SizeIs(1));
  EXPECT_THAT(raised()[0].what, HasSubstr("id 8:"));
}

TEST_F(ScrubTest, CommitsDeletesAndCompactionsInParallelRaiseNothing) {
  ASSERT_OK(Upload({1, 2, 3, 4, 5, 6, 7, 8}, 0));
  std::atomic<bool> ended{false};
  std::thread changes([&] {
    testing::Random random(testing::TestSeed());
    for (int i = 0; i < 300; ++i) {
      const auto id = static_cast<uint64_t>(random.Between(1, 12));
      const auto value = static_cast<float>(random.Between(100, 1000));
      EXPECT_OK(Upload({id, id + 20}, value, UploadMode::kUpsert));
      EXPECT_OK(UpdatePayload(static_cast<uint64_t>(random.Between(1, 30)), std::to_string(i)));
      if (i % 3 == 0) {
        EXPECT_OK(DeleteRows(*named_, testing::Ids({id})));
      }
      if (i % 20 == 0) {
        EXPECT_OK(named_->collection->Compact({.dead_share_max = 0.0}));
        const absl::Status compacted =
            named_->store->Compact(named_->store_id, {.dead_share_max = 0.0}).status();
        EXPECT_TRUE(compacted.ok() || absl::IsAborted(compacted)) << compacted;
      }
    }
    ended = true;
  });
  while (!ended) EXPECT_OK(Scrub());
  changes.join();
  ASSERT_OK(Scrub());
  EXPECT_GT(counts_.rows, 0);
  EXPECT_EQ(counts_.mismatches, 0);
  EXPECT_THAT(raised(), IsEmpty());
}

// A row that was updated between the read of its file and the comparison was taken for a damaged
// one.
TEST_F(ScrubTest, AnUpdateDuringThePassRaisesNothing) {
  ASSERT_OK(Upload({1, 2, 3, 4, 5, 6, 7, 8}, 0));
  int waits = 0;
  pace_.on_wait = [&](auto) {
    if (++waits == 1) {
      ASSERT_OK(UpdatePayload(7, "another payload"));
    }
  };
  ASSERT_OK(Scrub());
  EXPECT_EQ(counts_.rows, 7);
  EXPECT_EQ(counts_.rows_skipped, 1);
  ASSERT_OK(Scrub());
  EXPECT_EQ(counts_.rows, 7 + 8);
  EXPECT_EQ(counts_.mismatches, 0);
  EXPECT_THAT(raised(), IsEmpty());
}

TEST_F(ScrubTest, ADamagedFileIsReportedAndTheServingGoesOn) {
  ASSERT_OK(Upload({1, 2, 3, 4}, 0));
  {
    std::fstream file(place_ / "data/0000000000000002.seg",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x5a');
  }
  const absl::Status status = Scrub();
  EXPECT_THAT(status, FailsWith(kDataLoss, "0000000000000002.seg"));
  EXPECT_EQ(stops_, 0);
}

TEST_F(ScrubTest, TheEndOfThePaceEndsThePass) {
  ASSERT_OK(Upload({1, 2, 3, 4, 5, 6}, 0));
  pace_.on_wait = [&](auto) { pace_.End(); };
  EXPECT_THAT(Scrub(), StatusIs(kCancelled));
  EXPECT_EQ(counts_.rows, 4);
}

TEST_F(ScrubTest, TheScrubberPassesOnceAnInterval) {
  ASSERT_OK(Upload({1, 2, 3, 4}, 0));
  std::vector<std::chrono::nanoseconds> waits;
  std::atomic<int> waits_count{0};
  pace_.on_wait = [&](std::chrono::nanoseconds time) {
    if (waits.size() == 5) return pace_.End();
    waits.push_back(time);
    clock_.Advance(time);
    ++waits_count;
  };
  std::atomic<int64_t> reported{0};
  {
    Scrubber scrubber(
        {.interval = std::chrono::seconds(60), .bytes_per_second = 32},
        {.collections = [this] { return catalog_->List(); },
         .clock = &clock_,
         .pace = &pace_,
         .alarm = &alarm_,
         .report = [&](const ScrubCounts& counts) { reported = counts.passes.load(); }});
    EXPECT_TRUE(Eventually([&] { return waits_count >= 5; }));
  }
  EXPECT_GE(reported, 2);
  using std::chrono::seconds;
  EXPECT_THAT(waits, ElementsAre(seconds(60), seconds(1), seconds(59), seconds(1), seconds(59)));
  EXPECT_EQ(stops_, 0);
}

}  // namespace
}  // namespace nearfield::server

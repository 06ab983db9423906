// Tests updates of rows that stay where they are, against a map.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

// The payload and the ordinal of each id.
struct Version {
  std::string payload;
  uint32_t ordinal = 0;

  bool operator==(const Version&) const = default;
};
using Versions = std::map<uint64_t, Version>;

class CorpusUpdateTest : public ::testing::Test {
 protected:
  // Adds rows with empty payloads.
  void Add(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> ids;
    for (uint64_t id = begin; id < end; ++id) ids.push_back(id);
    ASSERT_OK(UploadAll(*collection_, PlainRows(ids, std::vector<float>(ids.size(), 1.0f))));
    for (const auto& [id, version] : Read(nullptr)) versions_.emplace(id, version);
  }

  Versions Read(const PinnedEpoch* at) {
    OrderedRead read = {.at = at, .parts = {.payloads = true, .ordinals = true}};
    read.rows_max = 10'000;
    const auto rows = collection_->ReadInOrder(read);
    EXPECT_OK(rows);
    Versions versions;
    for (int64_t i = 0; i < rows->found.ids.size(); ++i) {
      versions[rows->found.ids.number(i)] = {
          .payload = std::string(rows->found.payloads.at(i)),
          .ordinal = rows->found.ordinals[static_cast<size_t>(i)]};
    }
    return versions;
  }

  // Updates rows: a null payload stays. Changes the map if the engine changes the rows.
  absl::Status Update(const std::map<uint64_t, const std::string*>& payloads,
                      const absl::Status& hook_answer = absl::OkStatus()) {
    RowChanges changes = {.ids = IdColumn(IdType::kUint64), .payloads = {}, .epochs = 1};
    for (const auto& [id, payload] : payloads) {
      changes.ids.AppendNumber(id);
      changes.payloads.push_back(payload);
    }
    uint32_t first = 0;
    const auto result =
        collection_->Update([&](const auto&) -> absl::StatusOr<RowChanges> { return changes; },
                            [&](const PendingChange& change) {
                              first = change.first_ordinal;
                              return hook_answer;
                            });
    if (!result.ok()) return result.status();
    EXPECT_EQ(result->rows_updated, static_cast<int64_t>(payloads.size()));
    for (const auto& [id, payload] : payloads) {
      Version& version = versions_.at(id);
      version.ordinal = first++;
      if (payload != nullptr) version.payload = *payload;
    }
    return absl::OkStatus();
  }

  // Expects the versions, read in order, fetched, and chosen by their ordinals.
  void ExpectVersions(const PinnedEpoch* at, const Versions& expected) {
    ASSERT_EQ(Read(at), expected);
    std::set<uint32_t> ordinals;
    RowFilter some;
    std::vector<uint64_t> chosen;
    for (const auto& [id, version] : expected) {
      EXPECT_TRUE(ordinals.insert(version.ordinal).second) << "two rows have an ordinal";
      if (id % 3 != 0) continue;
      some.chosen.resize(std::max<size_t>(some.chosen.size(), version.ordinal / 64 + 1));
      some.chosen[version.ordinal / 64] |= uint64_t{1} << (version.ordinal % 64);
      chosen.push_back(id);
    }
    ASSERT_OK_AND_ASSIGN(const FetchResult found,
                         collection_->FetchChosen(at, some, {.payloads = true}));
    std::set<uint64_t> got;
    for (int64_t i = 0; i < found.ids.size(); ++i) {
      got.insert(found.ids.number(i));
      EXPECT_EQ(found.payloads.at(i), expected.at(found.ids.number(i)).payload);
    }
    EXPECT_EQ(got, std::set<uint64_t>(chosen.begin(), chosen.end()));
    EXPECT_EQ(*collection_->CountRows(at, some), static_cast<int64_t>(chosen.size()));
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  Versions versions_;
  Random random_{TestSeed()};
};

TEST_F(CorpusUpdateTest, AnyOrderOfUpdatesEqualsAMapAtEveryEpoch) {
  Add(0, 3000);  // several pages
  struct Held {
    std::shared_ptr<const PinnedEpoch> at;
    Versions versions;
  };
  std::vector<Held> held;
  for (int step = 0; step < 150; ++step) {
    SCOPED_TRACE(step);
    std::vector<std::string> texts(static_cast<size_t>(random_.Between(1, 40)));
    std::map<uint64_t, const std::string*> payloads;
    const uint64_t base = random_.Bits() % 3000;
    for (std::string& text : texts) {
      text = std::string(static_cast<size_t>(random_.Between(0, 20)), 'p') + std::to_string(step);
      const uint64_t id = random_.OneIn(2) ? base : random_.Bits() % 3000;
      if (versions_.contains(id)) payloads[id] = random_.OneIn(3) ? nullptr : &text;
    }
    ASSERT_OK(Update(payloads));
    if (random_.OneIn(4))
      Add(10'000 + 10 * static_cast<uint64_t>(step), 10'005 + 10 * static_cast<uint64_t>(step));
    if (random_.OneIn(5)) {
      const uint64_t id = random_.Bits() % 3000;
      ASSERT_OK(collection_->Delete(Ids({id})));
      versions_.erase(id);
    }
    if (random_.OneIn(8)) {
      ASSERT_OK(collection_->Compact({.dead_share_max = 0, .generations_max = 1}));
    }
    if (random_.OneIn(10)) held.push_back({.at = collection_->PinEpoch(), .versions = versions_});
    ExpectVersions(nullptr, versions_);
    if (!held.empty()) {
      const Held& one = held[random_.Bits() % held.size()];
      ExpectVersions(one.at.get(), one.versions);
    }
    if (HasFatalFailure()) return;
  }
}

// A compaction copied the values of its start over those of updates during its copy.
TEST_F(CorpusUpdateTest, UpdatesDuringTheCopyOfACompactionStay) {
  Add(0, 100);
  const std::string early = "early";
  ASSERT_OK(Update({{1, &early}, {7, &early}, {8, &early}}));
  for (uint64_t id = 50; id < 100; ++id) {
    ASSERT_OK(collection_->Delete(Ids({id})));
    versions_.erase(id);
  }
  const std::string late = "late";
  int copies = 0;
  fake_.device->OnCopy([&] {
    if (++copies > 1) return;
    ASSERT_OK(Update({{1, nullptr}, {2, &late}, {8, &late}}));
  });
  ASSERT_OK(collection_->Compact({}));
  ASSERT_EQ(copies, 1);
  ExpectVersions(nullptr, versions_);
}

TEST_F(CorpusUpdateTest, AnUpdateThatIsNotRecordedChangesNothingAndTakesNoOrdinals) {
  fake_ = MakeFakeEngine({.engine = {.host_memory_bytes = 1 << 20, .ordinals_max = 12}});
  collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  Add(0, 10);
  const Versions before = versions_;
  const int64_t bytes = fake_.engine->GetCapacity().host_bytes_used;
  const std::string text = "text";
  // The caller may have used the ordinals that the hook received.
  EXPECT_THAT(Update({{1, &text}, {2, &text}}, absl::DataLossError("no")), StatusIs(kDataLoss));
  collection_->ReleaseOrdinals(10, 2);
  ExpectVersions(nullptr, before);
  for (int i = 0; i < 3; ++i) {  // no memory: the engine itself frees the ordinals
    const std::string large(2 << 20, 'x');
    EXPECT_THAT(Update({{1, &text}, {2, &large}}), StatusIs(kResourceExhausted));
    EXPECT_THAT(Update({{1, &text}, {2, &text}, {3, &text}}), StatusIs(kResourceExhausted));
  }
  ExpectVersions(nullptr, before);
  EXPECT_EQ(fake_.engine->GetCapacity().host_bytes_used, bytes);
  EXPECT_EQ(collection_->Stats().epoch, 1u);
  ASSERT_OK(Update({{1, &text}, {2, &text}}));
  ExpectVersions(nullptr, versions_);
}

TEST_F(CorpusUpdateTest, MemoryOfUpdatesIsCountedAndReleased) {
  Add(0, 1000);
  const auto used = [this] { return fake_.engine->GetCapacity().host_bytes_used; };
  const int64_t before = used();
  const std::string text(100, 't');
  std::map<uint64_t, const std::string*> all;
  for (uint64_t id = 0; id < 1000; ++id) all[id] = &text;
  auto held = collection_->PinEpoch();
  ASSERT_OK(Update(all));
  EXPECT_GE(used() - before, 1000 * 100);
  EXPECT_GE(collection_->Stats().host_bytes, 1000 * 100);
  const int64_t once = used();
  for (int i = 0; i < 10; ++i) ASSERT_OK(Update(all));
  EXPECT_EQ(used(), once) << "replaced values are released";
  EXPECT_EQ(collection_->BytesHeldBy({held}).host, 0);
  held = collection_->PinEpoch();
  ASSERT_OK(Update({{5, &text}}));
  const int64_t kept = collection_->BytesHeldBy({held}).host;
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 200 * 1000) << "pages without a change are shared";
  held = nullptr;
  // A merge takes the values into the new generation.
  ASSERT_OK(collection_->Delete(Ids({0, 1, 2})));
  versions_.erase(0);
  versions_.erase(1);
  versions_.erase(2);
  ASSERT_OK(collection_->Compact({.dead_share_max = 0}));
  ExpectVersions(nullptr, versions_);
  collection_ = nullptr;
  EXPECT_EQ(used(), 0);
}

TEST_F(CorpusUpdateTest, OnlyTheEpochGrowsIfNoRowChanges) {
  Add(0, 3);
  const auto none = [](int64_t epochs) {
    return [epochs](const auto&) -> absl::StatusOr<RowChanges> {
      return RowChanges{.ids = IdColumn(IdType::kUint64), .payloads = {}, .epochs = epochs};
    };
  };
  int calls = 0;
  const CommitHook hook = [&calls](const PendingChange&) {
    ++calls;
    return absl::OkStatus();
  };
  EXPECT_EQ(collection_->Update(none(0), hook)->epoch, 1u);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(collection_->Update(none(3), hook)->epoch, 4u);
  EXPECT_EQ(calls, 1);
  ExpectVersions(nullptr, versions_);
}

}  // namespace
}  // namespace nearfield::testing

// Tests failures of one of several devices, and devices that report their answers early.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/host_work.h"
#include "engine/multi/multi_backend.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_backend.h"

namespace nearfield::multi {
namespace {

using testing::FakeCall;
using testing::FakeDevice;

// Reports each query as soon as its lists are there, except some.
class ReportingBackend final : public backend::Backend {
 public:
  ReportingBackend(std::unique_ptr<Backend> inner, int64_t silent)
      : inner_(std::move(inner)), silent_(silent) {}

  const backend::BackendInfo& info() const override { return inner_->info(); }
  absl::StatusOr<int64_t> DeviceBytesOf(const backend::RowFormat& format,
                                        int64_t rows_max) const override {
    return inner_->DeviceBytesOf(format, rows_max);
  }
  absl::StatusOr<std::unique_ptr<backend::RowPlanes>> Reserve(const backend::RowFormat& format,
                                                              int64_t rows_max) override {
    return inner_->Reserve(format, rows_max);
  }
  absl::StatusOr<std::unique_ptr<backend::Tombstones>> MakeTombstones(
      const backend::RowPlanes& planes, std::vector<uint64_t> words) override {
    return inner_->MakeTombstones(planes, std::move(words));
  }
  absl::Status Search(const backend::RowFormat& format,
                      absl::Span<const backend::GenerationView> generations,
                      const backend::QueryTile& tile, backend::RankedLists* best,
                      backend::ScanCost* cost) override {
    const absl::Status status = inner_->Search(format, generations, tile, best, cost);
    for (int64_t q = 0; status.ok() && q < static_cast<int64_t>(tile.k.size()); ++q) {
      if (silent_ > 0 && q % silent_ == 0) continue;
      if (absl::Status told = tile.answered(q); !told.ok()) return told;
    }
    return status;
  }
  int64_t device_bytes_total() const override { return inner_->device_bytes_total(); }
  int64_t device_bytes_used() const override { return inner_->device_bytes_used(); }
  absl::Status Health() const override { return inner_->Health(); }

 private:
  const std::unique_ptr<Backend> inner_;
  const int64_t silent_;  // every n-th query is not reported; 0: all are
};

class MultiFaultsTest : public ::testing::Test {
 protected:
  MultiFaultsTest() {
    for (int d = 0; d < 3; ++d) {
      fakes_.push_back(std::make_shared<FakeDevice>(testing::FakeDeviceOptions{}));
    }
  }

  // Makes a backend of the fake devices that spreads every generation over all of them.
  void Make(int64_t silent = -1) {
    std::vector<NamedBackend> backends;
    for (size_t d = 0; d < fakes_.size(); ++d) {
      std::unique_ptr<backend::Backend> fake = testing::MakeFakeBackend(fakes_[d]);
      if (silent >= 0) fake = std::make_unique<ReportingBackend>(std::move(fake), silent);
      backends.push_back({absl::StrCat("GPU ", d), std::move(fake)});
    }
    multi_ = MakeMultiBackend(std::move(backends), {.one_device_bytes = 0, .stripe_rows = 2});
    corpus_ = MakeCorpus({.dim = 5}, CorpusFamily::kGaussian, 100, random_.Bits());
    host_ = testing::MakeGeneration(corpus_, RankOrder::kShuffled, false, random_);
    for (int q = 0; q < 8; ++q) {
      const std::vector<float> query = MakeQuery(corpus_, QueryFamily::kGaussian, random_);
      queries_.insert(queries_.end(), query.begin(), query.end());
      k_.push_back(static_cast<int32_t>(random_.Between(1, 20)));
    }
  }

  absl::Status Search(const LoadedGeneration& loaded, backend::QueryTile tile) {
    tile.queries = queries_.data();
    tile.k = k_;
    backend::ScanCost cost;
    return multi_->Search(testing::FormatOf(corpus_.spec), {loaded.view}, tile, &best_, &cost);
  }

  void ExpectReference(int64_t query) {
    const auto q = static_cast<size_t>(query);
    const auto dim = static_cast<size_t>(corpus_.spec.dim);
    const auto expected =
        testing::ReferenceTop(host_, absl::MakeConstSpan(queries_).subspan(q * dim, dim), k_[q]);
    ASSERT_EQ(best_.list(q, 0).size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(best_.list(q, 0)[i].score, expected[i].score);
      EXPECT_EQ(best_.list(q, 0)[i].rank, expected[i].rank);
    }
  }

  Random random_{TestSeed()};
  std::vector<std::shared_ptr<FakeDevice>> fakes_;
  std::unique_ptr<backend::Backend> multi_;
  Corpus corpus_;
  HostGeneration host_;
  std::vector<float> queries_;
  std::vector<int32_t> k_;
  backend::RankedLists best_;
};

TEST_F(MultiFaultsTest, TheErrorOfASearchNamesItsDevice) {
  Make();
  const LoadedGeneration loaded = testing::Load(*multi_, host_);
  for (size_t d = 0; d < fakes_.size(); ++d) {
    fakes_[d]->FailAt(FakeCall::kSearch, 1, absl::UnavailableError("it is lost"));
    EXPECT_THAT(Search(loaded, {}),
                StatusIs(kUnavailable, absl::StrCat("GPU ", d, ": it is lost")));
    EXPECT_OK(Search(loaded, {}));
    for (int64_t q = 0; q < 8; ++q) ExpectReference(q);
  }
}

TEST_F(MultiFaultsTest, ADeviceThatIsLostIsNamedByHealth) {
  Make();
  EXPECT_OK(multi_->Health());
  fakes_[1]->Lose();
  EXPECT_THAT(multi_->Health(), StatusIs(kUnavailable, HasSubstr("GPU 1: ")));
}

TEST_F(MultiFaultsTest, ErrorsOfUploadsNameTheirDevice) {
  Make();
  const backend::RowFormat format = testing::FormatOf(corpus_.spec);
  fakes_[2]->FailAt(FakeCall::kReserve, 1, absl::ResourceExhaustedError("full"));
  EXPECT_THAT(multi_->Reserve(format, 100), StatusIs(kResourceExhausted, "GPU 2: full"));
  EXPECT_EQ(multi_->device_bytes_used(), 0);
  ASSERT_OK_AND_ASSIGN(auto planes, multi_->Reserve(format, 100));
  fakes_[1]->FailAt(FakeCall::kAppend, 1, absl::UnavailableError("lost"));
  EXPECT_THAT(planes->Append(corpus_.rows.data(), 100), StatusIs(kUnavailable, "GPU 1: lost"));
  const LoadedGeneration loaded = testing::Load(*multi_, host_);
  fakes_[0]->FailAt(FakeCall::kMakeTombstones, 1, absl::ResourceExhaustedError("full"));
  EXPECT_THAT(multi_->MakeTombstones(*loaded.planes, {1, 0}),
              StatusIs(kResourceExhausted, "GPU 0: full"));
  fakes_[0]->FailAt(FakeCall::kRead, 1, absl::UnavailableError("lost"));
  std::vector<uint8_t> rows(corpus_.rows.size());
  EXPECT_THAT(loaded.planes->ReadRange(0, 100, rows.data()), StatusIs(kUnavailable, "GPU 0: lost"));
}

// A query is joined once, after the last device has reported it, and then reported.
TEST_F(MultiFaultsTest, ReportedQueriesAreJoinedOnceAndReported) {
  for (const int64_t silent : {0, 1, 3}) {
    SCOPED_TRACE(silent);
    queries_.clear();
    k_.clear();
    Make(silent);
    const LoadedGeneration loaded = testing::Load(*multi_, host_);
    HostWork host_work(2);
    std::vector<std::atomic<int>> reported(8);
    ASSERT_OK(Search(loaded, {.host_work = &host_work, .answered = [&](int64_t query) {
                                ExpectReference(query);
                                ++reported[static_cast<size_t>(query)];
                                return absl::OkStatus();
                              }}));
    for (int64_t q = 0; q < 8; ++q) {
      EXPECT_EQ(reported[static_cast<size_t>(q)], 1) << q;
      ExpectReference(q);
    }
  }
}

TEST_F(MultiFaultsTest, ACancelledSearchStops) {
  Make();
  const LoadedGeneration loaded = testing::Load(*multi_, host_);
  EXPECT_THAT(Search(loaded, {.cancelled = [] { return true; }}), StatusIs(kCancelled));
}

TEST_F(MultiFaultsTest, RowsOfAnotherBackendAreRefused) {
  Make();
  const auto other = testing::MakeFakeBackend(fakes_[0]);
  const LoadedGeneration foreign = testing::Load(*other, host_);
  EXPECT_THAT(Search(foreign, {}), StatusIs(kInvalidArgument));
  EXPECT_THAT(multi_->MakeTombstones(*foreign.planes, {0}), StatusIs(kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(auto planes, multi_->Reserve(testing::FormatOf(corpus_.spec), 10));
  EXPECT_THAT(planes->AppendFrom(*foreign.planes, {0}), StatusIs(kInvalidArgument));
}

// Devices that finish their answers give the rows of the lists, with their ids; some of them report
// a query early. Ties and deleted rows are among them.
TEST_F(MultiFaultsTest, FinishedAnswersAreThoseOfTheLists) {
  for (auto& fake : fakes_) {
    fake = std::make_shared<FakeDevice>(testing::FakeDeviceOptions{.finished_rows_max = 1000});
  }
  for (const int64_t silent : {-1, 0, 3}) {
    for (const CorpusFamily family : {CorpusFamily::kGaussian, CorpusFamily::kAllEqual}) {
      Make(silent);
      corpus_ = MakeCorpus({.dim = 5}, family, 100, random_.Bits());
      host_ = testing::MakeGeneration(corpus_, RankOrder::kShuffled, true, random_);
      backend::RowFormat format = testing::FormatOf(corpus_.spec);
      format.numeric_ids = true;
      ASSERT_OK_AND_ASSIGN(const auto planes, multi_->Reserve(format, 100));
      ASSERT_OK(planes->Append(corpus_.rows.data(), 100));
      std::vector<uint64_t> ids;
      for (const uint32_t rank : host_.ranks) ids.push_back(1000 + uint64_t{7} * rank);
      ASSERT_OK(planes->Seal({.ranks = host_.ranks, .ids = ids}));
      ASSERT_OK_AND_ASSIGN(const auto deleted,
                           multi_->MakeTombstones(*planes, host_.deleted_words));
      const backend::GenerationView view = {
          .planes = planes.get(), .tombstones = deleted.get(), .rows_live = host_.rows_live};
      backend::ScanCost cost;
      ASSERT_OK(multi_->Search(
          format, {view}, {.queries = queries_.data(), .k = k_, .finish = backend::Finish::kSome},
          &best_, &cost));
      for (size_t q = 0; q < k_.size(); ++q) {
        const absl::Span<const float> query = absl::MakeConstSpan(queries_).subspan(q * 5, 5);
        const auto expected = testing::ReferenceTop(host_, query, k_[q]);
        const backend::FinishedRows* const rows = best_.finished(q);
        ASSERT_NE(rows, nullptr);
        ASSERT_EQ(rows->ids.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(rows->scores[i], expected[i].score);
          EXPECT_EQ(rows->ids[i], 1000 + uint64_t{7} * expected[i].rank);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nearfield::multi

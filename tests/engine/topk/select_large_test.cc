// Tests batches of more than 2^31 scores: in one row, in many rows, and through the stride. The
// scores repeat a short stretch, so that the oracle need not sort them all.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/engine/topk/select_fixture.h"

namespace nearfield::select {
namespace {

constexpr int64_t kTwoTo31 = int64_t{1} << 31;
constexpr int64_t kPeriod = 16'777'259;  // prime, so that no kernel's step divides it

class SelectLargeTest : public SelectorTest {
 protected:
  // Returns device memory for these scores, or skips the test visibly.
  char* ScoresOf(const SelectCase& problem, int64_t count) {
    const auto scores = site_->AllocateScores(count * FormatOf(problem.shape.type).bytes);
    if (!scores.ok()) Skip(scores.status());
    return scores.ok() ? *scores : nullptr;
  }
  static void Skip(const absl::Status& status) { GTEST_SKIP() << status; }

  // Copies on the stream of the calls, which waits for no other stream.
  void Copy(char* to, const void* from, int64_t bytes) {
    ASSERT_EQ(
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, site_->stream()),
        cudaSuccess);
  }

  // Fills the scores with copies of the stretch.
  void Repeat(const void* stretch, int64_t stretch_bytes, char* scores, int64_t bytes) {
    Copy(scores, stretch, std::min(stretch_bytes, bytes));
    for (int64_t done = stretch_bytes; done < bytes; done *= 2) {
      Copy(scores + done, scores, std::min(done, bytes - done));
    }
    ASSERT_OK(site_->Await("filling the scores"));
  }

  void CompareEach(const SelectCase& problem, const Answer& expected) {
    for (const std::string& algorithm : algorithms_) {
      if (!Supports(problem.shape, algorithm)) continue;
      const auto got = Select(problem, algorithm);
      if (absl::IsResourceExhausted(got.status())) {
        std::printf("  %-20s left out: %s\n", algorithm.c_str(), got.status().ToString().c_str());
        continue;
      }
      const absl::Status status = Compare(problem.shape, expected, got);
      EXPECT_OK(status) << algorithm << ": " << Describe(problem);
      ASSERT_FALSE(DeviceLost());
      if (status.ok()) {
        std::printf("  %-20s equal: %s\n", algorithm.c_str(), Describe(problem).c_str());
      }
    }
  }

  void ComparePeriodic(const Shape& shape);
};

// Returns the answer for a row of n scores in which index i holds stretch[(phase + i) % kPeriod].
// The indices in `planted`, ascending, hold the largest finite score instead.
Answer PeriodicRow(const Shape& shape, const HostScores& stretch, int64_t phase,
                   const std::vector<int64_t>& planted) {
  const auto value = [&](int64_t place) {
    return DecodeScore(shape.type, LoadScore(shape.type, stretch.Row(0), place));
  };
  // Each place of the stretch occurs in the row at least once, except for the planted ones: no
  // score below the (k + planted)-th of the stretch is among the k best.
  const int64_t enough = shape.k + static_cast<int64_t>(planted.size());
  const Answer best = SelectRow(shape.type, stretch.Row(0), kPeriod, enough);
  const double threshold = DecodeScore(shape.type, best.values.back());
  const uint32_t greatest = FormatOf(shape.type).infinity() - 1;
  std::vector<Ranked> candidates;
  candidates.reserve(planted.size());
  for (const int64_t index : planted) {
    candidates.push_back({DecodeScore(shape.type, greatest), static_cast<uint32_t>(index)});
  }
  for (int64_t place = 0; place < kPeriod; ++place) {
    const double score = value(place);
    if (score < threshold) continue;
    for (int64_t i = (place - phase + kPeriod) % kPeriod; i < shape.n; i += kPeriod) {
      if (std::binary_search(planted.begin(), planted.end(), i)) continue;
      candidates.push_back({score, static_cast<uint32_t>(i)});
    }
  }
  std::sort(candidates.begin(), candidates.end(), Before);
  Answer answer;
  for (int64_t place = 0; place < shape.k; ++place) {
    const uint32_t index = candidates[static_cast<size_t>(place)].index;
    const bool is_planted = std::binary_search(planted.begin(), planted.end(), int64_t{index});
    const uint32_t bits =
        is_planted ? greatest : LoadScore(shape.type, stretch.Row(0), (phase + index) % kPeriod);
    answer.values.push_back(ReturnedBits(shape.type, bits));
    answer.indices.push_back(index);
  }
  return answer;
}

void SelectLargeTest::ComparePeriodic(const Shape& shape) {
  const SelectCase problem = {.shape = shape, .seed = random_.Bits()};
  const int64_t score_bytes = FormatOf(shape.type).bytes;
  char* const scores = ScoresOf(problem, shape.batch * shape.n);
  if (IsSkipped()) return;
  const HostScores stretch =
      MakeScores({.shape = {.type = shape.type, .n = kPeriod, .k = 1}, .seed = problem.seed});
  Repeat(stretch.Row(0), kPeriod * score_bytes, scores, shape.batch * shape.n * score_bytes);
  if (HasFatalFailure()) return;
  Answer expected;
  const uint32_t greatest = FormatOf(shape.type).infinity() - 1;
  for (int64_t row = 0; row < shape.batch; ++row) {
    const int64_t first = row * shape.n;
    std::vector<int64_t> planted = {0, 1, shape.n / 2, shape.n - 2, shape.n - 1};
    for (const int64_t index : {kTwoTo31 - 1, kTwoTo31, kTwoTo31 - 1 - first, kTwoTo31 - first}) {
      if (index >= 0 && index < shape.n) planted.push_back(index);
    }
    std::sort(planted.begin(), planted.end());
    planted.erase(std::unique(planted.begin(), planted.end()), planted.end());
    for (const int64_t index : planted) {
      // Little-endian: a narrow score is the first two of the four bytes.
      Copy(scores + (first + index) * score_bytes, &greatest, score_bytes);
    }
    expected.Append(PeriodicRow(shape, stretch, first % kPeriod, planted), 0, shape.k);
  }
  CompareEach(problem, expected);
}

TEST_F(SelectLargeTest, LargeRowOfMoreThanTwoTo31) {
  ComparePeriodic({.type = ScoreType::kFloat16, .batch = 1, .n = kTwoTo31 + 5, .k = 4097});
}

TEST_F(SelectLargeTest, LargeRowOfMoreThanTwoTo31Fp32) {
  ComparePeriodic({.type = ScoreType::kFloat32, .batch = 1, .n = kTwoTo31 + 5, .k = 100});
}

TEST_F(SelectLargeTest, LargeBatchOfThreeRows) {
  ComparePeriodic({.type = ScoreType::kFloat16, .batch = 3, .n = 800'000'000, .k = 2048});
}

TEST_F(SelectLargeTest, LargeBatchOfEveryRowThereCanBe) {
  constexpr int64_t kRows = 61;  // different ones
  const SelectCase problem = {
      .shape = {.type = ScoreType::kFloat16, .batch = kBatchMax, .n = 33'000, .k = 100},
      .seed = random_.Bits()};
  const Shape& shape = problem.shape;
  static_assert(kBatchMax * 33'000 > kTwoTo31);
  char* const scores = ScoresOf(problem, shape.batch * shape.n);
  if (IsSkipped()) return;
  SelectCase rows = problem;
  rows.shape.batch = kRows;
  const HostScores stretch = MakeScores(rows);
  Repeat(stretch.Row(0), kRows * shape.n * 2, scores, shape.batch * shape.n * 2);
  if (HasFatalFailure()) return;
  const Answer distinct = OracleAnswer(rows, stretch);
  Answer expected;
  for (int64_t row = 0; row < shape.batch; ++row) {
    expected.Append(distinct, row % kRows * shape.k, shape.k);
  }
  CompareEach(problem, expected);
}

TEST_F(SelectLargeTest, LargeStride) {
  SelectCase problem = {.shape = {.type = ScoreType::kFloat16, .batch = 2, .n = 40'000, .k = 33},
                        .seed = random_.Bits()};
  const HostScores dense = MakeScores(problem);
  const Answer expected = OracleAnswer(problem, dense);
  problem.stride = kTwoTo31 + 7;
  const int64_t count = problem.stride + problem.shape.n;
  char* const scores = ScoresOf(problem, count);
  if (IsSkipped()) return;
  // 0x5a5a is 203.25: better than any score.
  ASSERT_EQ(cudaMemsetAsync(scores, 0x5a, static_cast<size_t>(count * 2), site_->stream()),
            cudaSuccess);
  for (const int64_t row : {0, 1}) {
    Copy(scores + row * problem.stride * 2, dense.Row(row), problem.shape.n * 2);
  }
  CompareEach(problem, expected);
}

}  // namespace
}  // namespace nearfield::select

// Tests the scan kernels of every instruction set of this machine, and the portable fallback: their
// sums equal those of engine/score bit for bit, and their filter drops no row that can be a result.
#include "engine/cpu/kernels/scan_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/cpu/workspace.h"
#include "engine/score/score.h"
#include "tests/engine/cpu/reference.h"

namespace nearfield::cpu {
namespace {

constexpr SumKind kSumKinds[] = {SumKind::kProduct, SumKind::kSquaredDistance};

uint64_t Bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// A corpus in the backend's layout: rows padded with zeros.
class PaddedRows {
 public:
  explicit PaddedRows(const Corpus& corpus) : corpus_(corpus) {
    const int32_t stride = PaddedDim(corpus.spec.dim) * BytesPerElement(corpus.spec.row_type);
    bytes_ = buffer_.Ensure(corpus.rows_count() * stride);
    std::fill(bytes_, bytes_ + corpus.rows_count() * stride, std::byte{0});
    for (int64_t r = 0; r < corpus.rows_count(); ++r) {
      std::memcpy(bytes_ + r * stride, corpus.row(r).data(), corpus.row(r).size());
    }
  }
  RowTile tile() const {
    return {bytes_, static_cast<int32_t>(corpus_.rows_count()), PaddedDim(corpus_.spec.dim),
            corpus_.spec.row_type};
  }

 private:
  const Corpus& corpus_;
  ScratchBuffer<std::byte> buffer_;
  std::byte* bytes_;
};

std::string Explain(const Corpus& corpus, SumKind kind) {
  return testing::Describe(corpus.spec) + ", " + std::to_string(corpus.rows_count()) + " rows, " +
         (kind == SumKind::kProduct ? "product" : "squared distance");
}

class ScanKernelsTest : public ::testing::TestWithParam<const ScanKernels*> {
 protected:
  const ScanKernels& kernels() const { return *GetParam(); }
  Random random_{TestSeed()};

  Corpus RandomCorpus(int32_t dim, RowType row_type, int64_t rows_count) {
    const CollectionSpec spec = {.dim = dim, .row_type = row_type};
    const auto family = random_.OneOf<CorpusFamily>(testing::kCorpusFamilies);
    return MakeCorpus(spec, family, rows_count, random_.Bits());
  }

  std::vector<float> RandomQueries(const Corpus& corpus, int32_t count) {
    std::vector<float> queries;
    for (int32_t q = 0; q < count; ++q) {
      const std::vector<float> query =
          MakeQuery(corpus, random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
      queries.insert(queries.end(), query.begin(), query.end());
    }
    return queries;
  }

  void CheckOne(const Corpus& corpus, SumKind kind) {
    const PaddedRows rows(corpus);
    const int32_t dim = corpus.spec.dim;
    const std::vector<float> query = RandomQueries(corpus, 1);
    ScratchBuffer<double> padded;
    double* const wide = padded.Ensure(PaddedDim(dim));
    std::fill(std::copy(query.begin(), query.end(), wide), wide + PaddedDim(dim), 0.0);
    std::vector<double> sums(static_cast<size_t>(corpus.rows_count()) + kRowGroup);
    std::vector<double> squares(sums.size());
    kernels().scan_one(rows.tile(), kind, wide, sums.data());
    kernels().square_rows(rows.tile(), squares.data());
    for (int64_t r = 0; r < corpus.rows_count(); ++r) {
      const std::vector<float> row = testing::Decode(corpus.spec, corpus.row(r));
      ASSERT_EQ(Bits(sums[static_cast<size_t>(r)]), Bits(testing::ReferenceSum(kind, row, query)))
          << Explain(corpus, kind) << ", row " << r;
      ASSERT_EQ(Bits(squares[static_cast<size_t>(r)]),
                Bits(testing::ReferenceSum(SumKind::kProduct, row, row)))
          << Explain(corpus, kind) << ", square of row " << r;
    }
  }

  void CheckGroup(const Corpus& corpus, SumKind kind, int32_t queries_count) {
    const PaddedRows rows(corpus);
    const int32_t dim = corpus.spec.dim;
    const auto rows_count = static_cast<int32_t>(corpus.rows_count());
    const std::vector<float> queries = RandomQueries(corpus, queries_count);
    ScratchBuffer<double> packed;
    ScratchBuffer<double> scratch;
    GroupScan scan;
    scan.tile = rows.tile();
    scan.kind = kind;
    double* const packed_queries = packed.Ensure(int64_t{queries_count} * PaddedDim(dim));
    kernels().pack_queries(queries.data(), queries_count, dim, packed_queries);
    scan.queries = packed_queries;
    scan.queries_count = queries_count;
    scan.scratch = scratch.Ensure(kernels().scratch_doubles(PaddedDim(dim)));
    scan.sums_stride = (rows_count + kRowGroup - 1) / kRowGroup * kRowGroup;
    std::vector<double> sums(static_cast<size_t>(scan.sums_stride * queries_count));
    scan.sums = sums.data();
    scan.upcoming = {rows.tile().rows, 64};
    kernels().scan_group(scan);
    for (int32_t r = 0; r < rows_count; ++r) {
      const std::vector<float> row = testing::Decode(corpus.spec, corpus.row(r));
      for (int32_t q = 0; q < queries_count; ++q) {
        const absl::Span<const float> query(queries.data() + q * dim, static_cast<size_t>(dim));
        ASSERT_EQ(Bits(sums[static_cast<size_t>(q * scan.sums_stride + r)]),
                  Bits(testing::ReferenceSum(kind, row, query)))
            << Explain(corpus, kind) << ", row " << r << ", query " << q << " of " << queries_count;
      }
    }
  }
};

TEST_P(ScanKernelsTest, SumsOfOneQueryEqualTheReference) {
  std::vector<int32_t> dims = {255, 256, 257, 384, 767, 768, 1000, 1024, 1537, 4096, kDimMax};
  for (int32_t dim = 1; dim <= 200; ++dim) dims.push_back(dim);
  for (const int32_t dim : dims) {
    for (const RowType row_type : kRowTypes) {
      for (const SumKind kind : kSumKinds) {
        CheckOne(RandomCorpus(dim, row_type, random_.Between(1, dim > 200 ? 12 : 20)), kind);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ScanKernelsTest, SumsOfManyQueriesEqualTheReference) {
  std::vector<int32_t> dims = {255, 257, 384, 768, 1000, 4096};
  for (int32_t dim = 1; dim <= 200; dim += dim < 70 ? 1 : 7) dims.push_back(dim);
  for (const int32_t dim : dims) {
    for (const RowType row_type : kRowTypes) {
      for (const SumKind kind : kSumKinds) {
        CheckGroup(RandomCorpus(dim, row_type, random_.Between(1, dim > 200 ? 12 : 40)), kind,
                   static_cast<int32_t>(random_.Between(2, 20)));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ScanKernelsTest, EveryShapeOfTileAndGroupIsServed) {
  for (int32_t rows_count = 1; rows_count <= 18; ++rows_count) {
    for (int32_t queries_count = 1; queries_count <= 20; ++queries_count) {
      CheckGroup(RandomCorpus(33, RowType::kFloat32, rows_count), SumKind::kProduct, queries_count);
      if (HasFatalFailure()) return;
    }
  }
}

// The filter of rows by score may keep a doubtful row but never drops one that reaches the
// threshold. For dot it is exact.
TEST_P(ScanKernelsTest, FilterKeepsEveryRowThatReachesTheThreshold) {
  const float infinity = -score::MinusInfinity();
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    for (int32_t rows_count = 1; rows_count <= 40; ++rows_count) {
      std::vector<double> sums(static_cast<size_t>(rows_count) + kRowGroup);
      std::vector<double> squares(sums.size());
      std::vector<double> roots(sums.size());
      std::vector<float> scores(static_cast<size_t>(rows_count));
      const double query_square = 2.5;
      for (size_t r = 0; r < scores.size(); ++r) {
        sums[r] = static_cast<double>(random_.Gaussian()) * (random_.OneIn(5) ? 1e300 : 1);
        if (random_.OneIn(6)) sums[r] = random_.OneIn(2) ? 0.0 : 1.0;
        if (metric == Metric::kL2) sums[r] = std::abs(sums[r]);
        squares[r] = random_.OneIn(4) ? 0.0 : std::abs(static_cast<double>(random_.Gaussian()));
        if (metric == Metric::kCosine && squares[r] == 0.0) sums[r] = 0.0;
        roots[r] = std::sqrt(squares[r]);
        scores[r] = metric == Metric::kDot  ? score::DotScore(sums[r])
                    : metric == Metric::kL2 ? score::L2Score(sums[r])
                                            : score::CosineScore(sums[r], query_square, squares[r]);
      }
      std::vector<float> thresholds = {score::MinusInfinity(), infinity, 0.0f, 1.0f};
      thresholds.insert(thresholds.end(), scores.begin(), scores.end());
      for (const float score_min : thresholds) {
        if (metric == Metric::kCosine && score_min <= -1.0f)
          continue;  // the caller passes -inf instead
        std::vector<int32_t> surviving(sums.size(), -1);
        const int32_t count = kernels().filter({.metric = metric,
                                                .sums = sums.data(),
                                                .row_roots = roots.data(),
                                                .query_root = std::sqrt(query_square),
                                                .score_min = score_min,
                                                .rows_count = rows_count},
                                               surviving.data());
        ASSERT_LE(count, rows_count);
        surviving.resize(static_cast<size_t>(count));
        ASSERT_TRUE(std::is_sorted(surviving.begin(), surviving.end()));
        for (int32_t r = 0; r < rows_count; ++r) {
          const bool kept = std::binary_search(surviving.begin(), surviving.end(), r);
          const bool reaches = scores[static_cast<size_t>(r)] >= score_min;
          ASSERT_TRUE(kept || !reaches) << "row " << r << " of " << rows_count;
          if (metric == Metric::kDot) {
            ASSERT_EQ(kept, reaches) << "row " << r;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ScanKernelsTest,
                         ::testing::ValuesIn(SupportedScanKernels()),
                         [](const ::testing::TestParamInfo<const ScanKernels*>& param) {
                           return param.param->name;
                         });

TEST(ScanKernelsListTest, EndsWithThePortableOneAndNamesDiffer) {
  const std::vector<const ScanKernels*>& list = SupportedScanKernels();
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list.back(), &PortableScanKernels());
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_STRNE(list[i]->name, list[j]->name);
  }
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_GE(list.size(), 2u) << "AVX2 present, but no kernels for it";
  }
#endif
}

}  // namespace
}  // namespace nearfield::cpu

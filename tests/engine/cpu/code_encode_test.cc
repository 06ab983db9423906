// Tests the vectorized encoders: as with bound/int8_code.cc, no canonical score lies above its
// bound.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/bound/int8_code.h"
#include "engine/bound/query_encoder.h"
#include "engine/cpu/kernels/code_kernels.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/workspace.h"
#include "tests/engine/cpu/encoded_corpus.h"
#include "tests/engine/cpu/reference.h"

namespace nearfield::cpu {
namespace {

// A corpus encoded by one table of kernels.
class Encoded {
 public:
  Encoded(const ScanKernels& kernels, const Corpus& corpus)
      : rotation_(corpus.spec.dim, backend::kRotationSeed), encoded_(kernels, corpus, rotation_) {}
  int8_t code(int64_t row, int32_t d) const {
    const int64_t at = row * CodeStride(static_cast<int32_t>(rotation_.dimension())) + d;
    return static_cast<int8_t>(int32_t{encoded_.codes.get()[at]} - kCodeBias);
  }
  const bound::Rotation& rotation() const { return rotation_; }
  const std::vector<bound::RowBound>& bounds() const { return encoded_.bounds; }

 private:
  bound::Rotation rotation_;
  testing::EncodedCorpus encoded_;
};

class CodeEncodeTest : public ::testing::TestWithParam<const ScanKernels*> {
 protected:
  const ScanKernels& kernels() const { return *GetParam(); }
  Random random_{TestSeed()};

  void CheckQuery(const Corpus& corpus, const Encoded& rows, const std::vector<float>& query) {
    const int32_t dim = corpus.spec.dim;
    std::vector<int8_t> first(query.size());
    std::vector<int8_t> second(query.size());
    std::vector<int16_t> whole(query.size());
    ScratchBuffer<double> scratch;
    EncodeQueryArgs args;
    args.rotation = &rows.rotation();
    args.dim = dim;
    args.metric = corpus.spec.metric;
    args.query = query.data();
    args.first = first.data();
    args.second = second.data();
    args.scratch = scratch.Ensure(EncodeScratchDoubles(dim));
    const bound::QueryBounds bounds = kernels().codes.encode_query(args);
    args.whole = whole.data();
    args.whole_max = static_cast<int32_t>(random_.Between(1, 32768));
    const bound::QueryBounds with_whole = kernels().codes.encode_query(args);
    ASSERT_EQ(std::memcmp(&with_whole.first_only, &bounds.first_only, sizeof(bound::QueryBound)),
              0);
    args.first = nullptr;
    const bound::QueryBounds whole_only = kernels().codes.encode_query(args);
    ASSERT_EQ(std::memcmp(&whole_only.both, &with_whole.both, sizeof(bound::QueryBound)), 0);
    for (int64_t r = 0; r < corpus.rows_count(); ++r) {
      int32_t of_first = 0;
      int32_t of_second = 0;
      int64_t of_whole = 0;
      for (int32_t d = 0; d < dim; ++d) {
        const int32_t code = rows.code(r, d);
        ASSERT_GE(code, -127);
        of_first += code * first[static_cast<size_t>(d)];
        of_second += code * second[static_cast<size_t>(d)];
        ASSERT_LE(std::abs(whole[static_cast<size_t>(d)]), args.whole_max);
        of_whole += code * whole[static_cast<size_t>(d)];
      }
      if (std::abs(of_whole) > std::numeric_limits<int32_t>::max()) continue;  // beyond whole_max
      const float score = testing::ReferenceScore(
          corpus.spec.metric, testing::Decode(corpus.spec, corpus.row(r)), query);
      const bound::RowBound& bound = rows.bounds()[static_cast<size_t>(r)];
      const float both = bound::UpperScore(bound, bounds.both,
                                           bound::CodeProduct(bounds.both, of_first, of_second));
      const float alone = bound::UpperScore(bound, bounds.first_only,
                                            bound::CodeProduct(bounds.first_only, of_first));
      const float by_whole =
          bound::UpperScore(bound, whole_only.both,
                            bound::CodeProduct(whole_only.both, static_cast<int32_t>(of_whole), 0));
      ASSERT_FALSE(by_whole < score) << testing::Describe(corpus.spec) << ", row " << r;
      ASSERT_FALSE(both < score) << testing::Describe(corpus.spec) << ", row " << r;
      ASSERT_FALSE(alone < score) << testing::Describe(corpus.spec) << ", row " << r;
    }
  }

  // Returns the row minus what its codes represent: the query that makes the bound tightest.
  std::vector<float> ResidualOf(const Corpus& corpus, const Encoded& rows, int64_t row) {
    const int32_t dim = corpus.spec.dim;
    std::vector<double> work(static_cast<size_t>(dim));
    const bound::RowBound& bound = rows.bounds()[static_cast<size_t>(row)];
    for (int32_t d = 0; d < dim; ++d) {
      work[static_cast<size_t>(d)] = static_cast<double>(bound.scale) * rows.code(row, d);
    }
    rows.rotation().BringBackWithQuery(absl::MakeSpan(work));
    std::vector<float> residual = testing::Decode(corpus.spec, corpus.row(row));
    double norm = 1.0;
    if (corpus.spec.metric == Metric::kCosine) {
      norm = std::sqrt(testing::ReferenceSum(SumKind::kProduct, residual, residual));
    }
    bool zero = true;
    for (size_t d = 0; d < residual.size(); ++d) {
      residual[d] = static_cast<float>(static_cast<double>(residual[d]) / norm - work[d]);
      if (!std::isfinite(residual[d])) residual[d] = 1.0f;
      zero = zero && residual[d] == 0.0f;
    }
    if (zero) residual[0] = 1.0f;  // cosine rejects a zero query
    return residual;
  }
};

TEST_P(CodeEncodeTest, NoScoreLiesAboveItsBound) {
  for (const int32_t dim : testing::kEncodedDims) {
    for (const CorpusFamily family : testing::kCorpusFamilies) {
      const Corpus corpus = testing::AnyCorpus(random_, dim, family);
      SCOPED_TRACE(testing::Name(family));
      const Encoded rows(kernels(), corpus);
      for (const QueryFamily query : testing::kQueryFamilies) {
        CheckQuery(corpus, rows, MakeQuery(corpus, query, random_));
        if (HasFatalFailure()) return;
      }
      CheckQuery(corpus, rows, ResidualOf(corpus, rows, corpus.rows_count() - 1));
      if (HasFatalFailure()) return;
    }
  }
}

// The rotation performs the same additions, so the codes are equal. Only sums of squares may round
// differently.
TEST_P(CodeEncodeTest, CodesAreThoseOfThePlainCode) {
  for (const int32_t dim : testing::kEncodedDims) {
    Corpus corpus = testing::AnyCorpus(random_, dim, CorpusFamily::kGaussian);
    if (corpus.spec.metric == Metric::kCosine) continue;  // divided by a norm that may round
    const Encoded rows(kernels(), corpus);
    std::vector<int8_t> plain(static_cast<size_t>(dim));
    for (int64_t r = 0; r < corpus.rows_count(); ++r) {
      const bound::RowBound bound =
          bound::EncodeRow(rows.rotation(), corpus.spec.metric,
                           testing::Decode(corpus.spec, corpus.row(r)), absl::MakeSpan(plain));
      for (int32_t d = 0; d < dim; ++d) {
        ASSERT_EQ(rows.code(r, d), plain[static_cast<size_t>(d)]) << "dim " << dim << " at " << d;
      }
      ASSERT_EQ(rows.bounds()[static_cast<size_t>(r)].scale, bound.scale);
      ASSERT_EQ(rows.bounds()[static_cast<size_t>(r)].norm, bound.norm);
    }
  }
}

TEST_P(CodeEncodeTest, ZeroRowsOfCosineScoreLessThanAnything) {
  const CollectionSpec spec = {.dim = 100, .metric = Metric::kCosine};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kAllZero, 3, random_.Bits());
  const Encoded rows(kernels(), corpus);
  for (const bound::RowBound& bound : rows.bounds()) {
    EXPECT_EQ(bound.residual, -std::numeric_limits<float>::infinity());
  }
}

// Every backend encodes queries with the fastest kernels that this CPU supports.
TEST(QueryEncoderTest, EncodesAsTheFastestKernels) {
  Random random(TestSeed());
  bound::QueryEncoder encoder;
  for (const int32_t dim : testing::kEncodedDims) {
    const Corpus corpus = testing::AnyCorpus(random, dim, CorpusFamily::kGaussian);
    const bound::Rotation rotation(dim, backend::kRotationSeed);
    const std::vector<float> query = MakeQuery(corpus, QueryFamily::kGaussian, random);
    const std::vector<int8_t> none(query.size());
    std::vector<int8_t> first = none, second = none, want_first = none, want_second = none;
    ScratchBuffer<double> scratch;
    EncodeQueryArgs args;
    args.rotation = &rotation;
    args.dim = dim;
    args.metric = corpus.spec.metric;
    args.query = query.data();
    args.first = want_first.data();
    args.second = want_second.data();
    args.scratch = scratch.Ensure(EncodeScratchDoubles(dim));
    const bound::QueryBounds want = SupportedScanKernels().front()->codes.encode_query(args);
    const bound::QueryBounds bounds = encoder.Encode(rotation, corpus.spec.metric, query,
                                                     absl::MakeSpan(first), absl::MakeSpan(second));
    EXPECT_EQ(first, want_first);
    EXPECT_EQ(second, want_second);
    EXPECT_EQ(std::memcmp(&bounds, &want, sizeof(bounds)), 0) << "dim " << dim;
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CodeEncodeTest,
                         ::testing::ValuesIn(SupportedScanKernels()),
                         [](const ::testing::TestParamInfo<const ScanKernels*>& param) {
                           return param.param->name;
                         });

}  // namespace
}  // namespace nearfield::cpu

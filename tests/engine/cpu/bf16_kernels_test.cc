// bf16 copies on every instruction set of this machine: products, bounds step for step, and copies
// that prove what they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "engine/corpus/scan_code.h"
#include "engine/cpu/code_kernels.h"
#include "engine/cpu/scan_kernels.h"
#include "engine/cpu/workspace.h"
#include "engine/score/bf16_bound.h"
#include "engine/score/row_types.h"
#include "tests/engine/cpu/encoded_corpus.h"
#include "tests/engine/cpu/reference.h"
#include "tests/testing/corpora.h"
#include "tests/testing/seed.h"

namespace nearfield::cpu {
namespace {

using testing::Corpus;
using testing::CorpusFamily;
using testing::QueryFamily;
using testing::Random;

// Copies as the planes hold them, padded with zeros.
class Plane {
 public:
  Plane(const std::vector<float>& values, int32_t dim) : dim_(dim) {
    const auto rows = static_cast<int64_t>(values.size()) / dim;
    const int64_t bytes = rows * Bf16Stride(dim);
    uint8_t* const plane = buffer_.Ensure(bytes);
    std::fill(plane, plane + bytes, uint8_t{0});
    for (int64_t r = 0; r < rows; ++r) {
      auto* const copy = reinterpret_cast<uint16_t*>(plane + r * Bf16Stride(dim));
      for (int32_t d = 0; d < dim; ++d) {
        copy[d] = score::Bf16CopyBits(values[static_cast<size_t>(r * dim + d)]);
      }
    }
  }
  CodeTile tile(int32_t rows_count) const { return {buffer_.get(), rows_count, dim_}; }

 private:
  int32_t dim_;
  ScratchBuffer<uint8_t> buffer_;
};

// A corpus copied by one table of kernels.
class Copied {
 public:
  Copied(const ScanKernels& kernels, const Corpus& corpus)
      : dim_(corpus.spec.dim),
        encoded_(kernels, ScanPrecision::kBf16, corpus, Bf16Stride(dim_), nullptr) {}
  // The padding too.
  absl::Span<const uint16_t> copy(int64_t row) const {
    const auto* const bytes = encoded_.codes.get() + row * Bf16Stride(dim_);
    return absl::MakeConstSpan(reinterpret_cast<const uint16_t*>(bytes),
                               static_cast<size_t>(Bf16Stride(dim_) / 2));
  }
  const std::vector<score::RowBound>& bounds() const { return encoded_.bounds; }
  CodeTile tile() const {
    return {encoded_.codes.get(), static_cast<int32_t>(bounds().size()), dim_};
  }

 private:
  int32_t dim_;
  testing::EncodedCorpus encoded_;
};

class Bf16KernelsTest : public ::testing::TestWithParam<const ScanKernels*> {
 protected:
  const CodeKernels& kernels() const { return GetParam()->bf16; }
  Random random_{testing::TestSeed()};

  std::vector<float> SmallIntegers(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random_.Between(-30, 31));
    return values;
  }

  // Sums of small integers are exact in whatever order.
  void CheckProducts(int32_t rows_count, int32_t queries_count, int32_t dim) {
    const std::vector<float> rows = SmallIntegers(int64_t{rows_count} * dim);
    const std::vector<float> queries = SmallIntegers(int64_t{queries_count} * dim);
    const Plane plane(rows, dim);
    const auto expected = [&](int64_t row, int64_t query) {
      float sum = 0;
      for (int32_t d = 0; d < dim; ++d) {
        sum += rows[static_cast<size_t>(row * dim + d)] *
               queries[static_cast<size_t>(query * dim + d)];
      }
      return sum;
    };
    ScratchBuffer<std::byte> packed;
    std::vector<float> sums(static_cast<size_t>(rows_count) + kCodeRowGroup);
    kernels().pack_one(queries.data(), nullptr, dim, packed.Ensure(kernels().one_bytes(dim)));
    kernels().scan_one(plane.tile(rows_count), packed.get(), sums.data(), nullptr);
    for (int32_t r = 0; r < rows_count; ++r) {
      ASSERT_EQ(sums[static_cast<size_t>(r)], expected(r, 0)) << "row " << r << ", dim " << dim;
    }
    const int32_t lanes = kernels().lanes;
    const int32_t panels = (queries_count + lanes - 1) / lanes;
    const int64_t panel_bytes = kernels().panel_bytes(dim);
    packed.Ensure(panels * panel_bytes);
    for (int32_t p = 0; p < panels; ++p) {
      kernels().pack_panel(queries.data() + int64_t{p} * lanes * dim, dim,
                           std::min(lanes, queries_count - p * lanes), dim,
                           packed.get() + p * panel_bytes);
    }
    ScratchBuffer<float> products;
    products.Ensure(int64_t{rows_count} * panels * lanes);
    kernels().scan_panels(plane.tile(rows_count), packed.get(), panels, products.get());
    for (int32_t r = 0; r < rows_count; ++r) {
      for (int32_t q = 0; q < queries_count; ++q) {
        ASSERT_EQ(products.get()[int64_t{r} * panels * lanes + q], expected(r, q))
            << "row " << r << " of " << rows_count << ", query " << q << " of " << queries_count
            << ", dim " << dim;
      }
    }
  }

  void CheckQuery(const Corpus& corpus, const Copied& rows, const std::vector<float>& query) {
    const int32_t dim = corpus.spec.dim;
    std::vector<float> multiplied(query.size());
    EncodeQueryArgs args;
    args.dim = dim;
    args.metric = corpus.spec.metric;
    args.query = query.data();
    args.first = multiplied.data();
    const corpus::QueryBounds bounds = kernels().encode_query(args);
    ScratchBuffer<std::byte> packed;
    kernels().pack_one(multiplied.data(), nullptr, dim, packed.Ensure(kernels().one_bytes(dim)));
    std::vector<float> sums(rows.bounds().size() + kCodeRowGroup);
    kernels().scan_one(rows.tile(), packed.get(), sums.data(), nullptr);
    for (size_t r = 0; r < rows.bounds().size(); ++r) {
      const float score = testing::ReferenceScore(
          corpus.spec.metric, testing::Decode(corpus.spec, corpus.row(static_cast<int64_t>(r))),
          query);
      for (const score::QueryBound& bound : {bounds.both, bounds.first_only}) {
        const float upper =
            score::UpperScore(rows.bounds()[r], bound, score::CodeProduct(bound, sums[r]));
        ASSERT_FALSE(upper < score) << testing::Describe(corpus.spec) << ", row " << r;
      }
    }
  }
};

TEST_P(Bf16KernelsTest, ProductsAreThoseOfTheReferenceInEveryDimension) {
  for (const int32_t dim : testing::kEncodedDims) {
    CheckProducts(9, 20, dim);
    if (HasFatalFailure()) return;
  }
  CheckProducts(3, 5, kDimMax);
}

TEST_P(Bf16KernelsTest, EveryShapeOfTileAndPanelsIsServed) {
  for (int32_t rows_count = 1; rows_count <= 18; ++rows_count) {
    for (int32_t queries_count = 1; queries_count <= kPanelsMax * kernels().lanes;
         queries_count += 3) {
      CheckProducts(rows_count, queries_count, 37);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Bf16KernelsTest, NoScoreLiesAboveItsBound) {
  for (const int32_t dim : testing::kEncodedDims) {
    for (const CorpusFamily family : testing::kCorpusFamilies) {
      const Corpus corpus = testing::AnyCorpus(random_, dim, family);
      SCOPED_TRACE(testing::Name(family));
      const Copied rows(*GetParam(), corpus);
      for (const QueryFamily query : testing::kQueryFamilies) {
        CheckQuery(corpus, rows, testing::MakeQuery(corpus, query, random_));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Bf16KernelsTest, CopiesAreThoseOfThePlainCode) {
  for (const int32_t dim : testing::kEncodedDims) {
    for (const CorpusFamily family : testing::kCorpusFamilies) {
      const Corpus corpus = testing::AnyCorpus(random_, dim, family);
      if (corpus.spec.metric == Metric::kCosine) continue;  // divided by a norm that may round
      const Copied rows(*GetParam(), corpus);
      std::vector<uint16_t> plain(static_cast<size_t>(dim));
      for (int64_t r = 0; r < corpus.rows_count(); ++r) {
        const score::RowBound bound = corpus::EncodeBf16Row(
            corpus.spec.metric, testing::Decode(corpus.spec, corpus.row(r)), absl::MakeSpan(plain));
        const absl::Span<const uint16_t> copy = rows.copy(r);
        ASSERT_TRUE(std::equal(plain.begin(), plain.end(), copy.begin())) << "dim " << dim;
        for (size_t d = plain.size(); d < copy.size(); ++d) ASSERT_EQ(copy[d], 0) << "padding";
        ASSERT_EQ(rows.bounds()[static_cast<size_t>(r)].scale, bound.scale);
      }
    }
  }
}

TEST_P(Bf16KernelsTest, ZeroRowsOfCosineScoreLessThanAnything) {
  CollectionSpec spec;
  spec.dim = 100;
  spec.metric = Metric::kCosine;
  const Corpus corpus = testing::MakeCorpus(spec, CorpusFamily::kAllZero, 3, random_.Bits());
  const Copied rows(*GetParam(), corpus);
  for (const score::RowBound& bound : rows.bounds()) {
    EXPECT_EQ(bound.residual, -std::numeric_limits<float>::infinity());
  }
}

// Terms of a bound of every magnitude, infinities and NaN among them.
float AnyTerm(Random& random) {
  const float infinity = std::numeric_limits<float>::infinity();
  if (random.OneIn(12)) return infinity;
  if (random.OneIn(12)) return -infinity;
  if (random.OneIn(12)) return std::numeric_limits<float>::quiet_NaN();
  if (random.OneIn(6)) return 0.0f;
  return random.Gaussian() * std::ldexp(1.0f, static_cast<int>(random.Between(-60, 60)));
}

TEST_P(Bf16KernelsTest, FiltersKeepWhatIsNotBelowAndNothingElse) {
  constexpr int32_t kRows = 45;
  const int32_t lanes = kernels().lanes;
  for (int round = 0; round < 200; ++round) {
    std::vector<score::RowBound> bounds(kRows);
    for (auto& bound : bounds) {
      bound = {random_.OneIn(8) ? 0.0f : 1.0f, AnyTerm(random_), std::fabs(AnyTerm(random_)),
               std::fabs(AnyTerm(random_))};
    }
    const score::QueryBound query = {random_.OneIn(2) ? 1.0f : 2.0f, 0.0f,
                                     std::fabs(AnyTerm(random_)), std::fabs(AnyTerm(random_)),
                                     AnyTerm(random_)};
    const float threshold = random_.Gaussian();
    std::vector<float> sums(static_cast<size_t>(kRows * lanes));
    for (float& sum : sums) sum = AnyTerm(random_);
    std::vector<int32_t> passed(kRows);
    std::vector<float> upper(kRows);
    const int32_t count = kernels().filter_one({.bounds = bounds.data(),
                                                .first = sums.data(),
                                                .second = nullptr,
                                                .query = query,
                                                .threshold = threshold,
                                                .rows_count = kRows},
                                               passed.data(), upper.data());
    const auto kept = [&](int32_t row, size_t sum) {
      return !(score::UpperScore(bounds[static_cast<size_t>(row)], query,
                                 score::CodeProduct(query, sums[sum])) < threshold);
    };
    std::vector<int32_t> expected;
    for (int32_t r = 0; r < kRows; ++r) {
      if (kept(r, static_cast<size_t>(r))) expected.push_back(r);
    }
    passed.resize(static_cast<size_t>(count));
    ASSERT_EQ(passed, expected);

    const auto terms = [&](float term) { return std::vector<float>(sums.size(), term); };
    const std::vector<float> first_scale = terms(query.first_scale);
    const std::vector<float> of_residual = terms(query.of_residual);
    const std::vector<float> of_norm = terms(query.of_norm);
    const std::vector<float> less = terms(query.less);
    const std::vector<float> thresholds = terms(threshold);
    std::vector<Survivor> survivors(sums.size());
    const int32_t pairs = kernels().filter_panels({.bounds = bounds.data(),
                                                   .rows_count = kRows,
                                                   .products = sums.data(),
                                                   .width = lanes,
                                                   .queries_count = lanes - 1,
                                                   .first_scale = first_scale.data(),
                                                   .of_residual = of_residual.data(),
                                                   .of_norm = of_norm.data(),
                                                   .less = less.data(),
                                                   .threshold = thresholds.data()},
                                                  survivors.data());
    std::vector<uint8_t> present(sums.size());
    for (int32_t i = 0; i < pairs; ++i) {
      const Survivor& survivor = survivors[static_cast<size_t>(i)];
      present[static_cast<size_t>(survivor.row * lanes + survivor.query)] = 1;
    }
    for (int32_t r = 0; r < kRows; ++r) {
      for (int32_t q = 0; q < lanes; ++q) {
        const auto at = static_cast<size_t>(r * lanes + q);
        ASSERT_EQ(present[at] != 0, q < lanes - 1 && kept(r, at)) << "row " << r << ", query " << q;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Bf16KernelsTest,
                         ::testing::ValuesIn(SupportedScanKernels()),
                         [](const ::testing::TestParamInfo<const ScanKernels*>& param) {
                           return param.param->name;
                         });

}  // namespace
}  // namespace nearfield::cpu

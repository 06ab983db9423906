// Tests the code kernels of every instruction set of this machine: exact products, bounds that
// equal bound::UpperScore, and codes whose bounds hold.
#include "engine/cpu/kernels/code_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "engine/bound/certified_bound.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/workspace.h"
#include "engine/score/score.h"
#include "tests/engine/cpu/reference.h"

namespace nearfield::cpu {
namespace {

enum class Fill { kAny, kGreatest, kLeast, kOpposite };
constexpr Fill kFills[] = {Fill::kAny, Fill::kGreatest, Fill::kLeast, Fill::kOpposite};

std::vector<int8_t> MakeCodes(int64_t rows_count, int32_t dim, Fill fill, Random& random) {
  std::vector<int8_t> codes(static_cast<size_t>(rows_count * dim));
  for (size_t i = 0; i < codes.size(); ++i) {
    const int8_t any = static_cast<int8_t>(random.Between(-127, 128));
    const int8_t alternating = i % 2 == 0 ? 127 : -127;
    codes[i] = fill == Fill::kAny        ? any
               : fill == Fill::kGreatest ? int8_t{127}
               : fill == Fill::kLeast    ? int8_t{-127}
                                         : alternating;
  }
  return codes;
}

template <typename Code>
int32_t Product(const int8_t* a, const Code* b, int32_t dim) {
  int32_t sum = 0;
  for (int32_t d = 0; d < dim; ++d) sum += int32_t{a[d]} * b[d];
  return sum;
}

// Codes in the layout of the planes; the padding of a row is arbitrary.
class Plane {
 public:
  Plane(const std::vector<int8_t>& codes, int32_t dim) : dim_(dim) {
    const auto rows = static_cast<int64_t>(codes.size()) / dim;
    bytes_ = buffer_.Ensure(rows * CodeStride(dim));
    std::fill(bytes_, bytes_ + rows * CodeStride(dim), uint8_t{201});
    for (int64_t r = 0; r < rows; ++r) {
      for (int32_t d = 0; d < dim; ++d) {
        bytes_[r * CodeStride(dim) + d] =
            static_cast<uint8_t>(codes[static_cast<size_t>(r * dim + d)] + kCodeBias);
      }
    }
  }
  CodeTile tile(int32_t rows_count, bool streamed) const {
    return {bytes_, rows_count, dim_, streamed};
  }

 private:
  int32_t dim_;
  ScratchBuffer<uint8_t> buffer_;
  uint8_t* bytes_;
};

class CodeKernelsTest : public ::testing::TestWithParam<const ScanKernels*> {
 protected:
  const CodeKernels& kernels() const { return GetParam()->codes; }
  Random random_{TestSeed()};

  // Returns codes of a whole query, the largest ones where the first code is 127 or -127.
  std::vector<int16_t> WholeOf(const std::vector<int8_t>& first, int32_t dim) {
    const int32_t most = kernels().whole_max(dim);
    std::vector<int16_t> whole(static_cast<size_t>(dim));
    for (size_t d = 0; d < whole.size(); ++d) {
      const int32_t code = std::abs(first[d]) == 127
                               ? most * (first[d] > 0 ? 1 : -1)
                               : static_cast<int32_t>(random_.Between(-most, most + 1));
      whole[d] = static_cast<int16_t>(code);
    }
    return whole;
  }

  void CheckProducts(int32_t rows_count, int32_t queries_count, int32_t dim, Fill rows_fill,
                     Fill queries_fill) {
    const std::vector<int8_t> rows = MakeCodes(rows_count, dim, rows_fill, random_);
    const std::vector<int8_t> queries = MakeCodes(2 * queries_count, dim, queries_fill, random_);
    const Plane plane(rows, dim);
    const auto expected = [&](int32_t row, int32_t code) {
      return Product(rows.data() + int64_t{row} * dim, queries.data() + int64_t{code} * dim, dim);
    };
    ScratchBuffer<std::byte> packed;
    std::vector<int32_t> first(static_cast<size_t>(rows_count) + kCodeRowGroup);
    std::vector<int32_t> second(first.size());
    const std::vector<int16_t> whole = WholeOf(queries, dim);
    kernels().pack_one({queries.data(), queries.data() + dim, whole.data()}, dim,
                       packed.Ensure(kernels().one_bytes(dim)));
    const CodeTile tile = plane.tile(rows_count, random_.OneIn(2));
    kernels().scan_one(tile, packed.get(), first.data(), second.data());
    for (int32_t r = 0; r < rows_count; ++r) {
      const bool has_whole = kernels().whole_max(dim) > 0;
      const int8_t* const row = rows.data() + int64_t{r} * dim;
      ASSERT_EQ(first[static_cast<size_t>(r)],
                has_whole ? Product(row, whole.data(), dim) : expected(r, 0))
          << "row " << r << ", dim " << dim;
      ASSERT_EQ(second[static_cast<size_t>(r)], has_whole ? 0 : expected(r, 1))
          << "row " << r << ", dim " << dim;
    }
    const int32_t lanes = kernels().lanes;
    const int32_t panels = (queries_count + lanes - 1) / lanes;
    const int64_t panel_bytes = kernels().panel_bytes(dim);
    packed.Ensure(panels * panel_bytes);
    for (int32_t p = 0; p < panels; ++p) {
      kernels().pack_panel(queries.data() + int64_t{2} * p * lanes * dim, int64_t{2} * dim,
                           std::min(lanes, queries_count - p * lanes), dim,
                           packed.get() + p * panel_bytes);
    }
    ScratchBuffer<int32_t> products;
    products.Ensure(int64_t{rows_count} * panels * lanes);
    kernels().begin_panels();
    kernels().scan_panels(tile, packed.get(), panels, products.get());
    kernels().end_panels();
    for (int32_t r = 0; r < rows_count; ++r) {
      for (int32_t q = 0; q < queries_count; ++q) {
        ASSERT_EQ(products.get()[int64_t{r} * panels * lanes + q], expected(r, 2 * q))
            << "row " << r << " of " << rows_count << ", query " << q << " of " << queries_count
            << ", dim " << dim;
      }
    }
  }
};

TEST_P(CodeKernelsTest, ProductsAreExactInEveryDimension) {
  for (int32_t dim = 1; dim <= 140; ++dim) {
    CheckProducts(static_cast<int32_t>(random_.Between(1, 80)),
                  static_cast<int32_t>(random_.Between(1, kPanelsMax * kernels().lanes + 1)), dim,
                  Fill::kAny, Fill::kAny);
    if (HasFatalFailure()) return;
  }
  for (const int32_t dim : {255, 384, 768, 1000, 1537, kDimMax}) {
    CheckProducts(9, 20, dim, Fill::kAny, Fill::kAny);
    if (HasFatalFailure()) return;
  }
}

// Saturating instructions would give other sums for these codes.
TEST_P(CodeKernelsTest, ProductsOfTheGreatestCodesAreExact) {
  for (const Fill rows : kFills) {
    for (const Fill queries : kFills) {
      for (const int32_t dim : {1, 2, 4, 63, 64, 768, kDimMax}) {
        CheckProducts(7, 18, dim, rows, queries);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CodeKernelsTest, EveryShapeOfTileAndPanelsIsServed) {
  for (int32_t rows_count = 1; rows_count <= 50; rows_count += rows_count < 18 ? 1 : 5) {
    for (int32_t queries_count = 1; queries_count <= kPanelsMax * kernels().lanes;
         queries_count += 3) {
      CheckProducts(rows_count, queries_count, 37, Fill::kAny, Fill::kAny);
      if (HasFatalFailure()) return;
    }
  }
}

float AnyTerm(Random& random) {
  const float infinity = std::numeric_limits<float>::infinity();
  if (random.OneIn(12)) return infinity;
  if (random.OneIn(12)) return -infinity;
  if (random.OneIn(6)) return 0.0f;
  return random.Gaussian() * std::ldexp(1.0f, static_cast<int>(random.Between(-60, 60)));
}

std::vector<bound::RowBound> AnyBounds(int32_t rows_count, Random& random) {
  std::vector<bound::RowBound> bounds(static_cast<size_t>(rows_count));
  for (auto& bound : bounds) {
    bound = {std::fabs(AnyTerm(random)), AnyTerm(random), std::fabs(AnyTerm(random)),
             std::fabs(AnyTerm(random))};
  }
  return bounds;
}
std::vector<bound::RowBound> UsualBounds(int32_t rows_count, Random& random) {
  std::vector<bound::RowBound> bounds(static_cast<size_t>(rows_count));
  const bool l2 = random.OneIn(2);
  for (auto& bound : bounds) {
    const float scale = 1.0f + 0.1f * random.Gaussian();
    bound = {std::fabs(scale), 0.3f * std::fabs(scale), 20.0f, l2 ? 400.0f * scale : 0.0f};
  }
  return bounds;
}
bound::QueryBound AnyQueryBound(Random& random) {
  return {AnyTerm(random), AnyTerm(random), std::fabs(AnyTerm(random)), std::fabs(AnyTerm(random)),
          std::fabs(AnyTerm(random))};
}
std::vector<int32_t> AnyProducts(int64_t count, Random& random) {
  std::vector<int32_t> products(static_cast<size_t>(count));
  for (int32_t& product : products) {
    product = static_cast<int32_t>(random.Between(-130'000'000, 130'000'000));
  }
  return products;
}

constexpr int32_t kFilterRows = 45;
constexpr int kFilterRounds = 200;

// Some thresholds are bounds of rows, or the next value above one.
TEST_P(CodeKernelsTest, TheFilterOfPanelsKeepsWhatIsNotBelowAndNothingElse) {
  const int32_t lanes = kernels().lanes;
  const float infinity = std::numeric_limits<float>::infinity();
  for (int round = 0; round < 2 * kFilterRounds; ++round) {
    const bool usual = random_.OneIn(2);  // terms of one magnitude, as in most collections
    const auto rows_count = static_cast<int32_t>(random_.Between(1, kFilterRows + 1));
    const auto queries_count = static_cast<int32_t>(random_.Between(1, 2 * lanes + 1));
    const int32_t width = (queries_count + lanes - 1) / lanes * lanes;
    const std::vector<bound::RowBound> bounds =
        usual ? UsualBounds(rows_count, random_) : AnyBounds(rows_count, random_);
    const std::vector<int32_t> products = AnyProducts(int64_t{rows_count} * width, random_);
    const auto upper = [&](int32_t row, int32_t q, const bound::QueryBound& query) {
      return bound::UpperScore(
          bounds[static_cast<size_t>(row)], query,
          bound::CodeProduct(query, products[static_cast<size_t>(row * width + q)]));
    };
    std::vector<bound::QueryBound> queries(static_cast<size_t>(width));
    std::vector<float> terms[4];
    std::vector<float> thresholds;
    for (int32_t q = 0; q < width; ++q) {
      bound::QueryBound& query = queries[static_cast<size_t>(q)];
      query = usual ? bound::QueryBound{0x1p-20f, 0, 0.5f, 0.25f, random_.OneIn(2) ? 0.0f : 3.0f}
                    : AnyQueryBound(random_);
      query.second_scale = 0;
      terms[0].push_back(query.first_scale);
      terms[1].push_back(query.of_residual);
      terms[2].push_back(query.of_norm);
      terms[3].push_back(query.squared_norm_lower);
      float bound = upper(static_cast<int32_t>(random_.Between(0, rows_count)), q, query);
      // The largest bound: most rows are below the thresholds of all queries, and are dropped
      // together.
      for (int32_t r = 0; r < rows_count && usual; ++r) bound = std::max(bound, upper(r, q, query));
      thresholds.push_back(!usual && random_.OneIn(3) ? AnyTerm(random_)
                           : random_.OneIn(2)         ? bound
                                                      : std::nextafterf(bound, infinity));
    }
    std::vector<Survivor> survivors(static_cast<size_t>(rows_count * queries_count));
    const int32_t count = kernels().filter_panels({.bounds = bounds.data(),
                                                   .rows_count = rows_count,
                                                   .products = products.data(),
                                                   .width = width,
                                                   .queries_count = queries_count,
                                                   .first_scale = terms[0].data(),
                                                   .of_residual = terms[1].data(),
                                                   .of_norm = terms[2].data(),
                                                   .squared_norm_lower = terms[3].data(),
                                                   .threshold = thresholds.data()},
                                                  survivors.data());
    std::vector<uint8_t> kept(survivors.size());
    for (int32_t i = 0; i < count; ++i) {
      const Survivor& s = survivors[static_cast<size_t>(i)];
      kept[static_cast<size_t>(s.row * queries_count + s.query)] = 1;
    }
    for (int32_t r = 0; r < rows_count; ++r) {
      for (int32_t q = 0; q < queries_count; ++q) {
        const float u = upper(r, q, queries[static_cast<size_t>(q)]);
        ASSERT_EQ(kept[static_cast<size_t>(r * queries_count + q)] != 0,
                  !(u < thresholds[static_cast<size_t>(q)]))
            << u << " and " << thresholds[static_cast<size_t>(q)];
      }
    }
  }
}

TEST_P(CodeKernelsTest, TheFilterOfOneQueryKeepsWhatIsNotBelowAndNothingElse) {
  for (int round = 0; round < kFilterRounds; ++round) {
    const std::vector<bound::RowBound> bounds = AnyBounds(kFilterRows, random_);
    const std::vector<int32_t> first = AnyProducts(kFilterRows, random_);
    const std::vector<int32_t> second = AnyProducts(kFilterRows, random_);
    const bound::QueryBound query = AnyQueryBound(random_);
    const float threshold = AnyTerm(random_);
    std::vector<int32_t> surviving(kFilterRows);
    std::vector<float> upper(kFilterRows);
    const int32_t count = kernels().filter_one({.bounds = bounds.data(),
                                                .first = first.data(),
                                                .second = second.data(),
                                                .query = query,
                                                .threshold = threshold,
                                                .rows_count = kFilterRows},
                                               surviving.data(), upper.data());
    size_t next = 0;
    for (size_t r = 0; r < bounds.size(); ++r) {
      const float u =
          bound::UpperScore(bounds[r], query, bound::CodeProduct(query, first[r], second[r]));
      if (u < threshold) continue;
      ASSERT_LT(static_cast<int32_t>(next), count);
      ASSERT_EQ(surviving[next], static_cast<int32_t>(r));
      ASSERT_TRUE(std::isnan(u) ? std::isnan(upper[next])
                                : score::BitsFromFloat(upper[next]) == score::BitsFromFloat(u));
      ++next;
    }
    ASSERT_EQ(static_cast<int32_t>(next), count);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CodeKernelsTest,
                         ::testing::ValuesIn(SupportedScanKernels()),
                         [](const ::testing::TestParamInfo<const ScanKernels*>& param) {
                           return param.param->name;
                         });

}  // namespace
}  // namespace nearfield::cpu

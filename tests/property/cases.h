// Random cases for the laws: a corpus of one family, queries of several families, and a k for each
// query.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/testing/corpora.h"
#include "tests/testing/random.h"

namespace nearfield::property {

// Values next to the borders of tiles, warps, blocks and registers.
inline constexpr std::array<int64_t, 20> kRowsBorders = {1,    2,    31,   32,   33,   127,  128,
                                                         129,  255,  256,  257,  1023, 1024, 1025,
                                                         2049, 4095, 4096, 4097, 8191, 10000};
inline constexpr std::array<int32_t, 22> kDimBorders = {1,    2,    3,    31,   32,   33,  63,  64,
                                                        65,   100,  127,  128,  129,  384, 511, 768,
                                                        1000, 1024, 1536, 2047, 4096, 8192};
inline constexpr std::array<int32_t, 8> kBatchBorders = {1, 2, 3, 7, 8, 9, 33, 64};
// Values of k; the last three stand for rows - 1, rows and rows + 1.
inline constexpr std::array<int32_t, 9> kKBorders = {1, 2, 10, 100, 1000, 4096, -1, -2, -3};

// Properties that a case must have; the others are drawn.
struct CaseWish {
  std::optional<int64_t> rows_count;
  std::optional<int32_t> dim;
  std::optional<int32_t> batch;
  std::optional<int32_t> k;       // a value of kKBorders
  int32_t dim_max = kDimMax;      // of a dimension that is drawn
  int64_t work_max = 16'000'000;  // maximum of rows * dim * batch, for the oracle
};

struct Case {
  testing::Corpus corpus;
  std::vector<std::vector<float>> queries;
  std::vector<int32_t> k;  // one per query
  std::string text;        // describes the case when a law fails

  SearchBatch Batch() const;              // all queries
  SearchBatch Batch(size_t query) const;  // one query
  std::vector<Neighbors> OracleAnswers() const;
};

Case DrawCase(testing::Random& random, const CaseWish& wish = {});

// Returns the number of random cases for each law: NEARFIELD_PROPERTY_CASES, or kCasesDefault.
inline constexpr int kCasesDefault = 40;
int CasesCount();

}  // namespace nearfield::property

// Adversarial corpora and queries for tests, drawn from a seed, for every row type and id type.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/oracle/oracle.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/engine.h"
#include "nearfield/engine/id_column.h"
#include "nearfield/engine/types.h"
#include "tests/testing/random.h"

namespace nearfield::testing {

enum class CorpusFamily : uint8_t {
  kGaussian,
  kClustered,    // a few centers, little noise
  kDuplicates,   // each row is one of a few
  kAllEqual,     // all rows are equal
  kTwoValues,    // each element is +1 or -1
  kOneHot,       // one element is 1, the others are 0
  kDenormal,     // each element is a denormal of the row type
  kMaxFinite,    // each element is plus or minus the largest finite value: scores overflow
  kBitPatterns,  // arbitrary finite bits
  kNegative,     // each element is negative
  kNearTies,     // copies of one row, each with one element changed by one unit in the last place
  kZeroRows,     // every second row is all zeros, of either sign
  kAllZero,      // all rows are zeros
  kOutliers,     // a few dimensions are a thousand times larger
};
inline constexpr std::array kCorpusFamilies = {
    CorpusFamily::kGaussian, CorpusFamily::kClustered, CorpusFamily::kDuplicates,
    CorpusFamily::kAllEqual, CorpusFamily::kTwoValues, CorpusFamily::kOneHot,
    CorpusFamily::kDenormal, CorpusFamily::kMaxFinite, CorpusFamily::kBitPatterns,
    CorpusFamily::kNegative, CorpusFamily::kNearTies,  CorpusFamily::kZeroRows,
    CorpusFamily::kAllZero,  CorpusFamily::kOutliers};

enum class QueryFamily : uint8_t {
  kGaussian,
  kRow,          // one of the rows
  kOppositeRow,  // one of the rows, negated
  kResidual,     // the error of one of the rows after int8 quantization
  kDenormal,
  kMaxFinite,
  kBitPatterns,
  kOneHot,
  kMinusZero,  // all -0; for cosine one element differs
};
inline constexpr std::array kQueryFamilies = {
    QueryFamily::kGaussian,    QueryFamily::kRow,      QueryFamily::kOppositeRow,
    QueryFamily::kResidual,    QueryFamily::kDenormal, QueryFamily::kMaxFinite,
    QueryFamily::kBitPatterns, QueryFamily::kOneHot,   QueryFamily::kMinusZero};

const char* Name(CorpusFamily family);
const char* Name(QueryFamily family);
const char* Name(Metric metric);
const char* Name(RowType type);
const char* Name(IdType type);
std::string Describe(const CollectionSpec& spec);

// Rows of a collection in host memory, in the form in which they are uploaded.
struct Corpus {
  CollectionSpec spec;
  std::vector<uint8_t> rows;  // [ids.size(), dim] row-major, little-endian, in the row type; finite
  IdColumn ids;               // unique

  int64_t rows_count() const { return ids.size(); }
  int64_t row_bytes() const { return int64_t{spec.dim} * BytesPerElement(spec.row_type); }
  absl::Span<const uint8_t> row(int64_t index) const;
};

Corpus MakeCorpus(const CollectionSpec& spec, CorpusFamily family, int64_t rows_count,
                  uint64_t seed);

// Returns `rows_count` unique ids in random order. Numbers are small, spread over all 64 bits, or
// close to the maximum. Strings share prefixes, have 1 .. kIdBytesMax bytes, and some are not
// ASCII.
IdColumn MakeIds(IdType type, int64_t rows_count, uint64_t seed);

// Returns a finite query for the corpus; for cosine it is never all zeros.
std::vector<float> MakeQuery(const Corpus& corpus, QueryFamily family, Random& random);

// Returns the elements of a stored row as fp32; the conversion is exact.
std::vector<float> Decode(const CollectionSpec& spec, absl::Span<const uint8_t> row);

// Returns the rows at `indices`, in that order.
Corpus Select(const Corpus& corpus, absl::Span<const int64_t> indices);

// Returns 0, 1 .. count-1.
std::vector<int64_t> AllIndices(int64_t count);

// Returns the oracle's answer: ids and scores.
Neighbors OracleAnswer(const Corpus& corpus, absl::Span<const float> query, int64_t k,
                       const oracle::Terms* terms = nullptr);

}  // namespace nearfield::testing

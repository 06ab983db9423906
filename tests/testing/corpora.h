// Adversarial corpora and queries for tests: everything from a seed, for every row type and id
// type.
#ifndef NEARFIELD_TESTS_TESTING_CORPORA_H_
#define NEARFIELD_TESTS_TESTING_CORPORA_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/engine.h"
#include "nearfield/engine/id_column.h"
#include "nearfield/engine/types.h"
#include "tests/testing/random.h"

namespace nearfield::testing {

enum class CorpusFamily : uint8_t {
  kGaussian,
  kClustered,    // a few centres, little noise
  kDuplicates,   // every row one of a few
  kAllEqual,     // every row the same
  kTwoValues,    // every element +1 or -1
  kOneHot,       // one element 1, the others 0
  kDenormal,     // every element a denormal of the row type
  kMaxFinite,    // every element plus or minus the greatest finite value: scores overflow
  kBitPatterns,  // arbitrary finite bits
  kNegative,     // every element below zero
  kNearTies,     // one row, each time with one element one unit in the last place away
  kZeroRows,     // every second row all zeros, of either sign
  kAllZero,      // every row all zeros
  kOutliers,     // a few dimensions a thousand times as large
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
  kResidual,     // what int8 quantisation of one of the rows loses
  kDenormal,
  kMaxFinite,
  kBitPatterns,
  kOneHot,
  kMinusZero,  // all -0; for cosine with one element that is not
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

// Rows of a collection on the host, as they are uploaded.
struct Corpus {
  CollectionSpec spec;
  std::vector<uint8_t> rows;  // [ids.size(), dim] row-major, little-endian, in the row type; finite
  IdColumn ids;               // all different

  int64_t rows_count() const { return ids.size(); }
  int64_t row_bytes() const { return int64_t{spec.dim} * BytesPerElement(spec.row_type); }
  absl::Span<const uint8_t> row(int64_t index) const;
};

Corpus MakeCorpus(const CollectionSpec& spec, CorpusFamily family, int64_t rows_count,
                  uint64_t seed);

// `rows_count` different ids in no order: shuffled small numbers, numbers all over 64 bits, or
// numbers next to the greatest; strings with common prefixes, of 1 .. kIdBytesMax bytes, some of
// them beyond ASCII.
IdColumn MakeIds(IdType type, int64_t rows_count, uint64_t seed);

// A finite query for the corpus; for cosine never all zeros.
std::vector<float> MakeQuery(const Corpus& corpus, QueryFamily family, Random& random);

// The elements of a stored row, as fp32: exact.
std::vector<float> Decode(const CollectionSpec& spec, absl::Span<const uint8_t> row);

// The rows at `indices`, in that order.
Corpus Select(const Corpus& corpus, absl::Span<const int64_t> indices);

// 0, 1 .. count-1.
std::vector<int64_t> AllIndices(int64_t count);

// What the oracle answers: ids and scores.
Neighbors OracleAnswer(const Corpus& corpus, absl::Span<const float> query, int64_t k);

}  // namespace nearfield::testing

#endif  // NEARFIELD_TESTS_TESTING_CORPORA_H_

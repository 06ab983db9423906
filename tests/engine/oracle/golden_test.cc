// Compares sums and scores with those of a script that shares no code with the engine
// (tests/golden/make_golden.py). Reads them from tests/golden/scores.txt, or from the file named by
// NEARFIELD_GOLDEN.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "engine/oracle/oracle.h"
#include "engine/score/row_types.h"
#include "engine/score/score.h"

namespace nearfield {
namespace {

struct GoldenCase {
  std::string name;
  RowType row_type = RowType::kFloat32;
  uint64_t s = 0;  // bits of the sum of products
  uint64_t t = 0;  // bits of the sum of squared differences
  uint32_t dot = 0;
  std::string cosine;  // "-": no score, because the query is all zeros
  uint32_t l2 = 0;
  std::vector<float> query;
  std::vector<uint8_t> row;
};

uint64_t FromHex(const std::string& digits) { return std::stoull(digits, nullptr, 16); }

std::vector<uint32_t> ElementsFromHex(const std::string& digits, size_t element_digits) {
  std::vector<uint32_t> elements;
  for (size_t i = 0; i + element_digits <= digits.size(); i += element_digits) {
    elements.push_back(static_cast<uint32_t>(FromHex(digits.substr(i, element_digits))));
  }
  return elements;
}

GoldenCase Parse(const std::string& line) {
  GoldenCase golden;
  std::string row_type, s, t, dot, l2, query, row;
  std::istringstream(line) >> golden.name >> row_type >> s >> t >> dot >> golden.cosine >> l2 >>
      query >> row;
  if (row_type == "fp16") golden.row_type = RowType::kFloat16;
  if (row_type == "bf16") golden.row_type = RowType::kBFloat16;
  golden.s = FromHex(s);
  golden.t = FromHex(t);
  golden.dot = static_cast<uint32_t>(FromHex(dot));
  golden.l2 = static_cast<uint32_t>(FromHex(l2));
  for (const uint32_t bits : ElementsFromHex(query, 8))
    golden.query.push_back(score::FloatFromBits(bits));
  const auto element_bytes = static_cast<size_t>(BytesPerElement(golden.row_type));
  for (const uint32_t bits : ElementsFromHex(row, 2 * element_bytes)) {
    for (size_t byte = 0; byte < element_bytes; ++byte) {
      golden.row.push_back(static_cast<uint8_t>(bits >> (8 * byte)));
    }
  }
  return golden;
}

std::vector<GoldenCase> ReadGolden() {
  const char* named =
      std::getenv("NEARFIELD_GOLDEN");  // NOLINT(concurrency-mt-unsafe): single thread
  const std::string path = named != nullptr ? named : NEARFIELD_GOLDEN_FILE;
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path
                           << ": cannot be read; NEARFIELD_GOLDEN may name the golden scores";
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') cases.push_back(Parse(line));
  }
  return cases;
}

double Element(const GoldenCase& golden, size_t index) {
  if (golden.row_type == RowType::kFloat32) {
    float value;
    std::memcpy(&value, golden.row.data() + 4 * index, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, golden.row.data() + 2 * index, sizeof(bits));
  return golden.row_type == RowType::kFloat16 ? score::FloatFromHalfBits(bits)
                                              : score::FloatFromBfloat16Bits(bits);
}

uint64_t SumBits(const GoldenCase& golden, double (*step)(double, double, double)) {
  double sums[score::kAccumulators] = {};
  for (size_t d = 0; d < golden.query.size(); ++d) {
    double& sum = sums[d % score::kAccumulators];
    sum = step(static_cast<double>(golden.query[d]), Element(golden, d), sum);
  }
  const double total = score::ReduceAccumulators(sums);
  uint64_t bits;
  std::memcpy(&bits, &total, sizeof(bits));
  return bits;
}

uint32_t ScoreBits(const GoldenCase& golden, Metric metric) {
  return score::BitsFromFloat(
      oracle::Score(metric, golden.row_type, golden.query, golden.row.data()));
}

TEST(OracleGoldenTest, CoversEveryRowTypeAndLength) {
  std::set<RowType> row_types;
  std::set<size_t> dims;
  const std::vector<GoldenCase> cases = ReadGolden();
  for (const GoldenCase& golden : cases) {
    row_types.insert(golden.row_type);
    dims.insert(golden.query.size());
    ASSERT_EQ(golden.row.size(),
              golden.query.size() * static_cast<size_t>(BytesPerElement(golden.row_type)))
        << golden.name;
  }
  EXPECT_GE(cases.size(), 300u);
  EXPECT_EQ(row_types.size(), 3u);
  for (size_t dim = 1; dim <= 66; ++dim) EXPECT_TRUE(dims.count(dim) == 1) << dim;
  EXPECT_TRUE(dims.count(200) == 1);
}

TEST(OracleGoldenTest, SumsHaveTheSameBits) {
  for (const GoldenCase& golden : ReadGolden()) {
    EXPECT_EQ(SumBits(golden, score::DotStep), golden.s) << golden.name;
    EXPECT_EQ(SumBits(golden, score::L2Step), golden.t) << golden.name;
  }
}

TEST(OracleGoldenTest, ScoresOfTheOracleHaveTheSameBits) {
  for (const GoldenCase& golden : ReadGolden()) {
    EXPECT_EQ(ScoreBits(golden, Metric::kDot), golden.dot) << golden.name;
    EXPECT_EQ(ScoreBits(golden, Metric::kL2), golden.l2) << golden.name;
    if (golden.cosine == "-") continue;
    EXPECT_EQ(ScoreBits(golden, Metric::kCosine), static_cast<uint32_t>(FromHex(golden.cosine)))
        << golden.name;
  }
}

}  // namespace
}  // namespace nearfield

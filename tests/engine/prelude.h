// Names that most tests of the engine use: matchers, status codes (kNotFound, ...), corpora and
// random numbers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "tests/testing/answers.h"
#include "tests/testing/corpora.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"
#include "tests/testing/status_matchers.h"

namespace nearfield {

using ::absl_testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using testing::BytesEqual;
using testing::Corpus;
using testing::CorpusFamily;
using testing::MakeCorpus;
using testing::MakeIds;
using testing::MakeQuery;
using testing::OracleAnswer;
using testing::QueryFamily;
using testing::Random;
using testing::TestSeed;

using enum absl::StatusCode;

// All metrics and row types, for tests that loop over them.
inline constexpr Metric kMetrics[] = {Metric::kDot, Metric::kCosine, Metric::kL2};
inline constexpr RowType kRowTypes[] = {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16};

}  // namespace nearfield

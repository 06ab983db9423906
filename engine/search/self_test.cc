#include "engine/search/self_test.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/scramble.h"
#include "engine/base/status_macros.h"
#include "engine/score/row_types.h"
#include "engine/score/score.h"

namespace nearfield {
namespace {

constexpr int kGenerations = 3;
constexpr int64_t kRowsPerGeneration = 40;
constexpr int kQueries = 5;
// Dimensions below, at and above the 32 accumulators, and some that are not multiples of 32.
constexpr std::array<int32_t, 6> kDims = {1, 7, 31, 32, 33, 100};

// SplitMix64: the same numbers on every platform.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    return Scramble(state_);
  }
  uint64_t Below(uint64_t end) { return Next() % end; }

 private:
  uint64_t state_;
};

// Kinds of vectors, including ties, zero rows and the ends of the fp32 range.
enum class Kind : uint8_t { kUniform, kFewValues, kZero, kDenormal, kLarge };

float Value(Kind kind, Numbers* numbers) {
  const float unit = static_cast<float>(numbers->Below(1u << 24)) * 0x1p-23f - 1.0f;  // [-1, 1)
  switch (kind) {
    case Kind::kUniform: return unit == 0.0f ? 0.5f : unit;
    case Kind::kFewValues: return static_cast<float>(numbers->Below(3)) - 1.0f;
    case Kind::kZero: return unit < 0 ? -0.0f : 0.0f;
    case Kind::kDenormal: return unit * 0x1p-127f;
    case Kind::kLarge: return unit * 0x1p127f;
  }
  return unit;
}

Kind AnyKind(Numbers* numbers) { return static_cast<Kind>(numbers->Below(5)); }

// Appends one element in the row type. A value that a narrow type cannot hold becomes its largest
// value.
void AppendElement(RowType row_type, float value, std::vector<uint8_t>* rows) {
  uint32_t bits = score::BitsFromFloat(value);
  if (row_type == RowType::kFloat16) {
    bits = score::HalfBitsFromFloat(std::clamp(value, -65504.0f, 65504.0f));
  } else if (row_type == RowType::kBFloat16) {
    bits = score::Bfloat16BitsFromFloat(value);
  }
  for (int byte = 0; byte < BytesPerElement(row_type); ++byte) {
    rows->push_back(static_cast<uint8_t>(bits >> (8 * byte)));
  }
}

// Returns ids that differ for all rows, in no order, and interleave between generations.
Id IdOf(IdType type, int64_t row) {
  const uint64_t number = static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u;  // odd: a bijection
  if (type == IdType::kUint64) return number;
  return absl::StrCat("row/", number);  // a common prefix, different lengths
}

absl::Status UploadOne(Collection* collection, int generation, Numbers* numbers) {
  const CollectionSpec& spec = collection->spec();
  IdColumn ids(spec.id_type);
  std::vector<uint8_t> rows;
  for (int64_t row = 0; row < kRowsPerGeneration; ++row) {
    ids.Append(IdOf(spec.id_type, row * kGenerations + generation));
    // The first row is a query by id later: for cosine it must not be all zeros.
    const Kind kind = row == 0 ? Kind::kUniform : AnyKind(numbers);
    for (int32_t d = 0; d < spec.dim; ++d) {
      AppendElement(spec.row_type, Value(kind, numbers), &rows);
    }
  }
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload,
                        collection->BeginUpload({.rows_max = kRowsPerGeneration}));
  ABSL_RETURN_IF_ERROR(upload->Append({.ids = &ids, .rows = rows}));
  ABSL_RETURN_IF_ERROR(upload->Commit().status());

  IdColumn deleted(spec.id_type);
  for (int64_t row = 1; row < kRowsPerGeneration; ++row) {
    if (numbers->Below(5) == 0) deleted.AppendFrom(ids, row);
  }
  return collection->Delete(deleted).status();
}

// Returns queries of every kind; for cosine none is all zeros.
std::vector<std::vector<float>> Queries(const CollectionSpec& spec, Numbers* numbers) {
  std::vector<std::vector<float>> queries(kQueries);
  for (size_t q = 0; q < queries.size(); ++q) {
    for (int32_t d = 0; d < spec.dim; ++d) {
      queries[q].push_back(Value(static_cast<Kind>(q), numbers));
    }
    if (spec.metric == Metric::kCosine) queries[q][0] += 0x1p-20f;
    if (spec.metric == Metric::kCosine && queries[q][0] == 0.0f) queries[q][0] = 1.0f;
  }
  return queries;
}

// Returns one term of each form, over a number for almost every row.
std::shared_ptr<const RowTerms> Terms(Numbers* numbers) {
  constexpr uint64_t kRows = kGenerations * kRowsPerGeneration;
  std::vector<double> values;
  const auto filter = std::make_shared<RowFilter>();
  filter->chosen.resize(kRows / 64 + 1);
  for (uint64_t row = 0; row + 5 < kRows; ++row) {
    values.push_back(static_cast<double>(numbers->Below(1000)));
    if (numbers->Below(3) == 0) filter->chosen[row / 64] |= uint64_t{1} << (row % 64);
  }
  const auto column = std::make_shared<const RowNumbers>(std::move(values));
  auto terms = std::make_shared<RowTerms>();
  terms->score_weight = 0.75;
  for (const TermForm form :
       {TermForm::kHalfLife, TermForm::kClamped, TermForm::kLinear, TermForm::kIs}) {
    const TermParameters parameters = {.form = form,
                                       .weight = form == TermForm::kLinear ? -0.5 : 0.5,
                                       .origin = 500,
                                       .scale = 0.01,
                                       .low = -2,
                                       .high = 2,
                                       .offset = 50,
                                       .missing = 0.25};
    terms->terms.push_back({.parameters = parameters, .numbers = column, .filter = filter});
  }
  return terms;
}

std::string Describe(const CollectionSpec& spec) {
  constexpr std::array<const char*, 4> kMetrics = {"", "dot", "cosine", "l2"};
  constexpr std::array<const char*, 3> kIdTypes = {"", "uint64", "string"};
  return absl::StrCat(kMetrics[static_cast<size_t>(spec.metric)], ", ", NameOf(spec.row_type), ", ",
                      kIdTypes[static_cast<size_t>(spec.id_type)], " ids, ", spec.dim,
                      " dimensions");
}

absl::Status CheckBatch(Engine* engine, const Collection& collection,
                        const std::vector<Query>& batch) {
  ABSL_ASSIGN_OR_RETURN(const SearchResult result, engine->Search(collection, {.queries = batch}));
  for (size_t i = 0; i < batch.size(); ++i) {
    ABSL_ASSIGN_OR_RETURN(
        const VerifyResult verdict,
        engine->Verify(collection,
                       {.query = batch[i], .neighbors = result.queries[i], .epoch = result.epoch},
                       {}));
    if (!verdict.equal) {
      return absl::DataLossError(absl::StrCat(
          "self-test: a wrong answer (", Describe(collection.spec()), "): ", verdict.explanation));
    }
  }
  return absl::OkStatus();
}

absl::Status TestCollection(Engine* engine, const CollectionSpec& spec, Numbers* numbers) {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<Collection> collection,
                        engine->CreateCollection(spec));
  for (int generation = 0; generation < kGenerations; ++generation) {
    ABSL_RETURN_IF_ERROR(UploadOne(collection.get(), generation, numbers));
  }
  const std::vector<std::vector<float>> vectors = Queries(spec, numbers);
  const EngineInfo info = engine->Info();
  std::vector<Query> queries;
  queries.push_back({.vector = {}, .row_id = IdOf(spec.id_type, 1), .k = std::min(20, info.k_max)});
  for (const std::vector<float>& vector : vectors) {  // the first one requests more rows than exist
    const int32_t k =
        queries.size() == 1 ? info.k_max : 1 + static_cast<int32_t>(numbers->Below(30));
    queries.push_back({.vector = vector, .row_id = {}, .k = std::min(k, info.k_max)});
  }
  queries.push_back({.vector = vectors[0], .k = std::min(20, info.k_max), .terms = Terms(numbers)});
  const auto batch_max = static_cast<size_t>(info.batch_max);
  for (size_t begin = 0; begin < queries.size(); begin += batch_max) {
    const size_t end = std::min(queries.size(), begin + batch_max);
    ABSL_RETURN_IF_ERROR(CheckBatch(engine, *collection,
                                    {queries.begin() + static_cast<int64_t>(begin),
                                     queries.begin() + static_cast<int64_t>(end)}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunSelfTest(Engine* engine, uint64_t seed) {
  Numbers numbers(seed);
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    for (const RowType row_type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
      for (const IdType id_type : {IdType::kUint64, IdType::kString}) {
        const CollectionSpec spec = {.dim = kDims[numbers.Below(kDims.size())],
                                     .metric = metric,
                                     .row_type = row_type,
                                     .id_type = id_type,
                                     .devices = kDevicesMax};  // all devices
        ABSL_RETURN_IF_ERROR(TestCollection(engine, spec, &numbers));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace nearfield

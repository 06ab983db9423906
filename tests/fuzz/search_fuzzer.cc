#include "tests/fuzz/search_fuzzer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/score/score.h"
#include "nearfield/engine/engine.h"
#include "tests/fuzz/input_reader.h"
#include "tests/testing/answers.h"
#include "tests/testing/corpora.h"
#include "tests/testing/engines.h"

namespace nearfield::fuzz {
namespace {

using testing::Corpus;

// Makes the bits finite: clears the lowest bit of an exponent of all ones.
uint32_t Finite(RowType type, uint32_t bits) {
  const uint32_t exponent = type == RowType::kFloat32   ? 0x7f800000u
                            : type == RowType::kFloat16 ? 0x7c00u
                                                        : 0x7f80u;
  const uint32_t lowest = exponent & (~exponent + 1u);
  return (bits & exponent) == exponent ? bits & ~lowest : bits;
}

CollectionSpec ReadSpec(InputReader& reader) {
  CollectionSpec spec;
  spec.dim = static_cast<int32_t>(1 + reader.Below(70));
  spec.metric = static_cast<Metric>(1 + reader.Below(3));
  spec.row_type = static_cast<RowType>(1 + reader.Below(3));
  spec.id_type = static_cast<IdType>(1 + reader.Below(2));
  return spec;
}

// Reads ids from the numbers 0 .. 255 or their decimal strings. Skips a number that came before,
// with its row.
Corpus ReadCorpus(InputReader& reader, const CollectionSpec& spec) {
  Corpus corpus{.spec = spec, .rows = {}, .ids = IdColumn(spec.id_type)};
  const auto element_bytes = static_cast<size_t>(BytesPerElement(corpus.spec.row_type));
  std::vector<bool> used(256, false);
  const int64_t rows_max = reader.Below(300);
  for (int64_t row = 0; row < rows_max && !reader.empty(); ++row) {
    const uint64_t id = reader.Take(1);
    if (used[id]) continue;
    used[id] = true;
    if (corpus.spec.id_type == IdType::kString) {
      corpus.ids.AppendString(std::to_string(id));
    } else {
      corpus.ids.AppendNumber(id);
    }
    for (int32_t d = 0; d < corpus.spec.dim; ++d) {
      const uint32_t bits =
          Finite(corpus.spec.row_type, static_cast<uint32_t>(reader.Take(element_bytes)));
      for (size_t byte = 0; byte < element_bytes; ++byte) {
        corpus.rows.push_back(static_cast<uint8_t>(bits >> (8 * byte)));
      }
    }
  }
  return corpus;
}

std::vector<float> ReadQuery(InputReader& reader, const CollectionSpec& spec) {
  std::vector<float> query;
  for (int32_t d = 0; d < spec.dim; ++d)
    query.push_back(
        score::FloatFromBits(Finite(RowType::kFloat32, static_cast<uint32_t>(reader.Take(4)))));
  const bool zero =
      std::all_of(query.begin(), query.end(), [](float value) { return value == 0.0f; });
  if (zero && spec.metric == Metric::kCosine) query[0] = 1.0f;
  return query;
}

}  // namespace

std::string SearchDifference(const uint8_t* data, size_t size) {
  InputReader reader({reinterpret_cast<const char*>(data), size});
  const int64_t parts_count = 1 + reader.Below(4);
  const int64_t deleted_every = 1 + reader.Below(9);  // 1: none
  const auto k = static_cast<int32_t>(1 + reader.Below(reader.Below(2) == 0 ? 20 : kKMax));
  const CollectionSpec spec = ReadSpec(reader);
  const std::vector<float> query =
      ReadQuery(reader, spec);  // before the rows, so that short inputs have one
  const Corpus corpus = ReadCorpus(reader, spec);

  const absl::StatusOr<Engine*> engine = testing::SharedEngine(BackendKind::kCpu);
  if (!engine.ok()) return engine.status().ToString();
  std::vector<std::vector<int64_t>> parts(static_cast<size_t>(parts_count));
  std::vector<int64_t> live;
  IdColumn deleted(spec.id_type);
  for (int64_t row = 0; row < corpus.rows_count(); ++row) {
    parts[static_cast<size_t>(row % parts_count)].push_back(row);
    const bool doomed = deleted_every > 1 && row % deleted_every == 0;
    if (doomed) deleted.AppendFrom(corpus.ids, row);
    if (!doomed) live.push_back(row);
  }
  const auto collection = testing::MakeCollection(**engine, corpus, parts);
  if (!collection.ok()) return collection.status().ToString();
  if (const auto result = (*collection)->Delete(deleted); !result.ok())
    return result.status().ToString();
  SearchBatch batch;
  batch.queries.push_back({.vector = query, .row_id = std::nullopt, .k = k});
  const absl::StatusOr<SearchResult> result = (*engine)->Search(**collection, batch);
  if (!result.ok()) return result.status().ToString();
  const Neighbors expected = testing::OracleAnswer(testing::Select(corpus, live), query, k);
  const std::string difference = testing::FirstDifference(result->queries[0], expected);
  if (difference.empty()) return "";
  return absl::StrCat(testing::Describe(spec), ", ", live.size(), " rows, k ", k, ": ", difference);
}

}  // namespace nearfield::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string difference = nearfield::fuzz::SearchDifference(data, size);
  if (!difference.empty()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  return 0;
}

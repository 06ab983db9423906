#include "engine/search/verify.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/slot_terms.h"
#include "engine/corpus/tombstone_words.h"
#include "engine/oracle/oracle.h"
#include "engine/score/neighbor_order.h"
#include "engine/score/score.h"
#include "engine/search/resolve.h"

namespace nearfield {
namespace {

// Maximum rows that the oracle sorts at a time. Bounds its memory if rows are tiny, and the delay
// until it detects a cancellation.
constexpr int64_t kChunkRowsMax = 65'536;

using corpus::Corpus;
using corpus::CorpusSnapshot;
using corpus::GenerationState;
using corpus::RowRef;

// Live rows of one chunk of one generation, on the host.
struct Chunk {
  IdColumn ids;
  std::vector<uint8_t> rows;
  std::vector<uint32_t> ordinals;
};

// The best rows of the chunks so far: ids and scores, in order.
struct Best {
  IdColumn ids;
  std::vector<float> scores;
};

Best MergeInto(const Best& best, const Chunk& chunk, const oracle::Answer& answer, size_t k) {
  std::vector<score::ScoredId> all;
  for (size_t i = 0; i < best.scores.size(); ++i) {
    all.push_back({.score = best.scores[i], .ids = &best.ids, .index = static_cast<int64_t>(i)});
  }
  for (size_t i = 0; i < answer.scores.size(); ++i) {
    all.push_back({.score = answer.scores[i], .ids = &chunk.ids, .index = answer.rows[i]});
  }
  std::sort(all.begin(), all.end(), score::ComesBefore);
  if (all.size() > k) all.resize(k);
  Best merged = {.ids = IdColumn(best.ids.type()), .scores = {}};
  for (const score::ScoredId& row : all) {
    merged.ids.AppendFrom(*row.ids, row.index);
    merged.scores.push_back(row.score);
  }
  return merged;
}

// A task for the oracle, and the memory that it may use.
struct OracleTask {
  absl::Span<const float> vector;
  int64_t k = 0;
  std::optional<RowRef> self;
  const RowFilter* filter = nullptr;  // null: all rows
  const RowTerms* terms = nullptr;    // null: none
  int64_t chunk_rows_max = 1;
};

// Range of slots of one generation that a chunk is read from.
struct ChunkSlots {
  int64_t begin = 0;
  int64_t end = 0;
  std::optional<uint32_t> self;  // excluded
  const RowFilter* filter = nullptr;
};

// Reads the live rows of the range that the filter chooses.
absl::StatusOr<Chunk> ReadChunk(const GenerationState& state, const ChunkSlots& wanted,
                                int64_t row_bytes) {
  const auto& [begin, end, self, filter] = wanted;
  const auto row_size = static_cast<size_t>(row_bytes);
  const corpus::Generation& generation = *state.generation;
  Chunk chunk = {.ids = IdColumn(generation.ids.type())};
  chunk.rows.resize(static_cast<size_t>(end - begin) * row_size);
  ABSL_RETURN_IF_ERROR(generation.device->Observe(
      generation.planes->ReadRange(begin, end - begin, chunk.rows.data())));
  size_t kept = 0;
  for (const uint32_t slot : corpus::LiveSlots(state.tombstones.get(), begin, end)) {
    if (slot == self) continue;
    if (filter != nullptr && !filter->Chooses(state.ordinal(slot))) continue;
    std::memmove(chunk.rows.data() + kept * row_size,
                 chunk.rows.data() + static_cast<size_t>(slot - begin) * row_size, row_size);
    chunk.ids.AppendFrom(generation.ids, slot);
    chunk.ordinals.push_back(state.ordinal(slot));
    ++kept;
  }
  return chunk;
}

// Returns the oracle's best rows of a chunk.
oracle::Answer TopKOf(const CollectionSpec& spec, const Chunk& chunk, const OracleTask& task) {
  const oracle::Rows rows = {.dim = spec.dim,
                             .metric = spec.metric,
                             .row_type = spec.row_type,
                             .data = chunk.rows.data(),
                             .ids = &chunk.ids};
  if (task.terms == nullptr) return oracle::TopK(rows, task.vector, task.k);
  oracle::Terms terms = {.score_weight = task.terms->score_weight};
  std::vector<std::vector<double>> numbers;
  numbers.reserve(task.terms->terms.size());
  for (const RowTerm& term : task.terms->terms) {
    std::vector<double>& of_rows = numbers.emplace_back();
    for (const uint32_t ordinal : chunk.ordinals) {
      of_rows.push_back(corpus::NumberOf(term, ordinal));
    }
    terms.terms.push_back({.parameters = term.parameters, .numbers = of_rows});
  }
  return oracle::TopK(rows, task.vector, task.k, &terms);
}

// Scores and sorts every live row of the snapshot, chunk by chunk. The best k rows of the corpus
// are among the best k of the chunks.
absl::StatusOr<Best> QueryOracle(const Corpus& corpus, const CorpusSnapshot& snapshot,
                                 const OracleTask& task, const std::function<bool()>& cancelled,
                                 int64_t* rows_checked) {
  const CollectionSpec& spec = corpus.spec();
  Best best = {.ids = IdColumn(spec.id_type), .scores = {}};
  for (size_t g = 0; g < snapshot.generations.size(); ++g) {
    const GenerationState& state = snapshot.generations[g];
    const int64_t rows_count = state.generation->rows_count();
    std::optional<uint32_t> self;
    if (task.self && task.self->generation == g) self = task.self->slot;
    for (int64_t begin = 0; begin < rows_count; begin += task.chunk_rows_max) {
      if (cancelled && cancelled()) return absl::CancelledError("the verification was cancelled");
      const int64_t end = std::min(begin + task.chunk_rows_max, rows_count);
      ABSL_ASSIGN_OR_RETURN(
          const Chunk chunk,
          ReadChunk(state, {.begin = begin, .end = end, .self = self, .filter = task.filter},
                    corpus.row_bytes()));
      const oracle::Answer answer = TopKOf(spec, chunk, task);
      *rows_checked += chunk.ids.size();
      best = MergeInto(best, chunk, answer, static_cast<size_t>(task.k));
    }
  }
  return best;
}

// Returns `id 17 score 0.5 (0x3f000000)`.
std::string PlaceText(const IdColumn& ids, const ScoreColumn& scores, size_t place) {
  char score_text[48];
  std::snprintf(score_text, sizeof(score_text), "%.9g (0x%08x)", static_cast<double>(scores[place]),
                score::BitsFromFloat(scores[place]));
  return absl::StrCat("id ", corpus::IdText(ids.at(static_cast<int64_t>(place))), " score ",
                      score_text);
}

// Compares ids and score bits; fills in the verdict.
void Compare(const Neighbors& claimed, VerifyResult* result) {
  const Neighbors& expected = result->expected;
  const size_t both = std::min(claimed.scores.size(), expected.scores.size());
  size_t place = 0;
  while (
      place < both &&
      score::BitsFromFloat(claimed.scores[place]) == score::BitsFromFloat(expected.scores[place]) &&
      claimed.ids.Compare(static_cast<int64_t>(place), expected.ids, static_cast<int64_t>(place)) ==
          0) {
    ++place;
  }
  if (place == claimed.scores.size() && place == expected.scores.size()) {
    result->equal = true;
    return;
  }
  result->first_difference = static_cast<int64_t>(place);
  const auto text = [place](const Neighbors& neighbors) {
    return place < neighbors.scores.size() ? PlaceText(neighbors.ids, neighbors.scores, place)
                                           : absl::StrCat("nothing (", place, " neighbors)");
  };
  result->explanation =
      absl::StrCat("place ", place, ": claimed ", text(claimed), ", oracle ", text(expected));
}

absl::Status CheckClaim(const Corpus& corpus, const Claim& claim, uint64_t epoch) {
  if (claim.neighbors.ids.type() != corpus.spec().id_type) {
    return absl::InvalidArgumentError("claimed.ids: ids of the wrong type for this collection");
  }
  if (claim.neighbors.ids.size() != static_cast<int64_t>(claim.neighbors.scores.size())) {
    return absl::InvalidArgumentError(absl::StrCat("claimed: ", claim.neighbors.ids.size(),
                                                   " ids and ", claim.neighbors.scores.size(),
                                                   " scores; as many of both are needed"));
  }
  if (claim.epoch != epoch) {
    return absl::FailedPreconditionError(absl::StrCat("the answer is for epoch ", claim.epoch,
                                                      "; the collection is at epoch ", epoch));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VerifyResult> VerifyClaim(const Corpus& corpus, const Claim& claim, int32_t k_max,
                                         int64_t staging_bytes,
                                         const std::function<bool()>& cancelled) {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot,
                        corpus.At(claim.at.get()));
  ABSL_RETURN_IF_ERROR(CheckClaim(corpus, claim, snapshot->epoch));
  ABSL_ASSIGN_OR_RETURN(const ResolvedQueries resolved,
                        ResolveQueries(corpus, *snapshot, {&claim.query, 1}, k_max));
  VerifyResult result;
  result.epoch = snapshot->epoch;
  const OracleTask task = {
      .vector = resolved.vectors,
      .k = resolved.k.front() + claim.query.skip,
      .self = resolved.self.front(),
      .filter = claim.query.filter.get(),
      .terms = claim.query.terms.get(),
      .chunk_rows_max = std::clamp<int64_t>(staging_bytes / corpus.row_bytes(), 1, kChunkRowsMax)};
  ABSL_ASSIGN_OR_RETURN(const Best best,
                        QueryOracle(corpus, *snapshot, task, cancelled, &result.rows_checked));
  result.expected.ids = IdColumn(corpus.spec().id_type);
  for (size_t i = static_cast<size_t>(claim.query.skip); i < best.scores.size(); ++i) {
    if (claim.query.score_threshold && best.scores[i] < *claim.query.score_threshold) break;
    result.expected.ids.AppendFrom(best.ids, static_cast<int64_t>(i));
    result.expected.scores.push_back(best.scores[i]);
  }
  Compare(claim.neighbors, &result);
  return result;
}

}  // namespace nearfield

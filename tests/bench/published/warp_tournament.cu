// Warp tournament selection: half of a block's warps stream the row and pass on the keys above a
// threshold. The other half sorts these into runs, merges the runs pair by pair, and merges the
// last one with the reigning list, whose k-th key is the next threshold.
//
// The policy in engine/topk/algorithms.cc does not choose it; the measurement is there.
//
// Crossover with radix selection. A block that receives s scores of a row in random order passes on
// a = k * (1 + ln(s / k)) of them, in ascending order all s. A tournament takes L = 256 keys (k <=
// 256) or 1,024 in four rounds of about p = 0.2 us or 0.7 us each, while the producers continue to
// stream:
//   time = max(row bytes / bandwidth, rows per block in sequence * a / L * 4 * p).
// Radix selection reads the row twice and has a fixed cost, so it wins where the second term
// exceeds twice the first: at a > L * (bytes of s / a block's share of the bandwidth) / (2 * p). p
// is an estimate.
#include <cstdint>

#include "engine/topk/score_types.cuh"
#include "engine/topk/warp_primitives.cuh"
#include "tests/bench/published/algorithms.h"
#include "tests/bench/published/bitonic.cuh"
#include "tests/bench/published/list_launch.cuh"
#include "tests/bench/published/row_lists.cuh"
#include "tests/bench/published/score_batch.cuh"

namespace nearfield::gpu::published {
namespace {

constexpr int64_t kWarpTournamentKMax = 1024;

// Threads [0, 128) produce, [128, 256) play.
constexpr uint32_t kProducers = 128;
constexpr uint32_t kPlayers = kListThreads - kProducers;
constexpr uint32_t kRuns = kPlayers / kWarp;
static_assert(kRuns == 4, "two matches and a final");
// Keys that a producer passes on in one round, and the maximum number of batches it searches for
// them.
constexpr int kKeysPerRound = 8;
constexpr int kBatchesPerRound = 4;
constexpr uint32_t kRoundKeys = kProducers * kKeysPerRound;
constexpr uint32_t kQueueKeys = 2048;

using Staged = StagedList<kListThreads, 9>;
static_assert(kWarpTournamentKMax * 2 <= Staged::kCapacity, "half of it stages");

// State of a block that streams. __syncthreads alone separates its rounds: data written in a round
// is read in later ones, and overwritten only after the barrier of the last round that reads it.
template <int kRegisters>
struct Stream {
  static constexpr uint32_t kTournament = kPlayers * kRegisters;
  static_assert(kTournament + kRoundKeys <= kQueueKeys,
                "who waits for room waits for a tournament");

  uint64_t queue[kQueueKeys];  // a ring: passed on by producers, not yet taken by players
  // The reigning list and two that a tournament writes in turn, largest first, padded with
  // kNoSelectKey.
  uint64_t lists[3][kTournament];
  // Keys passed on in round r: [r % 3]. Read after the barrier of the round, cleared in round r +
  // 2.
  uint32_t passed[3];
};

template <int kRegisters>
union Shared {
  Stream<kRegisters> stream;
  Staged staged;
};

// Progress of the block; the same in all threads.
struct Standing {
  uint32_t place = 0;   // slot of the round in Stream::passed
  uint32_t passed = 0;  // keys of all earlier rounds, modulo 2^32
  uint32_t taken = 0;   // of these, taken by players
  uint32_t step = 0;    // of the tournament; 0: none is running
  uint32_t reigning = 0;
  bool streams = true;  // producers have more to read

  __device__ uint32_t waiting() const { return passed - taken; }
  __device__ bool HasRoom() const { return waiting() + kRoundKeys <= kQueueKeys; }
  __device__ bool Begins(uint32_t tournament) const {
    return step == 0 && (waiting() >= tournament || (!streams && waiting() > 0));
  }
  __device__ bool Ends() const { return !streams && waiting() == 0 && step == 0; }
};

// Streams the row. Its steps go to the producing warps of its blocks in turn, its edges to the
// first of them.
template <typename Scores>
class Producer {
 public:
  __device__ __forceinline__ explicit Producer(const ListRows& rows)
      : row_(ReaderOf<Scores>(rows)),
        step_(blockIdx.y * (kProducers / kWarp) + threadIdx.x / kWarp) {}

  // Starts the first load. Must precede the first Pass.
  __device__ __forceinline__ void Begin() { next_.Load(row_, step_); }
  __device__ bool is_done() const { return group_ > kGroups; }

  // Runs one round: passes on the keys of a few scores that are above the threshold.
  __device__ __forceinline__ void Pass(uint64_t threshold, const Standing& standing,
                                       uint64_t* queue, uint32_t* passed) {
    uint64_t keys[kKeysPerRound] = {};
    if (!Find(Scores::OfOrder(KeyOrder(threshold)), keys)) return;
    uint32_t wanted = 0;
#pragma unroll
    for (int i = 0; i < kKeysPerRound; ++i) wanted |= keys[i] > threshold ? 1u << i : 0u;
    if (!__any_sync(kFullWarp, wanted != 0)) return;
    uint32_t at = standing.passed + ReserveSlots(passed, static_cast<uint32_t>(__popc(wanted)));
#pragma unroll
    for (int i = 0; i < kKeysPerRound; ++i) {
      if ((wanted >> i & 1u) != 0) queue[at++ % kQueueKeys] = keys[i];
    }
  }

 private:
  using Batch = ScoreBatch<Scores>;
  static constexpr int kGroups = Batch::kScores / kKeysPerRound;

  // Finds the next keys that may include a useful one. Returns false if this round's batches have
  // none.
  __device__ __forceinline__ bool Find(typename Scores::Score floor,
                                       uint64_t (&keys)[kKeysPerRound]) {
#pragma unroll 1
    for (int look = 0; look < kBatchesPerRound && !is_done(); ++look) {
      if (group_ == kGroups) {
        if (step_ >= Batch::Steps(row_)) {
          group_ = kGroups + 1;
          if (blockIdx.y > 0 || threadIdx.x >= kWarp) return false;
          keys[0] = EdgeKey(row_, threadIdx.x);
          return true;
        }
        step_ += gridDim.y * (kProducers / kWarp);
        batch_ = next_;
        next_.Load(row_, step_);
        group_ = 0;
      }
      if (__any_sync(kFullWarp, batch_.Reaches(floor))) {
        batch_.Keys(row_, group_++, keys);
        return true;
      }
      group_ = kGroups;
    }
    return false;
  }

  const RowReader<Scores> row_;
  uint32_t step_;        // step of next_
  int group_ = kGroups;  // group of batch_ to pass on next; kGroups: none; above: none ever
  Batch batch_;
  Batch next_;
};

// Two lists, largest first, and the destination of the better keys of both.
template <uint32_t kKeysMax>
struct Match {
  const uint64_t* first;
  const uint64_t* second;
  uint64_t* winners;
  uint32_t keys;     // in each of the two
  uint32_t winning;  // keys that advance; <= 2 * keys

  // Returns how many keys of a list reach `key`.
  __device__ __forceinline__ uint32_t Reaching(const uint64_t* list, uint64_t key) const {
    uint32_t reaching = 0;
#pragma unroll
    for (uint32_t step = kKeysMax; step > 0; step /= 2) {
      if (reaching + step <= keys && list[reaching + step - 1] >= key) reaching += step;
    }
    return reaching;
  }

  // Merges the lists: each key finds its rank by a search in the other list. Keys are unique,
  // except kNoSelectKey: of equal keys, the first list's come first.
  __device__ __forceinline__ void Play(uint32_t thread, uint32_t threads) const {
    for (uint32_t at = thread; at < keys; at += threads) {
      const uint64_t of_first = first[at];
      const uint64_t of_second = second[at];
      const uint32_t rank_of_first = at + Reaching(second, of_first + 1);
      const uint32_t rank_of_second = at + Reaching(first, of_second);
      if (rank_of_first < winning) winners[rank_of_first] = of_first;
      if (rank_of_second < winning) winners[rank_of_second] = of_second;
    }
  }
};

// The players' part of a round: one of the four steps of a tournament.
template <int kRegisters>
class Player {
 public:
  __device__ __forceinline__ Player(Stream<kRegisters>& stream, uint32_t k)
      : stream_(stream), k_(k) {}

  __device__ __forceinline__ void Play(const Standing& standing) const {
    const uint32_t thread = threadIdx.x - kProducers;
    uint64_t* const reigning = stream_.lists[standing.reigning];
    uint64_t* const odd = stream_.lists[(standing.reigning + 1) % 3];
    uint64_t* const even = stream_.lists[(standing.reigning + 2) % 3];
    const uint32_t of_two = min(k_, 2 * kRun);
    switch (standing.step) {
      case 0:
        if (standing.Begins(kTournament)) SortRun(standing, odd + thread / kWarp * kRun);
        break;
      case 1: {
        const uint32_t begin = thread / (kPlayers / 2) * 2 * kRun;
        Match<kRun>{odd + begin, odd + begin + kRun, even + begin, kRun, of_two}.Play(
            thread % (kPlayers / 2), kPlayers / 2);
        break;
      }
      case 2: Match<2 * kRun>{even, even + 2 * kRun, odd, of_two, k_}.Play(thread, kPlayers); break;
      default: Match<kTournament>{odd, reigning, even, k_, k_}.Play(thread, kPlayers); break;
    }
  }

 private:
  static constexpr uint32_t kTournament = Stream<kRegisters>::kTournament;
  static constexpr uint32_t kRun = kTournament / kRuns;

  // Sorts this warp's part of the keys that have waited longest.
  __device__ __forceinline__ void SortRun(const Standing& standing, uint64_t* sorted) const {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t begin = (threadIdx.x - kProducers) / kWarp * kRun;
    uint64_t run[kRegisters];
#pragma unroll
    for (uint32_t r = 0; r < kRegisters; ++r) {
      const uint32_t at = begin + r * kWarp + lane;
      run[r] = at < standing.waiting() ? stream_.queue[(standing.taken + at) % kQueueKeys]
                                       : kNoSelectKey;
    }
    BitonicSort<true>(WarpLanes(), run);
#pragma unroll
    for (uint32_t r = 0; r < kRegisters; ++r) sorted[lane * kRegisters + r] = run[r];
  }

  Stream<kRegisters>& stream_;
  const uint32_t k_;
};

// Updates the progress after the barrier of a round.
template <int kRegisters>
__device__ __forceinline__ void Advance(const Stream<kRegisters>& stream, bool streams,
                                        Standing& standing) {
  constexpr uint32_t kTournament = Stream<kRegisters>::kTournament;
  if (standing.step > 0) {
    standing.step = (standing.step + 1) % 4;
    if (standing.step == 0) standing.reigning = (standing.reigning + 2) % 3;
  } else if (standing.Begins(kTournament)) {
    standing.taken += min(standing.waiting(), kTournament);
    standing.step = 1;
  }
  standing.passed += stream.passed[standing.place];
  standing.place = (standing.place + 1) % 3;
  standing.streams = streams;
}

// Selects, for each row, the k best scores by a tournament of sorted runs.
// Grid (batch, blocks per row), block 256: warps 0-3 produce, 4-7 play.
// Reads the row once with 16-byte loads, with the next 64 bytes per producer in flight. Writes 8 B
// per result. With several blocks per row also writes k * 8 B per block, of which the last block
// reads back about 2k * 8 B.
// Requires: k <= 128 * kRegisters; blocks per row <= 256; tickets zero.
// Steps: 1 producers pass on, round by round, the keys above the threshold; 2 once there are
// enough, players sort them, one run per warp; 3 the runs are merged pair by pair, one round each,
// until one is left; 4 it is merged with the reigning list, whose k-th key becomes the threshold; 5
// the row's last block merges the lists of the blocks.
// Source: the runs: Batcher, "Sorting networks and their applications", AFIPS 1968; merging by
// ranks: Satish, Harris, Garland, "Designing efficient sorting algorithms for manycore GPUs", IPDPS
// 2009. Rejected: one thread per block that inserts into a list of k (k^2 moves: a cliff at k =
// 100); a loser tree (one winner at a time, each after log2 dependent loads); separate barriers for
// the players (the producers, at most one round ahead, gain nothing from them).
template <typename Scores, int kRegisters>
__global__ void __launch_bounds__(kListThreads, 3) WarpTournamentKernel(const ListRows rows) {
  __shared__ Shared<kRegisters> shared;
  Stream<kRegisters>& stream = shared.stream;
  const bool produces = threadIdx.x < kProducers;
  const Player<kRegisters> player(stream, rows.k);
  Producer<Scores> producer(rows);
  Standing standing;
  if (produces) producer.Begin();
  for (uint32_t i = threadIdx.x; i < rows.k; i += kListThreads) stream.lists[0][i] = kNoSelectKey;
  if (threadIdx.x < 3) stream.passed[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 1
  while (!standing.Ends()) {
    if (threadIdx.x == kProducers) stream.passed[(standing.place + 1) % 3] = 0;
    if (!produces) {
      player.Play(standing);
    } else if (standing.HasRoom()) {
      producer.Pass(stream.lists[standing.reigning][rows.k - 1], standing, stream.queue,
                    &stream.passed[standing.place]);
    }
    const bool streams = __syncthreads_or(produces && !producer.is_done()) != 0;
    Advance(stream, streams, standing);
  }
  FinishRow<Scores>(rows, shared.staged,
                    [&](uint32_t rank) { return stream.lists[standing.reigning][rank]; });
}

struct Kernels {
  template <typename Scores>
  static ListKernel Of(int64_t k) {
    if (k <= 256) return WarpTournamentKernel<Scores, 2>;
    return WarpTournamentKernel<Scores, 8>;
  }
};

const char* Refuses(const SelectShape& shape, const SelectDevice& /*device*/) {
  return shape.k <= kWarpTournamentKMax ? nullptr : "k is above 1024, the limit of warp_tournament";
}

}  // namespace

const SelectAlgorithm kWarpTournament = {
    .name = "warp_tournament",
    .summary = "Some warps stream and filter, the others play sorted runs off; k up to 1024.",
    .refuses = Refuses,
    .workspace_bytes = ListWorkspaceBytes,
    .prepare = PrepareListKernels,
    .launch = LaunchListKernel<Kernels>,
};

}  // namespace nearfield::gpu::published

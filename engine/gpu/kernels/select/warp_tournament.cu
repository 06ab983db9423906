// Selection by a tournament of warps: half of a block's warps stream the row and let through what
// is above a threshold; the other half sort it into runs, play the runs off against each other, and
// the winner against the reigning list, whose k-th key is the next threshold.
//
// Where radix selection takes over. A block that is given s scores of a row in random order lets
// a = k * (1 + ln(s / k)) through, in ascending order all s. One tournament takes L = 256 keys
// (k <= 256) or 1,024, and about p = 0.8 us or 2.5 us, while the producers go on streaming; so
//   time = max(row bytes / bandwidth, rows a block after another * a / L * p),
// and radix selection, with two reads of the row and a fixed cost, wins where the second term
// passes twice the first: at a > 2 * L * (s's bytes / a block's share of the bandwidth) / p. p is
// an estimate; the table of the adaptive choice has the measured places.
#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "engine/gpu/kernels/select/algorithm.h"
#include "engine/gpu/kernels/select/bitonic.cuh"
#include "engine/gpu/kernels/select/group_lanes.cuh"
#include "engine/gpu/kernels/select/list_launch.cuh"
#include "engine/gpu/kernels/select/row_lists.cuh"
#include "engine/gpu/kernels/select/score_batch.cuh"
#include "engine/gpu/kernels/select/score_types.cuh"

namespace nearfield::gpu {
namespace {

constexpr int64_t kWarpTournamentKMax = 1024;

// Threads [0, 128) produce, [128, 256) consume.
constexpr int kProducers = 128;
constexpr int kConsumers = kListThreads - kProducers;
// A producer's scores in one phase, and all of them.
constexpr int kScoresPerPhase = 8;
constexpr uint32_t kPhaseKeys = kProducers * kScoresPerPhase;
// Vectors on their way to shared memory; 16 KB.
constexpr int kRingVectors = 8;

constexpr int kPhaseBarrier = 1;
constexpr int kConsumerBarrier = 2;
using Consumers = GroupLanes<kListThreads, kConsumers, kConsumerBarrier>;
using Staged = StagedList<kListThreads, 9>;
static_assert(kWarpTournamentKMax * 2 <= Staged::kCapacity, "half of it stages");

// Phase p belongs to passed[p % 2]: producers fill it before the p-th phase barrier, consumers take
// it between that and the next one, and only behind that do producers come back to it. The two
// never touch the same one between two barriers. All keys of a phase fit, whatever the scores are.
struct Passed {
  uint64_t keys[kPhaseKeys];
  uint32_t count;
};

template <int kRegisters>
struct Stream {
  uint4 ring[kRingVectors][kProducers];  // a thread reads what it has fetched itself
  Passed passed[2];
  uint64_t waiting[kConsumers * kRegisters];  // less than a tournament's worth; and the exchange
  uint64_t threshold;                         // written by one consumer at a time, never lowered
};

template <int kRegisters>
union Shared {
  Stream<kRegisters> stream;
  Staged staged;
};

// The row's tiles of kPhaseKeys scores go to its blocks in turn; behind them come its edges, a
// phase of the first block.
template <typename Scores>
struct Phases {
  static constexpr uint32_t kVectors = kScoresPerPhase / RowReader<Scores>::kPerVector;

  __device__ explicit Phases(const RowReader<Scores>& row) {
    const uint32_t all = (row.vectors() + kVectors * kProducers - 1) / (kVectors * kProducers);
    tiles = all > blockIdx.y ? (all - blockIdx.y + gridDim.y - 1) / gridDim.y : 0;
    phases = tiles + (blockIdx.y == 0 && row.edges() > 0 ? 1 : 0);
  }

  // Where this producer's i-th vector of a phase lies.
  __device__ static uint32_t Vector(uint32_t phase, uint32_t i) {
    const uint32_t tile = blockIdx.y + phase * gridDim.y;
    return (tile * kVectors + i) * kProducers + threadIdx.x;
  }

  uint32_t tiles;   // of this block
  uint32_t phases;  // 0: nothing for this block
};

template <typename Scores>
class Producer {
 public:
  template <int kRegisters>
  __device__ __forceinline__ Producer(const ListRows& rows, Stream<kRegisters>& stream)
      : scores_(RowOf<Scores>(rows)),
        row_(ReaderOf<Scores>(rows)),
        phases_(row_),
        ring_(stream.ring),
        passed_(stream.passed),
        threshold_(&stream.threshold) {}

  __device__ __forceinline__ void Run() {
    for (uint32_t phase = 0; phase < kAhead; ++phase) Fetch(phase);
#pragma unroll 1
    for (uint32_t phase = 0; phase < phases_.phases; ++phase) {
      // Into the place read a phase ago. Its own fetch, kAhead before the newest, is then done.
      Fetch(phase + kAhead);
      __pipeline_wait_prior(kAhead);
      uint64_t keys[kScoresPerPhase] = {};
      if (phase == phases_.tiles) {
        if (threadIdx.x < 32) keys[0] = EdgeKey(row_, threadIdx.x);
        PassOn(keys, passed_[phase % 2]);
      } else if (Read(phase, keys)) {
        PassOn(keys, passed_[phase % 2]);
      }
      NamedBarrier<kPhaseBarrier, kListThreads>();
    }
  }

 private:
  static constexpr uint32_t kVectors = Phases<Scores>::kVectors;
  static constexpr uint32_t kSlots = kRingVectors / kVectors;
  static constexpr uint32_t kAhead = kSlots - 1;

  // A group of copies a phase, empty where the block has no such tile.
  __device__ __forceinline__ void Fetch(uint32_t phase) {
    if (phase < phases_.tiles) {
#pragma unroll
      for (uint32_t i = 0; i < kVectors; ++i) {
        const uint32_t vector = Phases<Scores>::Vector(phase, i);
        if (vector < row_.vectors()) {
          __pipeline_memcpy_async(Place(phase, i), scores_ + row_.IndexOf(vector, 0),
                                  sizeof(uint4));
        }
      }
    }
    __pipeline_commit();
  }

  // The keys of this thread's scores; false where no thread of the warp has one of use.
  __device__ __forceinline__ bool Read(uint32_t phase, uint64_t (&keys)[kScoresPerPhase]) const {
    constexpr uint32_t kPerVector = RowReader<Scores>::kPerVector;
    ScoreVector<Scores> vectors[kVectors];
    const float floor = ScoreOf(KeyOrder(Threshold()));
    bool reaches = false;
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i) {
      const bool is_there = Phases<Scores>::Vector(phase, i) < row_.vectors();
      vectors[i].bits = is_there ? *Place(phase, i) : uint4{};
#pragma unroll
      for (uint32_t place = 0; place < kPerVector; ++place) {
        // A NaN on either side compares as not below.
        reaches |= !(Scores::Value(vectors[i].raw(static_cast<int>(place))) < floor);
      }
    }
    if (!__any_sync(0xffffffffu, reaches)) return false;
#pragma unroll
    for (uint32_t at = 0; at < kScoresPerPhase; ++at) {
      const int place = static_cast<int>(at % kPerVector);
      const uint32_t vector = Phases<Scores>::Vector(phase, at / kPerVector);
      const float score = Scores::Value(vectors[at / kPerVector].raw(place));
      if (vector < row_.vectors()) keys[at] = KeyOf(score, row_.IndexOf(vector, place));
    }
    return true;
  }

  // The warp's keys above the threshold. A stale threshold lets through more, never less.
  __device__ __forceinline__ void PassOn(const uint64_t (&keys)[kScoresPerPhase], Passed& passed) {
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t threshold = Threshold();
    uint32_t wanted = 0;
#pragma unroll
    for (int i = 0; i < kScoresPerPhase; ++i) wanted |= keys[i] > threshold ? 1u << i : 0u;
    const auto mine = static_cast<uint32_t>(__popc(wanted));
    uint32_t up_to_here = mine;
#pragma unroll
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
      const uint32_t below = __shfl_up_sync(0xffffffffu, up_to_here, distance);
      if (lane >= distance) up_to_here += below;
    }
    uint32_t base = 0;
    if (lane == 31 && up_to_here > 0) base = atomicAdd(&passed.count, up_to_here);
    uint32_t at = __shfl_sync(0xffffffffu, base, 31) + up_to_here - mine;
#pragma unroll
    for (int i = 0; i < kScoresPerPhase; ++i) {
      if ((wanted >> i & 1u) != 0) passed.keys[at++] = keys[i];
    }
  }

  __device__ __forceinline__ uint4* Place(uint32_t phase, uint32_t i) const {
    return &ring_[phase % kSlots * kVectors + i][threadIdx.x];
  }
  __device__ __forceinline__ uint64_t Threshold() const {
    return *static_cast<const volatile uint64_t*>(threshold_);
  }

  const typename Scores::Raw* const scores_;
  const RowReader<Scores> row_;
  const Phases<Scores> phases_;
  uint4 (*const ring_)[kProducers];
  Passed* const passed_;
  const uint64_t* const threshold_;
};

// The reigning list lies in the consumers' registers, position thread * kRegisters + register.
template <int kRegisters>
class Consumer {
 public:
  static constexpr uint32_t kTournament = kConsumers * kRegisters;

  __device__ __forceinline__ Consumer(Stream<kRegisters>& stream, uint32_t k)
      : stream_(stream), lanes_{stream.waiting}, k_(k) {
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) list_[r] = kNoSelectKey;
  }

  __device__ __forceinline__ void Run(uint32_t phases) {
#pragma unroll 1
    for (uint32_t phase = 0; phase < phases; ++phase) {
      NamedBarrier<kPhaseBarrier, kListThreads>();
      Take(stream_.passed[phase % 2], phase + 1 == phases);
    }
  }

  // Puts the list into stream.waiting, best first, when Run is over.
  __device__ __forceinline__ void Store() {
    NamedBarrier<kConsumerBarrier, kConsumers>();
#pragma unroll
    for (int r = 0; r < kRegisters; ++r)
      stream_.waiting[lanes_.thread() * kRegisters + r] = list_[r];
  }

 private:
  // Plays as many full tournaments as there are keys for, and keeps the rest waiting; plays the
  // rest as well where the row ends. Every consumer sees the same numbers.
  __device__ __forceinline__ void Take(Passed& passed, bool ends) {
    const auto thread = static_cast<uint32_t>(lanes_.thread());
    const uint32_t count = passed.count;
    uint32_t taken = 0;
    NamedBarrier<kConsumerBarrier, kConsumers>();  // all have read the count
    if (thread == 0) passed.count = 0;
#pragma unroll 1
    while (true) {
      const uint32_t there = waiting_ + count - taken;
      if (there < kTournament && !(ends && there > 0)) break;
      uint64_t run[kRegisters];
#pragma unroll
      for (uint32_t r = 0; r < kRegisters; ++r) {
        const uint32_t at = r * kConsumers + thread;
        run[r] = kNoSelectKey;
        if (at < waiting_) {
          run[r] = stream_.waiting[at];
        } else if (at < there) {
          run[r] = passed.keys[taken + at - waiting_];
        }
      }
      taken += min(kTournament, there) - waiting_;
      waiting_ = 0;
      NamedBarrier<kConsumerBarrier, kConsumers>();  // what waited is read: now the exchange
      Play(run);
    }
    // The exchange is free again: the last step through it ended with a barrier.
    for (uint32_t i = taken + thread; i < count; i += kConsumers) {
      stream_.waiting[waiting_ + i - taken] = passed.keys[i];
    }
    waiting_ += count - taken;
  }

  __device__ __forceinline__ void Play(uint64_t (&run)[kRegisters]) {
    BitonicSort<false>(lanes_, run);
    MergeAscending(lanes_, list_, run);
#pragma unroll
    for (uint32_t r = 0; r < kRegisters; ++r) {
      const uint32_t position = static_cast<uint32_t>(lanes_.thread()) * kRegisters + r;
      if (position == k_ - 1 && list_[r] != kNoSelectKey) {
        *static_cast<volatile uint64_t*>(&stream_.threshold) = list_[r];
      }
    }
  }

  Stream<kRegisters>& stream_;
  const Consumers lanes_;
  const uint32_t k_;
  uint32_t waiting_ = 0;
  uint64_t list_[kRegisters];
};

// Selects, for each row, the k best scores by a tournament of sorted runs.
// Grid (batch, blocks a row), block 256: warps 0-3 produce, 4-7 consume.
// Reads the row once, 16-byte copies to shared memory, 12 KB or more of a block on their way at a
//   time; writes 8 B a result, and with several blocks a row k * 8 B a block, of which the last
//   block reads back about 2k * 8 B.
// Requires k <= 128 * kRegisters; blocks a row <= 256; tickets zero.
// Steps: 1 producers pass on, phase by phase, the keys above the threshold; 2 once there are
// enough,
//   consumers sort them: runs of a warp, which meet pair by pair until one is left; 3 it meets the
//   reigning list, whose k-th key becomes the threshold; 4 the row's last block merges the lists.
// Source: the runs and their meetings: Batcher, "Sorting networks and their applications", AFIPS
//   1968. Rejected: one thread a block that inserts into a list of k (k^2 moves: a cliff at k =
//   100); a loser tree (a winner at a time, each behind log2 dependent loads).
template <typename Scores, int kRegisters>
__global__ void __launch_bounds__(kListThreads, 3) WarpTournamentKernel(const ListRows rows) {
  __shared__ Shared<kRegisters> shared;
  Stream<kRegisters>& stream = shared.stream;
  if (threadIdx.x < 2) stream.passed[threadIdx.x].count = 0;
  if (threadIdx.x == 0) stream.threshold = kNoSelectKey;
  __syncthreads();
  if (threadIdx.x < kProducers) {
    Producer<Scores>(rows, stream).Run();
  } else {
    Consumer<kRegisters> consumer(stream, rows.k);
    consumer.Run(Phases<Scores>(ReaderOf<Scores>(rows)).phases);
    consumer.Store();
  }
  __syncthreads();
  FinishRow<Scores>(rows, shared.staged, [&](uint32_t rank) { return stream.waiting[rank]; });
}

struct Kernels {
  template <typename Scores>
  static ListKernel Of(int64_t k) {
    if (k <= 256) return WarpTournamentKernel<Scores, 2>;
    return WarpTournamentKernel<Scores, 8>;
  }
};

const char* Refuses(const SelectShape& shape, const SelectFacts& /*facts*/) {
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

}  // namespace nearfield::gpu

// Merges the lists of keys of a query by (score, id), on the device.
#include <cstdint>

#include "engine/gpu/kernels/device_tile/device_tile.h"
#include "engine/score/order.h"

namespace nearfield::gpu {
namespace {

constexpr int kGatherThreads = 256;
constexpr uint64_t kNoId = ~uint64_t{0};

__device__ uint64_t IdOf(const IdSource& source, uint64_t key) {
  const int64_t rank = score::KeyRank(key) - source.ranks_begin;
  return *source.ids.at<const uint64_t>(source.offset + 8 * rank);
}

struct List {
  const uint64_t* keys;
  uint32_t count;
};

__device__ List ListOf(const KeyLists& lists, int32_t queries, int32_t list) {
  const int64_t number = int64_t{list} * queries + blockIdx.x;
  const uint32_t count =
      lists.counts == nullptr ? lists.count : lists.counts[number * lists.counts_stride];
  return {lists.keys + number * lists.pitch, min(count, lists.count_max)};
}

// Returns the first place in [begin, end) whose key is not before, or `end`. Requires: all keys
// for which before(key) holds come first.
template <typename Before>
__device__ uint32_t FirstNot(const List& list, uint32_t begin, uint32_t end, Before before) {
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (before(list.keys[middle])) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Returns the number of keys of a list whose rows come before the row (score, id) in the order.
// The list holds keys of the sources [first, last]. Keys of one score are in the order of the
// sources, and those of one source in the order of their ids.
__device__ uint32_t CountBefore(const KeyLists& lists, const List& list, int first, int last,
                                uint32_t score_bits, uint64_t id) {
  const auto key_at = [score_bits](uint32_t rank) {
    return (uint64_t{score_bits} << 32) | static_cast<uint32_t>(~rank);
  };
  const auto comes_before = [&](uint64_t limit) {
    return [limit](uint64_t key) { return key > limit; };
  };
  uint32_t at = FirstNot(list, 0, list.count, comes_before(key_at(0)));
  uint32_t before = at;  // rows of a higher score
  for (int s = first; s <= last; ++s) {
    const IdSource& source = lists.sources[s];
    const uint32_t end = s == last
                             ? list.count
                             : FirstNot(list, at, list.count,
                                        comes_before(key_at(lists.sources[s + 1].ranks_begin)));
    before +=
        FirstNot(list, at, end,
                 [&](uint64_t key) {
                   return static_cast<uint32_t>(key >> 32) == score_bits && IdOf(source, key) < id;
                 }) -
        at;
    at = end;
  }
  return before;
}

// Writes each row of a query's lists to its place in the merged order, if it is among the first k.
// Grid (queries, blocks of a query), block 256; a thread places one key at a time.
// Reads 8 B and an id per key, and for several generations about 24 steps of binary search per
// generation; writes 12 B per row. Some microseconds: the lists are in L2.
// Requires: arguments as stated in KeyLists.
__global__ void __launch_bounds__(kGatherThreads)
    GatherKernel(const __grid_constant__ GatherArgs args) {
  const KeyLists& lists = args.lists;
  const auto query = static_cast<int64_t>(blockIdx.x);
  if (args.facts.from != nullptr && blockIdx.y == 0 && threadIdx.x == 0) {
    args.facts.to[query] = args.facts.from[query];
  }
  if (lists.overflows != nullptr && lists.overflows[query * lists.counts_stride] != 0) return;
  const bool mixed = lists.lists == 1 && lists.sources_count > 1;
  const uint32_t score_min = score::OrderedBits(args.score_min + 0.0f);
  uint32_t reached = 0;
  for (int l = 0; l < lists.lists; ++l) {
    const List list = ListOf(lists, args.queries, l);
    reached += FirstNot(list, 0, list.count, [score_min](uint64_t key) {
      return static_cast<uint32_t>(key >> 32) >= score_min;
    });
  }
  const AnswerPlace& to = args.places == nullptr ? args.place : args.places[query];
  const auto k = static_cast<uint32_t>(to.k);
  const uint32_t count = min(reached, k);
  float* const scores = args.to.scores + to.begin;
  uint64_t* const ids = args.to.ids + to.begin;
  const uint32_t thread = blockIdx.y * kGatherThreads + threadIdx.x;
  const uint32_t threads = gridDim.y * kGatherThreads;
  if (thread == 0) args.to.counts[to.query] = static_cast<int32_t>(count);
  for (uint32_t i = count + thread; args.pads && i < k; i += threads) {
    scores[i] = score::FloatFromBits(0x7fc00000u);
    ids[i] = kNoId;
  }
  for (int l = 0; l < lists.lists; ++l) {
    const List list = ListOf(lists, args.queries, l);
    for (uint32_t i = thread; i < list.count; i += threads) {
      const uint64_t key = list.keys[i];
      int s = l;
      while (mixed && s + 1 < lists.sources_count &&
             score::KeyRank(key) >= lists.sources[s + 1].ranks_begin) {
        ++s;
      }
      const uint64_t id = IdOf(lists.sources[s], key);
      uint32_t place = i;
      if (lists.sources_count > 1) {
        place = 0;
        const auto score_bits = static_cast<uint32_t>(key >> 32);
        for (int other = 0; other < lists.lists; ++other) {
          place += CountBefore(lists, ListOf(lists, args.queries, other), other,
                               mixed ? lists.sources_count - 1 : other, score_bits, id);
        }
      }
      if (place >= count) continue;
      scores[place] = score::KeyScore(key);
      ids[place] = id;
    }
  }
}

}  // namespace

cudaError_t LaunchGather(const GatherArgs& args, cudaStream_t stream) {
  constexpr int64_t kBlocksOfQueryMax = 32;
  const int64_t keys = int64_t{args.k_max} * (args.lists.lists > 1 ? args.lists.lists : 1);
  const int64_t blocks = (keys + kGatherThreads - 1) / kGatherThreads;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(args.queries),
           static_cast<unsigned>(blocks < kBlocksOfQueryMax ? blocks : kBlocksOfQueryMax));
  config.blockDim = dim3(kGatherThreads);
  config.stream = stream;
  void* parameters[] = {const_cast<GatherArgs*>(&args)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(GatherKernel), parameters);
}

}  // namespace nearfield::gpu

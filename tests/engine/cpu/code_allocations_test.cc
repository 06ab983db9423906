// Counts the allocations of a search by codes.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"

namespace {
std::atomic<int64_t> allocations{0};

#ifndef NEARFIELD_SANITIZED
void* Allocate(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory =
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}
#endif
}  // namespace

#ifndef NEARFIELD_SANITIZED
// Replacements that count allocations of the whole program.
void* operator new(size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
#endif  // NEARFIELD_SANITIZED

namespace nearfield::cpu {
namespace {

// Searches after the first of a shape allocate only the answer.
TEST(CodeAllocationsTest, ASearchAllocatesNothingButItsAnswer) {
#ifdef NEARFIELD_SANITIZED
  GTEST_SKIP() << "the sanitizer makes allocations of its own";
#endif
  const auto backend = MakeBackend("", 2);
  Random random(TestSeed());
  for (const int64_t queries : {1, 12}) {
    const CollectionSpec spec = {.dim = 48, .scan = ScanChoice::kInt8};
    const HostGeneration generation =
        testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kGaussian, 4000, random.Bits()),
                                RankOrder::kShuffled, false, random);
    const LoadedGeneration loaded = testing::Load(*backend, generation);
    std::vector<float> vectors(static_cast<size_t>(queries * spec.dim));
    for (float& value : vectors) value = random.Gaussian();
    const std::vector<int32_t> k(static_cast<size_t>(queries), 10);
    const backend::QueryTile tile = testing::TileOf(vectors, k);
    backend::ScanCost cost;
    backend::RankedLists best;
    for (int i = 0; i < 20; ++i) {
      const int64_t before = allocations.load();
      ASSERT_OK(backend->Search(testing::FormatOf(spec), {&loaded.view, 1}, tile, &best, &cost));
      if (i < 10) continue;
      // The lists are in a block that the caller reuses, however many queries there are.
      EXPECT_LE(allocations.load() - before, 2);
    }
  }
}

}  // namespace
}  // namespace nearfield::cpu

#include "tests/bench/cpu_limits.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/cpu/host_memory.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

std::atomic<uint64_t> sink{0};  // keeps the compiler from dropping the work

constexpr int64_t kLineBytes = 64;

// Reads every byte of [data, data + bytes), with or without a prefetch ahead; callers use the
// faster.
void ReadAll(const std::byte* data, int64_t bytes, int64_t fetch_ahead) {
  __m128i sums[4] = {};
  for (int64_t i = 0; i < bytes; i += kLineBytes) {
    if (fetch_ahead > 0) __builtin_prefetch(data + i + fetch_ahead);
    const auto* line = reinterpret_cast<const __m128i*>(data + i);
    for (int j = 0; j < 4; ++j) sums[j] = _mm_xor_si128(sums[j], _mm_load_si128(line + j));
  }
  const __m128i all =
      _mm_xor_si128(_mm_xor_si128(sums[0], sums[1]), _mm_xor_si128(sums[2], sums[3]));
  sink.fetch_xor(static_cast<uint64_t>(_mm_cvtsi128_si64(all)));
}

constexpr int64_t kSteps = 2'000'000;
constexpr int kChains = 16;  // exceeds latency times units: 4 x 2

__attribute__((target("avx512f"))) int64_t MultiplyAddsWide() {
  __m512d sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_pd(1.0);
  const __m512d factor = _mm512_set1_pd(0.999);
  for (int64_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_fmadd_pd(sums[c], factor, factor);
  }
  double total = 0;
  for (const auto& sum : sums) total += _mm512_cvtsd_f64(sum);
  sink.fetch_add(static_cast<uint64_t>(total));
  return kSteps * kChains * 8;
}

__attribute__((target("avx2,fma"))) int64_t MultiplyAdds() {
  constexpr int kChainsHere = 12;  // fits the 16 registers
  __m256d sums[kChainsHere];
  for (auto& sum : sums) sum = _mm256_set1_pd(1.0);
  const __m256d factor = _mm256_set1_pd(0.999);
  for (int64_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChainsHere; ++c) sums[c] = _mm256_fmadd_pd(sums[c], factor, factor);
  }
  double total = 0;
  for (const auto& sum : sums) total += _mm256_cvtsd_f64(sum);
  sink.fetch_add(static_cast<uint64_t>(total));
  return kSteps * kChainsHere * 4;
}

}  // namespace

double StreamingReadRate(ThreadPool& pool, int32_t threads, int64_t bytes) {
  bytes = bytes / (threads * kLineBytes) * (threads * kLineBytes);
  auto memory = cpu::Mapping::Create(bytes + 65'536);
  if (!memory.ok()) {
    std::fprintf(stderr, "%s\n", memory.status().ToString().c_str());
    std::exit(1);
  }
  std::memset(memory->data(), 1, static_cast<size_t>(bytes));
  double best = 0;
  for (const int64_t fetch_ahead : {0, 1024, 2048, 4096, 8192}) {
    const Timing timing = MedianOf({.warmups = 1, .runs = 11, .seconds_max = 5}, [&](int) {
      pool.Run(threads, [&](int32_t worker) {
        ReadAll(memory->data() + bytes / threads * worker, bytes / threads, fetch_ahead);
      });
    });
    best = std::max(best, static_cast<double>(bytes) / timing.median_us * 1e6);
  }
  return best;
}

double MultiplyAddRate(ThreadPool& pool, int32_t threads) {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("fma")) return 0;
  int64_t done = 0;
  const Timing timing = MedianOf({.warmups = 1, .runs = 11, .seconds_max = 5}, [&](int) {
    pool.Run(threads, [&](int32_t worker) {
      const int64_t count = wide ? MultiplyAddsWide() : MultiplyAdds();
      if (worker == 0) done = count;
    });
  });
  return 2.0 * static_cast<double>(done) * threads / timing.median_us * 1e6;
}

}  // namespace nearfield::bench

// What this machine's cores and memory can do at most: the limits that CPU benchmarks are held
// against.
#ifndef NEARFIELD_TESTS_BENCH_CPU_LIMITS_H_
#define NEARFIELD_TESTS_BENCH_CPU_LIMITS_H_

#include <cstdint>

#include "engine/base/thread_pool.h"

namespace nearfield::bench {

// Bytes a second that `threads` threads together read from `bytes` of memory, each its own stretch
// in order.
double StreamingReadRate(ThreadPool& pool, int32_t threads, int64_t bytes);

// Floating-point operations a second in fp64, two a multiply-add, with nothing but registers
// involved.
double MultiplyAddRate(ThreadPool& pool, int32_t threads);

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_CPU_LIMITS_H_

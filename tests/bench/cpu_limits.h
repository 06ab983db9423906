// Measures the maximum rates of this machine's cores and memory, to which CPU benchmarks are
// compared.
#pragma once

#include <cstdint>

#include "engine/base/thread_pool.h"

namespace nearfield::bench {

// Returns the bytes per second that `threads` threads together read from `bytes` of memory; each
// thread reads its own part in order.
double StreamingReadRate(ThreadPool& pool, int32_t threads, int64_t bytes);

// Returns the fp64 floating-point operations per second, two per multiply-add, on registers only.
double MultiplyAddRate(ThreadPool& pool, int32_t threads);

}  // namespace nearfield::bench

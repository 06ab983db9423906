// Options of cpu_scan_bench.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "nearfield/engine/types.h"
#include "tests/bench/precision_name.h"

namespace nearfield::bench {

struct Shape {
  int64_t rows_count;
  int32_t dim;
  RowType row_type;
  Metric metric;
};

inline constexpr ScanPrecision kPaths[] = {ScanPrecision::kInt8, ScanPrecision::kRows};

struct Options {
  bool tiny = false;
  std::vector<int32_t> threads;
  std::string instruction_set;
  std::string case_part;
  std::vector<ScanPrecision> paths{std::begin(kPaths), std::end(kPaths)};
  std::vector<int32_t> batches;
  std::vector<Shape> shapes;
  bool equal_rows = false;
  std::string dump;
  bool json = false;  // also prints a JSON line for scripts/cpu_campaign per case
  int32_t k = 10;
  double seconds = 4;  // maximum per case
};

// Prints the message and ends the program with 1.
[[noreturn]] void Fail(const std::string& message);

const char* Name(RowType type);
const char* Name(Metric metric);

// Parses the arguments; fails if one is unknown or wrong. Fills in default threads and batches.
Options ParseOptions(int argc, char** argv);

}  // namespace nearfield::bench

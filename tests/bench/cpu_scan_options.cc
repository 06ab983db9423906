#include "tests/bench/cpu_scan_options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace nearfield::bench {

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "cpu_scan_bench: %s\n", message.c_str());
  std::exit(1);
}

const char* Name(RowType type) {
  return type == RowType::kFloat32 ? "fp32" : type == RowType::kFloat16 ? "fp16" : "bf16";
}
const char* Name(Metric metric) {
  return metric == Metric::kDot ? "dot" : metric == Metric::kL2 ? "l2" : "cosine";
}

namespace {

std::vector<int32_t> ParseCounts(const std::string& flag, const std::string& text) {
  std::vector<int32_t> counts;
  for (const auto& part : absl::StrSplit(text, ',')) {
    int32_t count = 0;
    if (!absl::SimpleAtoi(part, &count) || count < 1) Fail(absl::StrCat(flag, ": not a count"));
    counts.push_back(count);
  }
  return counts;
}

std::vector<Shape> ParseShapes(const std::string& text) {
  std::vector<Shape> shapes;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(part, 'x');
    Shape shape = {0, 0, RowType::kFloat32, Metric::kDot};
    if (!absl::SimpleAtoi(sides.first, &shape.rows_count) ||
        !absl::SimpleAtoi(sides.second, &shape.dim) || shape.rows_count < 1 || shape.dim < 1) {
      Fail("--shape: not <rows>x<dim>");
    }
    shapes.push_back(shape);
  }
  return shapes;
}

std::vector<ScanPrecision> ParsePaths(const std::string& text) {
  std::vector<ScanPrecision> paths;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const auto* const named = std::find_if(std::begin(kPaths), std::end(kPaths),
                                           [&](ScanPrecision path) { return part == Name(path); });
    if (named == std::end(kPaths)) Fail("--path: int8 or rows");
    paths.push_back(*named);
  }
  return paths;
}

}  // namespace

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> flag =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    if (flag.first == "--tiny") {
      options.tiny = true;
    } else if (flag.first == "--threads") {
      options.threads = ParseCounts(flag.first, flag.second);
    } else if (flag.first == "--batch") {
      options.batches = ParseCounts(flag.first, flag.second);
    } else if (flag.first == "--path") {
      options.paths = ParsePaths(flag.second);
    } else if (flag.first == "--shape") {
      options.shapes = ParseShapes(flag.second);
    } else if (flag.first == "--data" && (flag.second == "gaussian" || flag.second == "equal")) {
      options.equal_rows = flag.second == "equal";
    } else if (flag.first == "--dump") {
      options.dump = flag.second;
    } else if (flag.first == "--json") {
      options.json = true;
    } else if (flag.first == "--instruction-set") {
      options.instruction_set = flag.second;
    } else if (flag.first == "--case") {
      options.case_part = flag.second;
    } else if (flag.first == "--seconds" && absl::SimpleAtod(flag.second, &options.seconds)) {
      continue;
    } else if (flag.first == "--k" && absl::SimpleAtoi(flag.second, &options.k) && options.k >= 1 &&
               options.k <= kKMax) {
      continue;
    } else {
      Fail(absl::StrCat("unknown or wrong option ", argv[i]));
    }
  }
  if (options.batches.empty()) {
    options.batches = options.tiny ? std::vector<int32_t>{1, 5} : std::vector<int32_t>{1, 8, 64};
  }
  if (options.threads.empty()) {
    const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
    options.threads = {1};
    if (cores > 1) options.threads.push_back(cores);
  }
  return options;
}

}  // namespace nearfield::bench

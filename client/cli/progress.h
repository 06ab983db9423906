// Progress of an upload or an export: a bar that is redrawn on a terminal, or periodic lines
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "nearfield/client/upload.h"

namespace nearfield::client {

// Returns "[#####-----]  50%  500,000 of 1,000,000 rows  120 MB/s  ETA 0:12", at most `width`
// columns; the bar is shortened first.
std::string ProgressLine(const UploadProgress& progress, uint64_t rows_total, size_t width);

class ProgressPrinter {
 public:
  struct Options {
    uint64_t rows_total = 0;
    bool terminal = false;  // redraw in place
    size_t width = 80;
    std::function<void(std::string_view)> write;
  };

  explicit ProgressPrinter(Options options) : options_(std::move(options)) {}

  // Writes the progress if it is due (ten times a second on a terminal, else every five seconds),
  // and always at the end.
  void Show(const UploadProgress& progress);
  // Ends the line that is open on a terminal. Call it before any other output.
  void Finish();

 private:
  Options options_;
  std::chrono::nanoseconds next_{0};
  bool line_open_ = false;
  bool complete_ = false;
};

// Returns a printer for standard error.
ProgressPrinter ProgressOnStderr(uint64_t rows_total);

}  // namespace nearfield::client

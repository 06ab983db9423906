#include "client/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "client/cli/text_output.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTerminalInterval{100};
constexpr milliseconds kLineInterval{5000};
constexpr size_t kBarWidthMin = 5;
constexpr size_t kBarWidthMax = 40;

}  // namespace

std::string ProgressLine(const UploadProgress& progress, uint64_t rows_total, size_t width) {
  const uint64_t rows_done = progress.rows_skipped + progress.rows_sent;
  const double share =
      rows_total == 0
          ? 1
          : std::min(1.0, static_cast<double>(rows_done) / static_cast<double>(rows_total));
  std::string text =
      absl::StrFormat("%3.0f%%  %s of %s rows  %s/s", share * 100, Grouped(rows_done),
                      Grouped(rows_total), HumanBytes(progress.bytes_per_second()));
  if (share < 1 && progress.rows_sent > 0) {
    const double rows_left = static_cast<double>(rows_total - rows_done);
    const double seconds = rows_left / progress.rows_per_second();
    const auto whole = static_cast<uint64_t>(std::clamp(seconds, 0.0, 3.6e8));
    absl::StrAppendFormat(&text, "  ETA %d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  }
  constexpr size_t kFrame = 4;  // "[" "]" and two spaces
  if (text.size() + kFrame + kBarWidthMin > width) return Shortened(text, width);
  const size_t bar_width = std::min(kBarWidthMax, width - text.size() - kFrame);
  const auto filled = static_cast<size_t>(share * static_cast<double>(bar_width));
  return Cat("[", std::string(filled, '#'), std::string(bar_width - filled, '-'), "]  ", text);
}

void ProgressPrinter::Show(const UploadProgress& progress) {
  const bool complete = progress.rows_skipped + progress.rows_sent >= options_.rows_total;
  if (complete ? complete_ : progress.elapsed < next_) return;
  complete_ = complete;
  next_ = progress.elapsed + (options_.terminal ? kTerminalInterval : kLineInterval);
  const std::string line = ProgressLine(progress, options_.rows_total, options_.width);
  // "\x1b[K" clears the rest of a longer previous line.
  options_.write(options_.terminal ? Cat("\r", line, "\x1b[K") : Cat(line, "\n"));
  line_open_ = options_.terminal;
}

void ProgressPrinter::Finish() {
  if (line_open_) options_.write("\n");
  line_open_ = false;
}

ProgressPrinter ProgressOnStderr(uint64_t rows_total) {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return ProgressPrinter(
      {.rows_total = rows_total,
       .terminal = isatty(STDERR_FILENO) != 0,
       .width = known ? size.ws_col : size_t{80},
       .write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }});
}

}  // namespace nearfield::client

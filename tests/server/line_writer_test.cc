// Tests of lines to a descriptor that is read, read late, or not at all.
#include "server/telemetry/line_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60000};

// A pipe whose reader has not begun.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Pipe() {
    CloseWriter();
    close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int writer() const { return ends_[1]; }
  void Fill() {
    const std::string page(4096, 'x');
    EXPECT_EQ(fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends_[1], page.data(), page.size()) > 0) ++pages_;
    EXPECT_EQ(fcntl(ends_[1], F_SETFL, 0), 0);
  }
  // Reads what Fill wrote.
  void Empty() {
    std::array<char, 4096> page = {};
    for (; pages_ > 0; --pages_) {
      for (size_t got = 0; got < page.size();) {
        got += static_cast<size_t>(read(ends_[0], page.data(), page.size() - got));
      }
    }
  }
  std::string ReadSome() {
    std::array<char, 4096> chunk = {};
    const ssize_t got = read(ends_[0], chunk.data(), chunk.size());
    return {chunk.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }
  void CloseWriter() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  std::string ReadAll() {
    CloseWriter();
    std::string text;
    for (std::string some; !(some = ReadSome()).empty();) text += some;
    return text;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
  int pages_ = 0;
};

LineWriterOptions Options(const Pipe& pipe) {
  return {.fd = pipe.writer(), .lines_max = 10, .dropped_line = [](int64_t dropped, int64_t all) {
            return absl::StrCat("dropped ", dropped, " of ", all);
          }};
}

TEST(LineWriterTest, LinesArriveInOrder) {
  Pipe pipe;
  LineWriter writer(Options(pipe));
  std::string expected;
  for (int i = 0; i < 5; ++i) {
    writer.Write(absl::StrCat("line ", i));
    absl::StrAppend(&expected, "line ", i, "\n");
  }
  EXPECT_TRUE(writer.Flush(kLong));
  EXPECT_EQ(writer.dropped(), 0);
  EXPECT_EQ(pipe.ReadAll(), expected);
}

// A reader that stops must cost lines, not threads. The newest lines stay, and the log reports the
// number of missing lines once it is read again.
TEST(LineWriterTest, ABlockedReaderCostsTheOldestLinesAndTheLogTellsHowMany) {
  Pipe pipe;
  pipe.Fill();
  LineWriter writer(Options(pipe));
  for (int i = 0; i < 100; ++i) writer.Write(absl::StrCat("line ", i));
  EXPECT_FALSE(writer.Flush(milliseconds(1)));
  const int64_t dropped = writer.dropped();
  EXPECT_GE(dropped, 89);  // ten wait, and the thread may hold one
  EXPECT_LE(dropped, 90);
  pipe.Empty();
  EXPECT_TRUE(writer.Flush(kLong));
  EXPECT_EQ(writer.dropped(), dropped);
  const std::vector<std::string> lines = absl::StrSplit(pipe.ReadAll(), '\n');
  // The lines, the report, and the empty text after the last newline.
  EXPECT_EQ(lines.size(), static_cast<size_t>(100 - dropped + 2));
  EXPECT_THAT(lines, Contains(absl::StrCat("dropped ", dropped, " of ", dropped)));
  EXPECT_THAT(lines, Contains("line 99"));
}

TEST(LineWriterTest, TheEndDoesNotWaitForABlockedReader) {
  Pipe pipe;
  pipe.Fill();
  {
    LineWriter writer(Options(pipe));
    for (int i = 0; i < 100; ++i) writer.Write("line");
  }
  // Unblock the abandoned thread and wait for its last line, because it uses the pipe.
  pipe.Empty();
  std::string text;
  int64_t dropped = 0;
  while (dropped == 0 || std::count(text.begin(), text.end(), '\n') < 100 - dropped + 1) {
    text += pipe.ReadSome();
    const size_t told = text.find("dropped ");
    if (told != std::string::npos) dropped = std::stoll(text.substr(told + 8, 2));
  }
}

}  // namespace
}  // namespace nearfield::server

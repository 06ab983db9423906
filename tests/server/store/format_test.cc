// Tests which formats of the store's files are read, and what is said about the others.
#include "server/store/format.h"

#include <string>

#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

constexpr FileFormat kFormat = {.what = "segment", .written = 5, .read_min = 3};

TEST(FormatTest, TheFormatsInTheRangeAreRead) {
  for (int64_t found = 3; found <= 5; ++found) EXPECT_OK(CheckReadable(kFormat, found, "p"));
}

TEST(FormatTest, ANewerFormatIsRefusedWithBothNumbersAndTheWayBack) {
  const auto refused =
      FailsWith(kFailedPrecondition, "/data/x: segment format 6", "nearfield " NEARFIELD_VERSION,
                "reads formats 3 .. 5", "restore a snapshot");
  EXPECT_THAT(CheckReadable(kFormat, 6, "/data/x"), refused);
}

TEST(FormatTest, AnOlderFormatNamesTheStepInBetween) {
  EXPECT_THAT(CheckReadable(kFormat, 2, "/data/x"),
              FailsWith(kFailedPrecondition, "format 2", "3 .. 5", "version in between"));
}

TEST(FormatTest, NoFileHasAFormatBelowOne) {
  for (const int64_t found : {0, -1}) {
    EXPECT_THAT(CheckReadable(kFormat, found, "p"), StatusIs(kDataLoss));
  }
}

// A change of format may not drop the one before: deploy/README.md, "Upgrades".
TEST(FormatTest, EveryFileIsReadInItsFormatAndTheOneBefore) {
  for (const FileFormat& format : kFileFormats) {
    for (const int32_t found : {format.written - 1, format.written}) {
      if (found < 1) continue;
      EXPECT_OK(CheckReadable(format, found, "p")) << format.what;
    }
    EXPECT_THAT(CheckReadable(format, format.written + 1, "p"), StatusIs(kFailedPrecondition));
  }
}

}  // namespace
}  // namespace nearfield::store

// Tests segment files that the catalog does not name: which ones a start removes, moves to lost/
// or refuses.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "server/store/checksum.h"
#include "server/store/little_endian.h"
#include "server/store/segment_format.h"
#include "server/store/store.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

namespace fs = std::filesystem;

class StoreOrphansTest : public ::testing::Test {
 protected:
  StoreOrphansTest() : tested_(dir_ / "data") {
    tested_.Create("a", 1);
    for (int64_t number = 1; number <= 3; ++number) EXPECT_OK(tested_.Upload("a", number));
  }

  absl::Status OpenStatus() const { return Store::Open(tested_.Options()).status(); }
  // Begins upload 4 and syncs it. Sets `name` to the file of its segment.
  std::unique_ptr<SegmentWriter> Sync(std::string* name) {
    const std::set<std::string> before = Segments();
    absl::StatusOr<std::unique_ptr<SegmentWriter>> writer = tested_.Begin("a", 4);
    EXPECT_OK(writer);
    EXPECT_OK((*writer)->Sync());
    *name = NewIn(before);
    return *std::move(writer);
  }
  std::string Data(const std::string& name) const { return dir_ / ("data/" + name); }
  // Copies the directory as a kill at this moment would leave it.
  void CopyTo(const std::string& name) const {
    fs::copy(dir_ / "data", dir_ / name, fs::copy_options::recursive);
  }
  // Replaces the store by a copy.
  void Take(const std::string& name) {
    tested_.Close();
    fs::remove_all(dir_ / "data");
    fs::rename(dir_ / name, dir_ / "data");
  }
  std::set<std::string> Segments() const { return SegmentsIn(dir_ / "data"); }
  // Returns the segment file that is not in `before`.
  std::string NewIn(const std::set<std::string>& before) const {
    for (const std::string& name : Segments()) {
      if (before.count(name) == 0) return name;
    }
    ADD_FAILURE() << "no new segment";
    return "";
  }

  // Writes a newer format into the segment's header.
  static void MakeNewer(const std::string& path) {
    SegmentHeaderBytes header = {};
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.read(reinterpret_cast<char*>(header.data()), header.size());
    header[8] = 9;
    SegmentHeaderBytes sealed = SealedHeader(header);
    const auto sum = header.size() - 4;
    PutUint32(Crc32c(absl::MakeConstSpan(sealed.data(), sum)), header.data() + sum);
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(header.data()), header.size());
  }

  const TempDir dir_;
  ModelStore tested_;
};

// A data directory that was copied without catalog.db-wal and high_water started empty, and every
// segment in it was unlinked without a warning.
TEST_F(StoreOrphansTest, ACatalogWithoutItsLogIsRefusedAndNoSegmentIsTouched) {
  const std::set<std::string> segments = Segments();
  CopyTo("copy");
  fs::remove(dir_ / "copy/catalog.db-wal");
  fs::remove(dir_ / "copy/high_water");
  Take("copy");
  // A supervisor restarts the server repeatedly. Once a later start was not refused.
  for (int start = 1; start <= 10; ++start) {
    EXPECT_THAT(OpenStatus(), FailsWith(kDataLoss, "older copy", ".seg"));
  }
  EXPECT_EQ(Segments(), segments);
  EXPECT_FALSE(fs::exists(Data("lost")));
}

// The mark alone is too weak, because an older pair of catalog and mark is consistent.
TEST_F(StoreOrphansTest, ACatalogOlderThanASegmentIsRefused) {
  tested_.Close();
  CopyTo("older");
  tested_.Reopen();
  ASSERT_OK(tested_.Upload("a", 4));
  ASSERT_OK(tested_.Upload("a", 5));
  tested_.Close();
  for (const char* const name : {"catalog.db", "high_water"}) {
    fs::copy_file(dir_ / ("older/" + std::string(name)), Data(name),
                  fs::copy_options::overwrite_existing);
  }
  const std::set<std::string> segments = Segments();
  for (int start = 1; start <= 10; ++start) {
    EXPECT_THAT(OpenStatus(), FailsWith(kDataLoss, "made after commit"));
  }
  EXPECT_EQ(Segments(), segments);
}

// An older build took a segment of a newer format for damaged: its start moved the segment to
// lost/, or did not load its collection.
TEST_F(StoreOrphansTest, ASegmentThatANewerBuildWroteIsRefusedAndNothingIsTouched) {
  const size_t committed_count = Segments().size();
  std::string orphan;
  const auto writer = Sync(&orphan);
  ASSERT_OK_AND_ASSIGN(const auto resumable, tested_.Begin("a", 5, "t"));
  const std::set<std::string> segments = Segments();
  ASSERT_THAT(segments, SizeIs(committed_count + 2));
  CopyTo("copy");
  for (const std::string& name : segments) {  // committed, of an upload, an orphan
    tested_.Close();
    fs::remove_all(dir_ / "data");
    fs::copy(dir_ / "copy", dir_ / "data");
    MakeNewer(Data(name));
    EXPECT_THAT(OpenStatus(),
                FailsWith(kFailedPrecondition, name, "format 9", "formats 1 .. 2", "newer"));
    EXPECT_EQ(Segments(), segments);
    EXPECT_FALSE(fs::exists(Data("lost")));
  }
}

// One lost commit cannot be distinguished from an upload that ended before its commit. Without the
// mark the start is refused; with it the segment is moved to lost/.
TEST_F(StoreOrphansTest, TheSegmentOfOneLostCommitIsNeverRemoved) {
  std::string name;
  const auto writer = Sync(&name);
  const auto bytes = static_cast<int64_t>(fs::file_size(Data(name)));
  CopyTo("copy");
  Take("copy");
  fs::rename(Data("high_water"), dir_ / "mark");
  EXPECT_THAT(OpenStatus(), FailsWith(kDataLoss, "high_water"));
  EXPECT_TRUE(fs::exists(Data(name)));
  EXPECT_FALSE(fs::exists(Data("high_water")));
  fs::rename(dir_ / "mark", Data("high_water"));
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
  const OrphanReport& report = tested_.store().orphans();
  ASSERT_THAT(report.set_aside, SizeIs(1));
  EXPECT_EQ(report.set_aside[0].path, Data("lost/" + name));
  EXPECT_EQ(report.set_aside[0].bytes, bytes);
  EXPECT_EQ(report.lost_bytes, bytes);
  EXPECT_EQ(static_cast<int64_t>(fs::file_size(Data("lost/" + name))), bytes);
  // The number is not assigned again, and later starts count the file without touching it.
  ASSERT_OK(tested_.Upload("a", 6));
  EXPECT_FALSE(fs::exists(Data(name)));
  tested_.Reopen();
  EXPECT_THAT(tested_.store().orphans().set_aside, SizeIs(0));
  EXPECT_EQ(tested_.store().orphans().lost_count, 1);
  EXPECT_TRUE(tested_.Same());
}

// A file that was never sealed was never committed. So crashes during uploads, with and without a
// token, do not fill the disk.
TEST_F(StoreOrphansTest, UnfinishedUploadsAreRemoved) {
  const std::set<std::string> before = Segments();
  ASSERT_OK_AND_ASSIGN(const auto plain, tested_.Begin("a", 4));
  const std::string of_plain = NewIn(before);
  const std::set<std::string> between = Segments();
  ASSERT_OK_AND_ASSIGN(const auto resumable, tested_.Begin("a", 5, "t"));
  ASSERT_OK(resumable->Checkpoint());
  const std::string of_token = NewIn(between);
  CopyTo("copy");
  fs::copy(Data(of_token), dir_ / of_token);
  Take("copy");
  std::ofstream(tested_.SegmentPath(99)).close();
  tested_.Reopen();
  EXPECT_EQ(tested_.store().orphans().unfinished_count, 2);
  EXPECT_FALSE(fs::exists(Data(of_plain)));
  EXPECT_FALSE(fs::exists(tested_.SegmentPath(99)));
  EXPECT_TRUE(fs::exists(Data(of_token)));
  ASSERT_OK(tested_.store().DropUpload(tested_.Key("a", "t")));
  tested_.Close();
  fs::copy(dir_ / of_token, Data(of_token));
  tested_.Reopen();
  EXPECT_EQ(tested_.store().orphans().unfinished_count, 1);
  EXPECT_FALSE(fs::exists(Data(of_token)));
  EXPECT_FALSE(fs::exists(Data("lost")));
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreOrphansTest, DamagedFilesAreSetAsideUnderNamesOfTheirOwn) {
  for (int64_t count = 1; count <= 2; ++count) {
    tested_.Close();
    std::ofstream(tested_.SegmentPath(77)) << "half a header";
    tested_.Reopen();
    EXPECT_FALSE(fs::exists(tested_.SegmentPath(77)));
    EXPECT_EQ(tested_.store().orphans().lost_count, count);
  }
  EXPECT_TRUE(fs::exists(Data("lost/0000000000000077.seg")));
  EXPECT_TRUE(fs::exists(Data("lost/0000000000000077.seg.2")));
  EXPECT_OK(tested_.store().Verify());
}

TEST_F(StoreOrphansTest, ASegmentOfAnotherStoreIsRefused) {
  tested_.Close();
  const TempDir other;
  {
    ModelStore second(other / "data");
    second.Create("a", 1);
    ASSERT_OK(second.Upload("a", 1));
  }
  fs::copy(other / "data/0000000000000002.seg", tested_.SegmentPath(77));
  EXPECT_THAT(OpenStatus(), FailsWith(kFailedPrecondition, "another store"));
  EXPECT_TRUE(fs::exists(tested_.SegmentPath(77)));
}

}  // namespace
}  // namespace nearfield::store

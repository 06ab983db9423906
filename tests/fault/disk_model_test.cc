// Tests of the disk model: synced data stays, other data may be lost, and nothing else changes.
#include "tests/fault/disk_model.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/testing/seed.h"

namespace nearfield::fault {
namespace {

class DiskModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string dir = std::filesystem::temp_directory_path() / "nearfield-disk-XXXXXX";
    ASSERT_NE(::mkdtemp(dir.data()), nullptr);
    dir_ = dir;
    MakeEmpty();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void MakeEmpty() const {
    for (const char* const name : {"root", "stash"}) {
      std::filesystem::remove_all(dir_ / name);
      std::filesystem::create_directory(dir_ / name);
    }
  }
  std::string Path(const std::string& name) const { return dir_ / "root" / name; }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  bool Has(const std::string& name) const { return std::filesystem::exists(Path(name)); }

  // Makes a durable file with this content and returns an open descriptor.
  int Durable(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return ::open(Path(name).c_str(), O_RDWR | O_CLOEXEC);
  }
  static void Write(DiskModel& disk, int fd, int64_t offset, const std::string& bytes) {
    disk.BeforeWrite(fd, offset, static_cast<int64_t>(bytes.size()));
    ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), offset), static_cast<ssize_t>(bytes.size()));
  }
  static void Unlink(DiskModel& disk, const std::string& path) {
    const std::string kept = disk.BeforeReplace(path);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    disk.AfterUnlink(path, kept);
  }

  std::filesystem::path dir_;
};

TEST_F(DiskModelTest, WhatWasSyncedSurvivesEveryPowerLoss) {
  testing::Random random(testing::TestSeed());
  const std::string content(5000, 'n');
  for (int i = 0; i < 50; ++i) {
    DiskModel disk(dir_ / "stash");
    const int fd = Durable("a", std::string(3000, 'o'));
    Write(disk, fd, 0, content);
    disk.AfterSync(fd);
    disk.LosePower(random);
    EXPECT_EQ(Content("a"), content);
    ::close(fd);
  }
}

TEST_F(DiskModelTest, WhatWasNotSyncedIsOldOrNewInEverySector) {
  testing::Random random(testing::TestSeed());
  std::set<std::string> outcomes;
  for (int i = 0; i < 100; ++i) {
    DiskModel disk(dir_ / "stash");
    const int fd = Durable("a", std::string(4096, 'o'));
    Write(disk, fd, 0, std::string(4096, 'n'));
    disk.LosePower(random);
    const std::string found = Content("a");
    ASSERT_EQ(found.size(), 4096u);
    for (size_t at = 0; at < found.size(); ++at) {
      ASSERT_EQ(found[at], found[at / kSectorBytes * kSectorBytes]) << "a torn sector";
      ASSERT_TRUE(found[at] == 'o' || found[at] == 'n');
    }
    outcomes.insert(found);
    ::close(fd);
  }
  EXPECT_TRUE(outcomes.count(std::string(4096, 'o')) > 0) << "nothing was ever lost as a whole";
  EXPECT_GT(outcomes.size(), 3u) << "nothing was ever lost in part";
}

TEST_F(DiskModelTest, AnUnsyncedTruncationMayComeBackWhole) {
  testing::Random random(testing::TestSeed());
  std::set<std::string> outcomes;
  const std::string content = std::string(700, 'x') + std::string(700, 'y');
  for (int i = 0; i < 50; ++i) {
    DiskModel disk(dir_ / "stash");
    const int fd = Durable("a", content);
    disk.BeforeTruncate(fd, 100);
    ASSERT_EQ(::ftruncate(fd, 100), 0);
    disk.LosePower(random);
    outcomes.insert(Content("a"));
    ::close(fd);
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{content, content.substr(0, 100)}));
}

TEST_F(DiskModelTest, NamesComeAndGoUntilTheDirectoryIsSynced) {
  testing::Random random(testing::TestSeed());
  std::set<std::string> outcomes;
  for (int i = 0; i < 100; ++i) {
    DiskModel disk(dir_ / "stash");
    MakeEmpty();
    ::close(Durable("a", "old"));
    Unlink(disk, Path("a"));
    const int fd = Durable("b", "");
    disk.AfterCreate(Path("b"), fd);
    if (i % 2 == 0) disk.AfterDirectorySync(dir_ / "root");
    disk.LosePower(random);
    if (i % 2 == 0) {
      ASSERT_TRUE(!Has("a") && Has("b"));
    } else {
      outcomes.insert(std::string(Has("a") ? "a" : "") + (Has("b") ? "b" : ""));
    }
    if (Has("a")) {
      ASSERT_EQ(Content("a"), "old");
    }
    ::close(fd);
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"", "a", "ab", "b"}));
}

// A directory that is made under the name of a removed one has no relation to the old one.
TEST_F(DiskModelTest, ADirectoryMadeAnewKeepsWhatWasSyncedInIt) {
  testing::Random random(testing::TestSeed());
  std::set<std::string> outcomes;
  for (int i = 0; i < 200; ++i) {
    DiskModel disk(dir_ / "stash");
    MakeEmpty();
    std::filesystem::create_directory(Path("d"));
    ::close(Durable("d/x", "old"));
    Unlink(disk, Path("d/x"));
    ASSERT_EQ(::rmdir(Path("d").c_str()), 0);
    disk.AfterRemoveDirectory(Path("d"));
    std::filesystem::create_directory(Path("d.partial"));
    disk.AfterMakeDirectory(Path("d.partial"));
    const int fd = Durable("d.partial/x", "");
    disk.AfterCreate(Path("d.partial/x"), fd);
    Write(disk, fd, 0, "new");
    disk.AfterSync(fd);
    disk.AfterDirectorySync(Path("d.partial"));
    std::filesystem::rename(Path("d.partial"), Path("d"));
    disk.AfterRename(Path("d.partial"), Path("d"), "");
    const bool synced = i % 2 == 0;
    if (synced) disk.AfterDirectorySync(dir_ / "root");
    disk.LosePower(random);
    const std::string found = Has("d/x") ? Content("d/x") : "nothing";
    if (synced) {
      ASSERT_EQ(found, "new");
    } else {
      outcomes.insert(found);
    }
    ::close(fd);
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"new", "nothing", "old"}));
}

// The sync of either directory made a rename between two directories durable, so a store that
// forgot the other sync passed.
TEST_F(DiskModelTest, ARenameBetweenDirectoriesIsDurableOnceBothAreSynced) {
  testing::Random random(testing::TestSeed());
  std::set<std::string> outcomes;
  for (int i = 0; i < 400; ++i) {
    DiskModel disk(dir_ / "stash");
    std::filesystem::remove_all(dir_ / "root");
    std::filesystem::create_directories(Path("to"));
    ::close(Durable("a", "moved"));
    std::filesystem::rename(Path("a"), Path("to/a"));
    disk.AfterRename(Path("a"), Path("to/a"), "");
    const int synced = i % 4;  // neither, the old one, the new one, both
    if ((synced & 1) != 0) disk.AfterDirectorySync(dir_ / "root");
    if ((synced & 2) != 0) disk.AfterDirectorySync(Path("to"));
    disk.LosePower(random);
    ASSERT_NE(Has("a"), Has("to/a"));
    outcomes.insert(std::to_string(synced) + (Has("a") ? " old" : " new"));
  }
  EXPECT_EQ(outcomes,
            (std::set<std::string>{"0 new", "0 old", "1 new", "1 old", "2 new", "2 old", "3 new"}));
}

TEST_F(DiskModelTest, AFailedSyncDropsItsDataForGood) {
  DiskModel disk(dir_ / "stash");
  const int fd = Durable("a", "old");
  Write(disk, fd, 0, "new");
  disk.SyncFailed(fd);
  disk.AfterSync(fd);  // returns OK the second time
  disk.LoseDropped();
  EXPECT_EQ(Content("a"), "old");
  ::close(fd);
}

}  // namespace
}  // namespace nearfield::fault

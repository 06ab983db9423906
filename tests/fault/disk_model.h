// Models the data that a disk may lose: writes after the last sync of their file, and names made,
// renamed or removed after the last sync of their directory.
//
// The real files hold the newest state. This model remembers the durable state: the old content of
// every sector changed since the last sync, the old size, and how to undo each change of a name. At
// a power loss it undoes a random part of the changes that are not durable.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/random.h"

namespace nearfield::fault {

inline constexpr int64_t kSectorBytes = 512;  // written whole or not at all

class DiskModel {
 public:
  explicit DiskModel(std::string stash) : stash_(std::move(stash)) {}

  // Called before bytes [offset, offset + bytes) of an open file change.
  void BeforeWrite(int fd, int64_t offset, int64_t bytes);
  void BeforeTruncate(int fd, int64_t size);
  void AfterSync(int fd);
  // Called after a failed sync: the data that it should have written is lost, even if later syncs
  // succeed.
  void SyncFailed(int fd);

  void AfterCreate(const std::string& path, int fd);
  void AfterMakeDirectory(const std::string& path);
  void AfterRemoveDirectory(const std::string& path);
  void AfterLink(const std::string& path);
  // Links the file that is about to lose its name into the stash. Returns the path of the link;
  // empty: there was no file.
  std::string BeforeReplace(const std::string& path);
  void AfterUnlink(const std::string& path, const std::string& kept);
  void AfterRename(const std::string& from, const std::string& to, const std::string& kept);
  void AfterDirectorySync(const std::string& directory);
  void DirectorySyncFailed(const std::string& directory);

  // Undoes a random part of the changes that are not durable.
  void LosePower(testing::Random& random);
  // Undoes all changes that failed syncs dropped.
  void LoseDropped();

 private:
  struct FileState {
    int fd = -1;  // a descriptor of the model
    int64_t durable_size = 0;
    std::map<int64_t, std::array<char, kSectorBytes>>
        durable;  // sectors changed since the last sync, with their old content
    bool dropped = false;
  };
  enum class NameKind : uint8_t { kMake, kMakeDirectory, kRemove, kRemoveDirectory, kRename };
  struct NameChange {
    NameKind kind = NameKind::kMake;
    std::string path;
    std::string to;    // kRename
    std::string kept;  // the file that lost this name
    bool dropped = false;
    bool from_synced = false;  // kRename: the directory of `path` was synced since
    bool to_synced = false;    // and the directory of `to`

    bool In(const std::string& directory) const;       // returns true if it changes the directory
    bool SyncedBy(const std::string& directory);       // records a sync; true: durable now
    bool IsUnder(const std::string& directory) const;  // its first name
  };

  FileState* StateOf(int fd);
  void Remember(FileState* state, int64_t begin, int64_t end);
  static void Revert(FileState* state, testing::Random* random);
  void Undo(const NameChange& change) const;
  void UndoAll(const std::vector<bool>& undone);
  std::vector<size_t> Groups() const;

  const std::string stash_;
  int64_t kept_count_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, FileState> files_;  // by device and inode
  std::vector<NameChange> names_;                             // oldest first
};

}  // namespace nearfield::fault

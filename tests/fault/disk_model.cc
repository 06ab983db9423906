#include "tests/fault/disk_model.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace nearfield::fault {
namespace {

// Calls the kernel directly, so that the library's faults do not affect its own calls.
int RawOpen(const std::string& path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CLOEXEC, 0600));
}
void RawClose(int fd) { ::syscall(SYS_close, fd); }
void RawUnlink(const std::string& path, int flags = 0) {
  ::syscall(SYS_unlinkat, AT_FDCWD, path.c_str(), flags);
}
void RawRename(const std::string& from, const std::string& to) {
  ::syscall(SYS_renameat, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str());
}
void RawTruncate(int fd, int64_t size) { ::syscall(SYS_ftruncate, fd, size); }

int64_t SizeOf(int fd) {
  struct stat facts = {};
  return ::fstat(fd, &facts) == 0 ? static_cast<int64_t>(facts.st_size) : 0;
}

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.find_last_of('/')); }

void RemoveTree(const std::string& path) {
  if (DIR* const opened = ::opendir(path.c_str())) {
    while (const dirent* const entry = ::readdir(opened)) {  // NOLINT(concurrency-mt-unsafe)
      const std::string name = entry->d_name;
      if (name != "." && name != "..") RawUnlink(path + "/" + name);
    }
    ::closedir(opened);
  }
  RawUnlink(path, AT_REMOVEDIR);
}

// If `path` lies under `from`, moves it under `to`.
void Move(const std::string& from, const std::string& to, std::string* path) {
  if (path->compare(0, from.size() + 1, from + "/") == 0) *path = to + path->substr(from.size());
}

}  // namespace

DiskModel::FileState* DiskModel::StateOf(int fd) {
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) return nullptr;
  FileState& state = files_[{facts.st_dev, facts.st_ino}];
  if (state.fd < 0) {
    state.fd = RawOpen("/proc/self/fd/" + std::to_string(fd), O_RDWR);
    state.durable_size = static_cast<int64_t>(facts.st_size);
  }
  return &state;
}

void DiskModel::Remember(FileState* state, int64_t begin, int64_t end) {
  for (int64_t sector = begin / kSectorBytes; sector * kSectorBytes < end; ++sector) {
    const auto [it, is_new] = state->durable.try_emplace(sector);
    if (!is_new) continue;
    it->second.fill(0);
    const int64_t offset = sector * kSectorBytes;
    const int64_t wanted = std::min(kSectorBytes, state->durable_size - offset);
    if (wanted > 0) {
      ::syscall(SYS_pread64, state->fd, it->second.data(), static_cast<size_t>(wanted), offset);
    }
  }
}

void DiskModel::BeforeWrite(int fd, int64_t offset, int64_t bytes) {
  if (FileState* const state = StateOf(fd)) Remember(state, offset, offset + bytes);
}

void DiskModel::BeforeTruncate(int fd, int64_t size) {
  FileState* const state = StateOf(fd);
  if (state == nullptr) return;
  // The part that is cut off may come back.
  Remember(state, size, std::max(size, SizeOf(fd)));
}

void DiskModel::AfterSync(int fd) {
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) return;
  const auto it = files_.find({facts.st_dev, facts.st_ino});
  if (it == files_.end() || it->second.dropped) return;
  RawClose(it->second.fd);
  files_.erase(it);
}

void DiskModel::SyncFailed(int fd) {
  if (FileState* const state = StateOf(fd)) state->dropped = true;
}

void DiskModel::AfterCreate(const std::string& path, int fd) {
  names_.push_back({.kind = NameKind::kMake, .path = path});
  if (FileState* const state = StateOf(fd)) state->durable_size = 0;
}

void DiskModel::AfterMakeDirectory(const std::string& path) {
  names_.push_back({.kind = NameKind::kMakeDirectory, .path = path});
}

void DiskModel::AfterRemoveDirectory(const std::string& path) {
  names_.push_back({.kind = NameKind::kRemoveDirectory, .path = path});
}

void DiskModel::AfterLink(const std::string& path) {
  names_.push_back({.kind = NameKind::kMake, .path = path});
}

std::string DiskModel::BeforeReplace(const std::string& path) {
  const std::string kept = stash_ + "/" + std::to_string(++kept_count_);
  const long linked = ::syscall(SYS_linkat, AT_FDCWD, path.c_str(), AT_FDCWD, kept.c_str(), 0);
  return linked == 0 ? kept : "";
}

void DiskModel::AfterUnlink(const std::string& path, const std::string& kept) {
  names_.push_back({.kind = NameKind::kRemove, .path = path, .kept = kept});
}

void DiskModel::AfterRename(const std::string& from, const std::string& to,
                            const std::string& kept) {
  for (NameChange& change : names_) {  // the content of a directory moves with it
    Move(from, to, &change.path);
    Move(from, to, &change.to);
  }
  names_.push_back({.kind = NameKind::kRename, .path = from, .to = to, .kept = kept});
}

bool DiskModel::NameChange::IsUnder(const std::string& directory) const {
  return path.compare(0, directory.size() + 1, directory + "/") == 0;
}

bool DiskModel::NameChange::In(const std::string& directory) const {
  return DirectoryOf(path) == directory ||
         (kind == NameKind::kRename && DirectoryOf(to) == directory);
}

// A rename between directories is durable after both have been synced.
bool DiskModel::NameChange::SyncedBy(const std::string& directory) {
  if (dropped || !In(directory)) return false;
  if (kind != NameKind::kRename) return true;
  from_synced = from_synced || DirectoryOf(path) == directory;
  to_synced = to_synced || DirectoryOf(to) == directory;
  return from_synced && to_synced;
}

void DiskModel::AfterDirectorySync(const std::string& directory) {
  std::vector<bool> durable(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) {
    durable[i] = names_[i].SyncedBy(directory);
    if (!durable[i] || names_[i].kind != NameKind::kRemoveDirectory) continue;
    // The content of the directory was removed with it, even if its names exist again since then.
    for (size_t j = 0; j < i; ++j) durable[j] = durable[j] || names_[j].IsUnder(names_[i].path);
  }
  std::vector<NameChange> left;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!durable[i]) {
      left.push_back(std::move(names_[i]));
    } else if (!names_[i].kept.empty()) {
      RawUnlink(names_[i].kept);
    }
  }
  names_ = std::move(left);
}

void DiskModel::DirectorySyncFailed(const std::string& directory) {
  for (NameChange& change : names_) change.dropped = change.dropped || change.In(directory);
}

void DiskModel::Revert(FileState* state, testing::Random* random) {
  const int64_t size = SizeOf(state->fd);
  const bool all = state->dropped || random == nullptr || random->OneIn(3);
  const int64_t odds = all ? 1 : random->Between(1, 9);
  int64_t new_size = state->durable_size;
  if (!all && random->OneIn(2)) {
    new_size = size;
  } else if (!all && size > state->durable_size && random->OneIn(2)) {
    new_size = random->Between(state->durable_size, size);
  }
  if (new_size > size) RawTruncate(state->fd, new_size);
  for (const auto& [sector, bytes] : state->durable) {
    const int64_t offset = sector * kSectorBytes;
    // The part that a truncation cut off comes back unchanged or not at all.
    const bool back =
        (new_size > size && offset + kSectorBytes > size) || all || random->OneIn(odds);
    const int64_t wanted = std::min(kSectorBytes, new_size - offset);
    if (back && wanted > 0) {
      ::syscall(SYS_pwrite64, state->fd, bytes.data(), static_cast<size_t>(wanted), offset);
    }
  }
  RawTruncate(state->fd, new_size);
}

void DiskModel::Undo(const NameChange& change) const {
  switch (change.kind) {
    case NameKind::kMake: RawUnlink(change.path); return;
    case NameKind::kMakeDirectory: RemoveTree(change.path); return;
    case NameKind::kRemove:
      if (!change.kept.empty()) RawRename(change.kept, change.path);
      return;
    case NameKind::kRemoveDirectory:
      ::syscall(SYS_mkdirat, AT_FDCWD, change.path.c_str(), 0700);
      return;
    case NameKind::kRename:
      RawRename(change.to, change.path);
      if (!change.kept.empty()) RawRename(change.kept, change.to);
      return;
  }
}

// Returns for each change the first of the changes that share names with it: these happen in order.
std::vector<size_t> DiskModel::Groups() const {
  std::vector<size_t> parents(names_.size());
  std::iota(parents.begin(), parents.end(), size_t{0});
  const auto root = [&parents](size_t i) {
    while (parents[i] != i) i = parents[i];
    return i;
  };
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < names_.size(); ++i) {
    for (const std::string& name : {names_[i].path, names_[i].to}) {
      if (name.empty()) continue;
      const auto [it, is_new] = last.try_emplace(name, i);
      if (!is_new) parents[root(i)] = root(it->second);
    }
    // The content of a directory cannot come back without the directory.
    if (names_[i].kind != NameKind::kRemoveDirectory) continue;
    for (size_t j = 0; j < i; ++j) {
      if (names_[j].IsUnder(names_[i].path)) parents[root(i)] = root(j);
    }
  }
  std::vector<size_t> groups(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) groups[i] = root(i);
  return groups;
}

void DiskModel::LosePower(testing::Random& random) {
  for (auto& [key, state] : files_) Revert(&state, &random);
  const std::vector<size_t> groups = Groups();
  std::map<size_t, size_t> survivors;  // per group, how many of its first changes survive
  for (size_t i = 0; i < names_.size(); ++i) ++survivors[groups[i]];
  const int64_t mood = random.Between(0, 4);
  for (auto& [group, count] : survivors) {
    if (mood == 0) count = 0;
    if (mood > 1) count = static_cast<size_t>(random.Between(0, static_cast<int64_t>(count) + 1));
  }
  std::map<size_t, size_t> seen;
  std::vector<bool> undone(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) undone[i] = seen[groups[i]]++ >= survivors[groups[i]];
  UndoAll(undone);
}

void DiskModel::UndoAll(const std::vector<bool>& undone) {
  for (size_t i = names_.size(); i-- > 0;) {
    if (undone[i]) Undo(names_[i]);
  }
}

void DiskModel::LoseDropped() {
  for (auto& [key, state] : files_) {
    if (state.dropped) Revert(&state, nullptr);
  }
  // If a change is lost, all later changes to the same names are lost too.
  const std::vector<size_t> groups = Groups();
  std::map<size_t, bool> lost;
  std::vector<bool> undone(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) {
    lost[groups[i]] = lost[groups[i]] || names_[i].dropped;
    undone[i] = lost[groups[i]];
  }
  UndoAll(undone);
}

}  // namespace nearfield::fault

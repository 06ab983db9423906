// ModelStore: a store in its own directory, with a model of its expected content.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"
#include "tests/fault/crash_model.h"
#include "tests/server/prelude.h"

namespace nearfield::store {

// Names that most tests of the store use.
using ::absl_testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using enum absl::StatusCode;

// An empty directory. The destructor removes it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Changes one byte of a file.
void FlipByte(const std::string& path, int64_t at);
// Returns the names of the segment files in a directory.
std::set<std::string> SegmentsIn(const std::string& dir);

// Returns options of a compaction that rewrites every segment.
inline CompactOptions AllSegments() {
  return {.dead_share_max = 0, .small_bytes_max = int64_t{1} << 40, .small_segments_min = 1};
}

class ModelStore {
 public:
  // Opens the store in `dir`; a fatal error fails the test.
  explicit ModelStore(const std::string& dir);

  StoreOptions Options() const;
  Store& store() { return *store_; }
  fault::Model& model() { return model_; }
  std::string SegmentPath(int64_t segment) const;

  void Reopen() { Reopen(Options()); }
  void Reopen(const StoreOptions& options);
  void Close() { store_ = nullptr; }

  // Creates a collection. The number of the operation determines its spec.
  int64_t Create(const std::string& name, int64_t number);
  int64_t IdOf(const std::string& name) const;
  UploadKey Key(const std::string& name, const std::string& token) const {
    return {.collection_id = IdOf(name), .token = token};
  }

  // Begins upload `number` (see fault::UploadData) and appends all its blocks.
  absl::StatusOr<std::unique_ptr<SegmentWriter>> Begin(const std::string& name, int64_t number,
                                                       const std::string& token = "");
  // Syncs and commits the upload, and adds it to the model.
  absl::Status Commit(const std::string& name, int64_t number, SegmentWriter* writer);
  // Begin and Commit.
  absl::Status Upload(const std::string& name, int64_t number);
  absl::Status Delete(const std::string& name, int64_t number);
  // Commits the updates `number` (see fault::UpdatesOf), with this token if it is not empty.
  absl::Status Update(const std::string& name, int64_t number, const std::string& token = "");

  // Checks that the store's content equals the model, bit for bit.
  ::testing::AssertionResult Same();

 private:
  const std::string dir_;
  fault::Model model_;
  std::unique_ptr<Store> store_;
};

}  // namespace nearfield::store

// Segment files: each is written once from start to end, and then only read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/block_codec.h"
#include "server/store/catalog_rows.h"
#include "server/store/checksum.h"
#include "server/store/file.h"
#include "server/store/segment_format.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// A committed segment. Readers hold it by a shared pointer. After Doom(), its file is removed with
// the last holder, so a compaction does not disturb a load that began before it.
class CommittedSegment {
 public:
  CommittedSegment(std::shared_ptr<const Directory> directory, SegmentIdentity identity,
                   SegmentRow row)
      : directory_(std::move(directory)),
        identity_(std::move(identity)),
        row_(std::move(row)),
        name_(SegmentFileName(row_.id)) {}
  ~CommittedSegment();

  const Directory& directory() const { return *directory_; }
  const SegmentIdentity& identity() const { return identity_; }
  const SegmentRow& row() const { return row_; }
  const std::string& name() const { return name_; }
  void Doom() { doomed_.store(true); }

 private:
  const std::shared_ptr<const Directory> directory_;
  const SegmentIdentity identity_;
  const SegmentRow row_;
  const std::string name_;  // stored, so that the file can be removed without memory
  std::atomic<bool> doomed_{false};
};

// The size of a segment that is being written.
struct SegmentExtent {
  int64_t blocks = 0;
  int64_t rows = 0;
  int64_t bytes = 0;  // of the file, including its header
};

// The parameters of a new segment file.
struct SegmentPlan {
  int64_t bytes_expected = 0;  // reserved immediately
  int64_t free_bytes_min = 0;  // bytes of the disk that the segment must leave free
  int64_t commits = 0;         // commits of the catalog so far: see SegmentStage
};

// Checks the free space of the disk. Errors: ResourceExhausted (`bytes` more would leave less than
// `free_bytes_min`).
absl::Status CheckRoom(const Directory& directory, int64_t bytes, int64_t free_bytes_min);

// A segment that is being written. Not thread-safe. Errors: ResourceExhausted (the disk is full;
// after that the file may only be discarded), InvalidArgument (the block), else an I/O error.
class SegmentOutput {
 public:
  // Makes the file, reserves disk space and writes the header. Nothing is durable yet.
  static absl::StatusOr<SegmentOutput> Create(std::shared_ptr<const Directory> directory,
                                              const SegmentIdentity& identity,
                                              const SegmentPlan& plan);
  // Continues after `extent`, whose digest is `digest`. Truncates the bytes after it.
  static absl::StatusOr<SegmentOutput> Reopen(std::shared_ptr<const Directory> directory,
                                              const SegmentIdentity& identity,
                                              const SegmentExtent& extent, Sha256 digest,
                                              int64_t free_bytes_min);

  const SegmentIdentity& identity() const { return identity_; }
  const SegmentExtent& extent() const { return extent_; }
  const std::string& path() const { return file_.path(); }
  std::string digest() const { return DigestBytes(digest_.Value()); }

  // Writes a block. Requires: block.number == extent().blocks.
  absl::Status Append(const StoredBlock& block);
  // Writes a block under the next number, as several ones if it is larger than `bytes_max`.
  // Requires: it has all columns.
  absl::Status AppendDivided(const StoredBlock& block, int64_t bytes_max);
  // Marks the file as complete, so that it may be committed after the next Sync. Until then, a
  // start treats it as an upload that was never committed.
  absl::Status Seal();
  // Makes all blocks and the file's name durable. Never returns ResourceExhausted, because data
  // that cannot be synced is lost.
  absl::Status Sync();
  // Releases reserved disk space that is not used.
  absl::Status Trim() { return file_.Truncate(extent_.bytes); }
  // Truncates the file to `bytes`, and releases the space after them. Nothing may be appended then.
  absl::Status CutTo(int64_t bytes) { return file_.Truncate(bytes); }
  // Removes the file.
  absl::Status Discard();

 private:
  SegmentOutput(std::shared_ptr<const Directory> directory, const SegmentIdentity& identity,
                File file)
      : directory_(std::move(directory)),
        identity_(identity),
        name_(SegmentFileName(identity.segment)),
        file_(std::move(file)) {}
  absl::Status WriteHeader();
  absl::Status ReserveTo(int64_t bytes);
  void WriteSoon();

  std::shared_ptr<const Directory> directory_;
  SegmentIdentity identity_;
  std::string name_;
  File file_;
  SegmentHeaderBytes header_ = {};  // as in the file
  SegmentExtent extent_;
  Sha256 digest_;
  int64_t free_bytes_min_ = 0;
  int64_t bytes_reserved_ = 0;
  int64_t bytes_sent_ = 0;  // bytes whose writeback was started
};

}  // namespace nearfield::store

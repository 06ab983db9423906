// Segment files: written once from begin to end, then only read.
#ifndef NEARFIELD_SERVER_STORE_SEGMENT_FILE_H_
#define NEARFIELD_SERVER_STORE_SEGMENT_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/block_codec.h"
#include "server/store/catalogue_rows.h"
#include "server/store/checksum.h"
#include "server/store/file.h"
#include "server/store/segment_format.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// A committed segment. Who reads it holds it; once doomed, its file goes with the last holder, so a
// load that began before a compaction ends undisturbed.
class CommittedSegment {
 public:
  CommittedSegment(std::shared_ptr<const Directory> directory, SegmentIdentity identity,
                   SegmentRow row)
      : directory_(std::move(directory)),
        identity_(std::move(identity)),
        row_(std::move(row)),
        name_(SegmentFileName(row_.id)) {}
  ~CommittedSegment();
  CommittedSegment(const CommittedSegment&) = delete;
  CommittedSegment& operator=(const CommittedSegment&) = delete;

  const Directory& directory() const { return *directory_; }
  const SegmentIdentity& identity() const { return identity_; }
  const SegmentRow& row() const { return row_; }
  const std::string& name() const { return name_; }
  void Doom() { doomed_.store(true); }

 private:
  const std::shared_ptr<const Directory> directory_;
  const SegmentIdentity identity_;
  const SegmentRow row_;
  const std::string name_;  // kept, so that the file is removed also where there is no memory
  std::atomic<bool> doomed_{false};
};

// Where a segment that is being written stands.
struct SegmentExtent {
  int64_t blocks = 0;
  int64_t rows = 0;
  int64_t bytes = 0;  // of the file, its header included
};

// What a new segment file is made for.
struct SegmentPlan {
  int64_t bytes_expected = 0;  // reserved at once
  int64_t free_bytes_min = 0;  // of the disk, left free whatever the segment needs
  int64_t commits = 0;         // of the catalogue so far: see SegmentStage
};

// Errors: ResourceExhausted where `bytes` more would leave less than `free_bytes_min` of the disk.
absl::Status CheckRoom(const Directory& directory, int64_t bytes, int64_t free_bytes_min);

// A segment being written. Not thread-safe. Errors: ResourceExhausted (the disk is full; the file
// may then only be discarded), InvalidArgument (the block), else an I/O error.
class SegmentOutput {
 public:
  // Makes the file, reserves room and writes the header. Nothing is durable yet.
  static absl::StatusOr<SegmentOutput> Create(std::shared_ptr<const Directory> directory,
                                              const SegmentIdentity& identity,
                                              const SegmentPlan& plan);
  // Goes on behind `extent`, whose digest is `digest`; what lies behind it is cut off.
  static absl::StatusOr<SegmentOutput> Reopen(std::shared_ptr<const Directory> directory,
                                              const SegmentIdentity& identity,
                                              const SegmentExtent& extent, Sha256 digest,
                                              int64_t free_bytes_min);

  const SegmentIdentity& identity() const { return identity_; }
  const SegmentExtent& extent() const { return extent_; }
  const std::string& path() const { return file_.path(); }
  std::string digest() const { return DigestBytes(digest_.Value()); }

  // Requires block.number == extent().blocks.
  absl::Status Append(const StoredBlock& block);
  // Marks the file as complete, so that it may be committed after the next Sync. Until then a start
  // takes it for an upload that was never committed.
  absl::Status Seal();
  // All blocks, and the file's name, are on the disk when this returns OK. ResourceExhausted never:
  // what cannot be synced is lost.
  absl::Status Sync();
  // Gives back room reserved and not used.
  absl::Status Trim() { return file_.Truncate(extent_.bytes); }
  // Cuts the file to its first `bytes` and gives back all room past them: nothing may be appended.
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
  SegmentHeaderBytes header_ = {};  // as it lies in the file
  SegmentExtent extent_;
  Sha256 digest_;
  int64_t free_bytes_min_ = 0;
  int64_t bytes_reserved_ = 0;
  int64_t bytes_sent_ = 0;  // for which writing to the disk was begun
};

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_SEGMENT_FILE_H_

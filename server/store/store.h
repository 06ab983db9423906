// Store: durable collections in append-only segment files, with one SQLite catalog as the only
// commit point.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// Exit code of the process if on_fatal is not set.
inline constexpr int kFatalExitCode = 5;

struct StoreOptions {
  // The data directory. It is made if it does not exist; its parent must exist.
  std::string dir;
  // Called once, from any thread, after an I/O error that leaves the state of the disk unknown. It
  // should end the process, and must not call the store. If it returns, every later call is
  // Unavailable. If it is not set: a line on stderr and _exit(kFatalExitCode).
  std::function<void(const absl::Status&)> on_fatal;
  // Bytes of the disk that uploads leave free, so that deletes still find space for their records.
  int64_t free_bytes_min = int64_t{64} << 20;
  // Maximum tokens of committed uploads that each collection remembers; the oldest are forgotten
  // first.
  int64_t tokens_committed_max = 10000;
  // A token is also forgotten when its upload was committed more than this time ago, by the next
  // commits with a token of its collection.
  int64_t token_committed_s_max = int64_t{24} * 3600;
  // Maximum open uploads with a token, of all callers and of one. A further one replaces an upload
  // without a writer and without durable rows; if there is none, it is ResourceExhausted.
  int64_t uploads_open_max = 64;
  int64_t uploads_open_per_caller_max = 64;
  // An open upload that is idle for longer is dropped when the next one begins: DESIGN.md,
  // "Errors".
  int64_t upload_idle_s_max = int64_t{24} * 3600;
  // Pages of 4 KiB in the catalog's log before they are moved into the database.
  int64_t log_pages_max = 1000;
  // Returns seconds since 1970, for display and for the age of uploads that an earlier process used
  // last. If not set: the system clock.
  std::function<int64_t()> unix_seconds;
  // Returns seconds of a clock that cannot be set, for the age of all other uploads. If not set:
  // the system's steady clock.
  std::function<int64_t()> steady_seconds;
};

// The segment files that the catalog did not name, and what Open did with them.
struct OrphanReport {
  struct File {
    std::string path;
    int64_t bytes = 0;
  };
  int64_t unfinished_count = 0;  // certainly never committed: removed
  int64_t unfinished_bytes = 0;
  std::vector<File> set_aside;  // may have been committed: moved to lost/
  std::vector<File> left;       // not moved, because the disk had no space
  int64_t lost_count = 0;       // all files in lost/, also of earlier starts
  int64_t lost_bytes = 0;
};

struct StoreCore;

// The segment of one upload, while it is written. If it is destroyed before its commit, an upload
// without a token is removed. An upload with a token stays at its last checkpoint, and the disk
// space that it reserved beyond this is released. Not thread-safe; different uploads may run
// concurrently.
class SegmentWriter {
 public:
  ~SegmentWriter();

  int64_t collection_id() const;
  int64_t next_block() const;
  int64_t rows_count() const;
  int64_t bytes() const;  // of the segment so far

  // Appends the next block. Errors: AlreadyExists (a number below next_block(): already stored),
  // InvalidArgument (a number above it; the block's shape), ResourceExhausted (the disk is full:
  // the upload can only be destroyed). Cost: one write and one pass of checksums.
  absl::Status Append(const StoredBlock& block);

  // Makes all blocks so far durable and records this, so that the upload can be resumed after them.
  // Requires: a token. Errors: FailedPrecondition (no token), Aborted (the collection was dropped),
  // ResourceExhausted (nothing was recorded; may be called again).
  absl::Status Checkpoint();

  // Makes all blocks durable for a commit, without a change of the catalog. If further blocks
  // follow, another Sync must follow them.
  absl::Status Sync();

 private:
  friend class Store;
  struct Impl;
  explicit SegmentWriter(std::unique_ptr<Impl> impl);
  // Checkpoint and Sync, but may throw std::bad_alloc. Nothing is recorded then.
  absl::Status RecordCheckpoint();
  absl::Status SealAndSync();

  const std::unique_ptr<Impl> impl_;
};

// Thread-safe. Errors of every call in addition to those listed: Unavailable (after a fatal error),
// ResourceExhausted (the disk or memory is full; nothing changed), NotFound (unknown collection).
class Store {
 public:
  // Locks the directory for this process. Checks the catalog, and the header and size of every
  // segment. Removes files of uploads that were never committed, and moves other files that the
  // catalog does not name to lost/ (orphans.h; report in orphans()). A collection with a missing
  // or damaged segment can only be dropped; all other calls are DataLoss that names the file.
  // Errors: FailedPrecondition (in use by this process or another, a newer format, segments without
  // a catalog: names the directory or file), DataLoss (the catalog is damaged, or older than a
  // segment), NotFound (no such parent directory), I/O errors. Cost: reads the catalog and 4 KiB
  // of each segment.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);
  // Returns whether `dir` holds a catalog. If not, Open would make one.
  static bool IsIn(const std::string& dir);
  // Writers may outlive the store; the directory is unlocked after the last one.
  ~Store();

  const OrphanReport& orphans() const;

  std::vector<StoredCollection> Collections() const;  // in order of id

  // Returns a number that no other collection has, in this data directory or another. It depends on
  // the store, its incarnation and the collection's id. A restart keeps it; a restored directory
  // has others. Never 0.
  uint64_t IncarnationOf(int64_t collection_id) const;

  // Creates a collection and returns its id. Writes IncarnationOf(id) to `incarnation` if not null,
  // before the commit, because that needs memory. `owner`: empty for none. Errors: InvalidArgument
  // (length of the name or schema, dim), AlreadyExists (the name, also as an alias).
  absl::StatusOr<int64_t> CreateCollection(const std::string& name, const CollectionSpec& spec,
                                           const std::string& attribute_schema,
                                           uint64_t* incarnation = nullptr,
                                           const std::string& owner = "");
  // Drops a collection with its rows, aliases and uploads. The commit of a running upload is
  // Aborted.
  absl::Status DropCollection(int64_t collection_id);
  // Makes `alias` a name of the collection, even if it names another one. `owner`: of a new alias;
  // empty for none. Errors: InvalidArgument (length), AlreadyExists (a collection has this name).
  absl::Status SetAlias(const std::string& alias, int64_t collection_id,
                        const std::string& owner = "");
  absl::Status DropAlias(const std::string& alias);  // Errors: NotFound

  // Begins an upload, and reserves its disk space. Errors: ResourceExhausted (no disk space:
  // reports needed and free bytes; too many open uploads), AlreadyExists (the token: see
  // GetUpload), InvalidArgument (length of the token).
  absl::StatusOr<std::unique_ptr<SegmentWriter>> BeginUpload(int64_t collection_id,
                                                             const BeginUploadOptions& options);
  // Resumes an open upload, which then belongs to `caller`. Passes its durable blocks to
  // `sink`, in order and verified, and returns a writer that continues after them. Errors: NotFound
  // (token), FailedPrecondition (committed, or in use by another writer), DataLoss, and those of
  // the sink.
  using BlockSink = std::function<absl::Status(const StoredBlock& block)>;
  absl::StatusOr<std::unique_ptr<SegmentWriter>> ResumeUpload(const UploadKey& key,
                                                              const BlockSink& sink,
                                                              const std::string& caller = "");
  // Waits until no writer has the upload, at most `wait`: the stream of a client that was killed
  // ends a little later.
  void AwaitWriterEnd(const UploadKey& key, std::chrono::seconds wait) const;
  // Returns the state of an upload. Errors: NotFound (never begun, or forgotten: see StoreOptions).
  absl::StatusOr<UploadInfo> GetUpload(const UploadKey& key) const;
  // Returns the open uploads with a token, longest idle first; equal ages by token.
  std::vector<OpenUpload> OpenUploads() const;
  // Drops an open upload with its rows, and returns its last state. Errors: NotFound,
  // FailedPrecondition (committed: names the epoch; in use by a writer).
  absl::StatusOr<UploadInfo> DropUpload(const UploadKey& key);

  // Commits an upload atomically and durably. Requires: Sync() after the last block. An upload
  // without rows that replaces nothing has no effect: its epoch is the current one. Errors:
  // FailedPrecondition (not synced; not the next epoch: names both), Aborted (the collection was
  // dropped), InvalidArgument (more replaced ids than rows).
  absl::Status CommitUpload(SegmentWriter* writer, const UploadCommit& commit);
  // Commits a deletion. `ids`: the ids that named a live row, each once; at least one.
  absl::Status CommitDelete(int64_t collection_id, uint64_t epoch, const IdColumn& ids);

  // Commits updates of rows in one transaction. Each has an epoch of its own. Errors:
  // FailedPrecondition (not the next epochs), InvalidArgument (columns of different lengths).
  absl::Status CommitUpdates(int64_t collection_id, absl::Span<const StoredUpdate> updates);
  // Returns the reply of an update with a token; nullopt if the token is not known. Errors:
  // DataLoss.
  absl::StatusOr<std::optional<std::string>> FindUpdate(const UploadKey& key) const;
  // Commits another attribute schema, as epoch `epoch`. Errors: FailedPrecondition (not the next
  // epoch, or a schema that is too large).
  absl::Status CommitSchema(int64_t collection_id, uint64_t epoch,
                            const std::string& attribute_schema);

  // Passes all current live rows of a collection to `sink`: in blocks, on this thread, verified,
  // older commits first. Commits may continue meanwhile. With options.segment: only the rows of
  // this segment; NotFound if it does not exist (any more). Errors: DataLoss (a bad piece: names
  // file, block and bytes; another number of rows than was committed), Cancelled, those of the
  // sink. Rows that were delivered before an error are correct, but not complete.
  absl::Status Load(int64_t collection_id, const BlockSink& sink, const LoadOptions& options) const;
  // Returns the bytes of the collection's segments and patch records, and of open uploads that no
  // writer has.
  // 0 for an unknown one.
  int64_t DiskBytes(int64_t collection_id) const;
  // Returns the failed reads of a collection. Its rows in memory are intact, but a restart may fail
  // to load them.
  ReadFailures ReadFailuresOf(int64_t collection_id) const;
  // Returns the current segments, older commits first. Compaction removes and adds segments.
  absl::StatusOr<std::vector<int64_t>> Segments(int64_t collection_id) const;

  // Returns whether Compact would find work. Cheap.
  bool CompactionDue(int64_t collection_id, const CompactOptions& options) const;
  // Rewrites segments with many dead rows, and small ones, into one. Drops deletion records that no
  // row needs any more. Load returns the same rows before and after. Commits and loads continue
  // meanwhile. Errors: Aborted (its input was removed meanwhile, or another compaction runs),
  // Cancelled, DataLoss; nothing changed then. Memory: a few blocks and the deleted ids.
  absl::StatusOr<CompactionResult> Compact(int64_t collection_id, const CompactOptions& options);

  // Copies the current state online into the new directory `path`; makes its parent if it does not
  // exist. Uses hard links if the file system allows, else copies, and writes a manifest with the
  // SHA-256 of each file. Open uploads are left out. A failed snapshot removes its files. If the
  // process ends, at most `path`.partial and `path`.partial.catalog remain, which the next snapshot
  // to that path removes. Errors: AlreadyExists, ResourceExhausted, Cancelled.
  absl::Status Snapshot(const std::string& path, const SnapshotOptions& options = {});
  // Returns the snapshots in a directory, by name. Skips everything that is not a complete
  // snapshot. Empty if the directory does not exist.
  static absl::StatusOr<std::vector<SnapshotInfo>> ListSnapshots(const std::string& dir);
  // Deletes the complete snapshot `dir`/`name`: its name, durably, then its files. A crash leaves
  // it complete, or as a directory that FinishSnapshotDeletions removes. Errors: NotFound (no
  // complete snapshot), FailedPrecondition (a restore reads it; a symbolic link; permissions),
  // Internal (the message says so if only files remain).
  static absl::Status DeleteSnapshot(const std::string& dir, const std::string& name);
  // Removes what interrupted deletions left in `dir`. Returns the number of these snapshots; 0 if
  // the directory does not exist. Leaves what has the name of a deleted snapshot but is none, and
  // adds its path to `left`.
  static absl::StatusOr<int64_t> FinishSnapshotDeletions(const std::string& dir,
                                                         std::vector<std::string>* left = nullptr);
  // Makes the data directory `to` from a snapshot: copies the files, checks every file against the
  // manifest and every checksum in it, and then renames the directory to `to`. Errors:
  // AlreadyExists (`to`), DataLoss, FailedPrecondition (a newer format; the snapshot is being
  // deleted).
  static absl::Status Restore(const std::string& from, const std::string& to);

  // Reads everything. Checks every checksum, digest and count, the chain of commits, and that every
  // file belongs to something. Errors: DataLoss (names everything that is wrong).
  absl::StatusOr<VerifyReport> Verify() const;

 private:
  explicit Store(std::shared_ptr<StoreCore> core);
  // CommitUpload, BeginUpload, ResumeUpload and DropUpload, but may throw std::bad_alloc. Nothing
  // changed then.
  absl::Status CommitSegment(SegmentWriter* writer, const UploadCommit& commit);
  absl::StatusOr<std::unique_ptr<SegmentWriter>> BeginSegment(int64_t collection_id,
                                                              const BeginUploadOptions& options);
  absl::StatusOr<std::unique_ptr<SegmentWriter>> ResumeSegment(const UploadKey& key,
                                                               const BlockSink& sink,
                                                               const std::string& caller);
  absl::StatusOr<UploadInfo> DropOpenUpload(const UploadKey& key);

  const std::shared_ptr<StoreCore> core_;
};

// Returns the maximum disk space of an upload with `rows` rows and `value_bytes` bytes of values
// (string ids, payloads, attributes), in blocks of 1,000 rows or more.
int64_t UploadBytes(const CollectionSpec& spec, int64_t rows, int64_t value_bytes);

// Returns whether `name` is reserved for the directory of an unfinished snapshot. No snapshot may
// have such a name.
bool IsUnfinishedSnapshot(const std::string& name);
// Returns whether `name` is the directory of a snapshot whose deletion has begun.
bool IsDeletedSnapshot(const std::string& name);

}  // namespace nearfield::store

// The durable corpus: append-only segment files, and one SQLite catalogue as the only commit point.
#ifndef NEARFIELD_SERVER_STORE_STORE_H_
#define NEARFIELD_SERVER_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// How the process ends where on_fatal is not given.
inline constexpr int kFatalExitCode = 5;

struct StoreOptions {
  // The data directory; made where its parent has it not.
  std::string dir;
  // Called once, from any thread, after an I/O error behind which nothing may be trusted or
  // retried. It should end the process, and may not call the store. Not given: a line on stderr and
  // _exit(kFatalExitCode). Where it returns, every later call is Unavailable.
  std::function<void(const absl::Status&)> on_fatal;
  // Bytes of the disk that uploads leave free, so that deletes still find room for their records.
  int64_t free_bytes_min = int64_t{64} << 20;
  // Tokens of committed uploads that are remembered; the oldest are forgotten first.
  int64_t tokens_max = 10000;
  // Open uploads with a token, of all callers and of one. For one more, an upload without a writer
  // and without durable rows gives way; where there is none it is ResourceExhausted.
  int64_t uploads_open_max = 64;
  int64_t uploads_open_per_caller_max = 64;
  // An open upload untouched for longer is dropped when the next one begins: DESIGN.md, "Errors".
  int64_t upload_idle_s_max = int64_t{24} * 3600;
  // Pages of 4 KiB in the catalogue's log before they are moved into the database.
  int64_t log_pages_max = 1000;
  // Seconds since 1970, for display, and for the age of uploads that an earlier process touched.
  // Not given: the system's.
  std::function<int64_t()> unix_seconds;
  // Seconds of a clock that nobody sets, for the age of all other uploads. Not given: the system's.
  std::function<int64_t()> steady_seconds;
};

// What Open did with segment files that the catalogue does not name.
struct OrphanReport {
  struct File {
    std::string path;
    int64_t bytes = 0;
  };
  int64_t unfinished_count = 0;  // never committed for certain: removed
  int64_t unfinished_bytes = 0;
  std::vector<File> set_aside;  // perhaps committed once: moved to lost/ now
  std::vector<File> left;       // the disk had no room for that: still where they were
  int64_t lost_count = 0;       // everything in lost/, from earlier starts too
  int64_t lost_bytes = 0;
};

struct StoreCore;

// The segment of one upload, while it is written. Destroyed before its commit, an upload without a
// token leaves nothing behind, and one with a token stays at its last checkpoint: the room that it
// reserved past that is given back. Not thread-safe;
// different uploads may run at once.
class SegmentWriter {
 public:
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  int64_t collection_id() const;
  UploadMode mode() const;
  int64_t next_block() const;
  int64_t rows_count() const;
  int64_t bytes() const;  // of the segment so far

  // Takes the next block. Errors: AlreadyExists (a number below next_block(): it is here already),
  // InvalidArgument (a number beyond it; the block's shape), ResourceExhausted (the disk is full:
  // the upload can only be destroyed). Cost: one write and one pass of checksums.
  absl::Status Append(const StoredBlock& block);

  // Makes all blocks so far durable and records it: the upload can be resumed behind them. Requires
  // a token. Errors: FailedPrecondition (no token), Aborted (the collection was dropped),
  // ResourceExhausted (nothing recorded; may be called again).
  absl::Status Checkpoint();

  // Makes all blocks durable: what a commit needs, without the catalogue. Blocks may follow, and
  // then another Sync must.
  absl::Status Sync();

 private:
  friend class Store;
  struct Impl;
  explicit SegmentWriter(std::unique_ptr<Impl> impl);
  // Checkpoint and Sync, except that std::bad_alloc may leave them. Nothing is recorded then.
  absl::Status RecordCheckpoint();
  absl::Status SealAndSync();

  const std::unique_ptr<Impl> impl_;
};

// Thread-safe. Errors of every call beside those listed: Unavailable after a fatal error,
// ResourceExhausted where the disk or memory is full (nothing changed), NotFound for an unknown
// collection.
class Store {
 public:
  // Takes the directory for this process; checks the catalogue and the header and size of every
  // segment; removes files of uploads that were never committed, and sets aside what else the
  // catalogue does not name (orphans.h, report in orphans()).
  // A collection with a missing or damaged segment can only be dropped: all else is DataLoss that
  // names the file. Errors: FailedPrecondition (in use by another process, a newer format, segments
  // without a catalogue: names the directory or file), DataLoss (the catalogue is damaged, or
  // older than a segment),
  // NotFound (no such parent directory), I/O errors. Cost: reads the catalogue and 4 KiB of each
  // segment.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);
  // Whether `dir` holds a catalogue. Open would make one.
  static bool IsIn(const std::string& dir);
  // Uploads still being written may outlive the store; the directory is free after the last.
  ~Store();

  const OrphanReport& orphans() const;

  std::vector<StoredCollection> Collections() const;  // in order of id

  // A number that no other collection has, in this data directory or another one: of the store, its
  // incarnation and the collection's number. A restart keeps it; a restored directory has others.
  // Never 0.
  uint64_t IncarnationOf(int64_t collection_id) const;

  // Returns the id. `incarnation`, where given, gets IncarnationOf(id): before the commit, because
  // it takes memory. Errors: InvalidArgument (length of the name or schema, dim), AlreadyExists
  // (the name, also as an alias).
  absl::StatusOr<int64_t> CreateCollection(const std::string& name, const CollectionSpec& spec,
                                           const std::string& attribute_schema,
                                           uint64_t* incarnation = nullptr);
  // With its rows, aliases and uploads; uploads in progress fail at their commit with Aborted.
  absl::Status DropCollection(int64_t collection_id);
  // Makes `alias` a name of the collection, also where it was that of another one. Errors:
  // InvalidArgument (length), AlreadyExists (a collection has this name).
  absl::Status SetAlias(const std::string& alias, int64_t collection_id);
  absl::Status DropAlias(const std::string& alias);  // Errors: NotFound

  // Reserves the room for one upload. Errors: ResourceExhausted (no room on the disk: says needed
  // and free bytes; too many open uploads), AlreadyExists (the token: see GetUpload),
  // InvalidArgument (length of the token).
  absl::StatusOr<std::unique_ptr<SegmentWriter>> BeginUpload(int64_t collection_id,
                                                             const BeginUploadOptions& options);
  // Goes on with an open upload: gives its durable blocks to `sink`, in order and verified, then
  // returns the writer behind them. Errors: NotFound (token), FailedPrecondition (committed, or in
  // use by another writer), DataLoss, and the sink's.
  // From now on it is one of `caller`.
  using BlockSink = std::function<absl::Status(const StoredBlock& block)>;
  absl::StatusOr<std::unique_ptr<SegmentWriter>> ResumeUpload(const std::string& token,
                                                              const BlockSink& sink,
                                                              const std::string& caller = "");
  // What is known of an upload. Errors: NotFound (never begun, or forgotten: see StoreOptions).
  absl::StatusOr<UploadFacts> GetUpload(const std::string& token) const;
  // Open uploads with a token, those untouched for longest first; equal ages by token.
  std::vector<OpenUpload> OpenUploads() const;
  // Forgets a token; an open upload goes with its rows. Errors: NotFound, FailedPrecondition (in
  // use by a writer).
  absl::Status DropUpload(const std::string& token);

  // Commits an upload: durable, as a whole, when this returns OK. Requires Sync() after the last
  // block. An upload without rows that replaces nothing has no effect: its epoch is the current
  // one. Errors: FailedPrecondition (not synced; not the next epoch: names both), Aborted (the
  // collection was dropped), InvalidArgument (more replaced ids than rows).
  absl::Status CommitUpload(SegmentWriter* writer, const UploadCommit& commit);
  // Commits a deletion. `ids`: those that named a live row, each once; at least one.
  absl::Status CommitDelete(int64_t collection_id, uint64_t epoch, const IdColumn& ids);

  // Gives all live rows of a collection, as of now, to `sink`: in blocks, on this thread, verified,
  // older commits first. Commits may go on meanwhile. Errors: DataLoss (a bad piece: names
  // file, block and bytes; another number of rows than was committed), Cancelled, the sink's. Rows
  // delivered before an error are right, but not all.
  // With options.segment: of that one alone; NotFound where it is not (or no longer) there.
  absl::Status Load(int64_t collection_id, const BlockSink& sink, const LoadOptions& options) const;
  // Its rows in memory are not concerned, but a restart may not load them.
  ReadFailures ReadFailuresOf(int64_t collection_id) const;
  // Its segments of now, older commits first. Compaction takes some away and makes others.
  absl::StatusOr<std::vector<int64_t>> Segments(int64_t collection_id) const;

  // Whether Compact would find something to do; cheap.
  bool CompactionDue(int64_t collection_id, const CompactOptions& options) const;
  // Rewrites segments with many dead rows, and small ones, into one; drops deletion records that no
  // row needs any more. Load gives the same rows before and after. Commits and loads go on
  // meanwhile. Errors: Aborted (its input went meanwhile, or another compaction runs), Cancelled,
  // DataLoss: nothing changed then. Memory: a few blocks and the deleted ids.
  absl::StatusOr<CompactionResult> Compact(int64_t collection_id, const CompactOptions& options);

  // Copies the state of now into the new directory `path`, online (its parent is made where
  // missing): hard links where the file system allows, else copies, and a manifest with the SHA-256
  // of each file. Open uploads are left out. Errors: AlreadyExists, ResourceExhausted, Cancelled. A
  // failed snapshot removes what it wrote; one that the process did not survive leaves
  // `path`.partial and `path`.partial.catalog at most, which the next one to that path removes.
  absl::Status Snapshot(const std::string& path, const SnapshotOptions& options = {});
  // The snapshots in a directory, by name; what is not a whole snapshot is passed over. Empty where
  // the directory is not there.
  static absl::StatusOr<std::vector<SnapshotFacts>> ListSnapshots(const std::string& dir);
  // Makes the data directory `to` from a snapshot: copies, checks every file against the manifest
  // and every checksum in it, then gives it its name. Errors: AlreadyExists (`to`), DataLoss.
  static absl::Status Restore(const std::string& from, const std::string& to);

  // Reads everything and checks every checksum, digest and count, the chain of commits, and that no
  // file lies there that belongs to nothing. Errors: DataLoss naming all that is wrong.
  absl::StatusOr<VerifyReport> Verify() const;

 private:
  explicit Store(std::shared_ptr<StoreCore> core);
  // CommitUpload, BeginUpload, ResumeUpload and DropUpload, except that std::bad_alloc may leave
  // them. Nothing changed then.
  absl::Status CommitSegment(SegmentWriter* writer, const UploadCommit& commit);
  absl::StatusOr<std::unique_ptr<SegmentWriter>> BeginSegment(int64_t collection_id,
                                                              const BeginUploadOptions& options);
  absl::StatusOr<std::unique_ptr<SegmentWriter>> ResumeSegment(const std::string& token,
                                                               const BlockSink& sink,
                                                               const std::string& caller);
  absl::Status DropOpenUpload(const std::string& token);

  const std::shared_ptr<StoreCore> core_;
};

// Bytes that an upload of so many rows and bytes of values (ids of strings, payloads, attributes)
// takes on the disk at most, in blocks of 1,000 rows or more.
int64_t UploadBytes(const CollectionSpec& spec, int64_t rows, int64_t value_bytes);

// Whether a directory of this name is what a snapshot under way writes. No snapshot may be called
// so.
bool IsUnfinishedSnapshot(const std::string& name);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_STORE_H_

// Store: uploads until their commit: begin, blocks, checkpoint, resume.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/open_uploads.h"
#include "server/store/segment_writer_impl.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {

namespace {

absl::Status NoSuchUpload() {
  return absl::NotFoundError(
      "upload_token: no upload into this collection has this token: never begun, or forgotten");
}

absl::Status AlreadyCommitted(const UploadRow& row) {
  return absl::FailedPreconditionError(absl::StrCat("upload_token: the upload was committed, its ",
                                                    row.rows, " rows are visible from epoch ",
                                                    row.epoch));
}

// Adds an upload with a token to the catalog, and removes the uploads that it replaces.
absl::Status RecordUpload(StoreCore* core, const SegmentOutput& output,
                          const BeginUploadOptions& options) {
  const MutexLock lock(core->mutex);
  const int64_t collection = output.identity().collection;
  // The collection and the open uploads may have changed while the file was made.
  ABSL_RETURN_IF_ERROR(core->FindSound(collection).status());
  Transaction transaction;
  ABSL_ASSIGN_OR_RETURN(const std::vector<int64_t> gone,
                        AdmitUpload(*core, collection, options, &transaction));
  transaction.Put(UploadRow{.id = output.identity().segment,
                            .token = options.token,
                            .collection = collection,
                            .mode = options.mode,
                            .bytes_durable = output.extent().bytes,
                            .touched_unix_s = core->Now()});
  // Allocated before the commit, so that nothing is allocated after it.
  std::vector<std::string> files;
  files.reserve(gone.size());
  for (const int64_t id : gone) files.push_back(SegmentFileName(id));
  std::map<int64_t, std::string> caller = {{output.identity().segment, options.caller}};
  core->Touch(output.identity().segment);
  ABSL_RETURN_IF_ERROR(core->Commit(std::move(transaction),
                                    {.kind = CommitKind::kBeginUpload, .collection = collection}));
  for (const int64_t id : gone) core->touched_s.erase(id);
  for (const std::string& file : files) core->RemoveFile(file);
  core->upload_callers.merge(caller);
  const auto has_ended = [core](const auto& entry) {
    core->AssertLocked();
    const UploadRow* const row = core->catalog->tables().Find<UploadRow>(entry.first);
    return row == nullptr || row->state == UploadState::kCommitted;
  };
  std::erase_if(core->upload_callers, has_ended);
  std::erase_if(core->touched_s, has_ended);
  return absl::OkStatus();
}

}  // namespace

SegmentWriter::SegmentWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SegmentWriter::~SegmentWriter() {
  StoreCore& core = *impl_->core;
  const MutexLock lock(core.mutex);
  core.EndWriter(impl_->segment());
  const UploadRow* const row = core.catalog->tables().Find<UploadRow>(impl_->segment());
  if (impl_->committed || core.failed.load()) return;
  if (const auto touched = core.touched_s.find(impl_->segment()); touched != core.touched_s.end()) {
    touched->second = core.SteadyNow();
  }
  // If the file cannot be removed, it is an orphan that the next start removes. Disk space that
  // cannot be released now is released when the upload is resumed.
  CatchOutOfMemory([&] {
    return row == nullptr ? impl_->output.Discard() : impl_->output.CutTo(row->bytes_durable);
  }).IgnoreError();
}

int64_t SegmentWriter::collection_id() const { return impl_->collection(); }
int64_t SegmentWriter::next_block() const { return impl_->output.extent().blocks; }
int64_t SegmentWriter::rows_count() const { return impl_->output.extent().rows; }
int64_t SegmentWriter::bytes() const { return impl_->output.extent().bytes; }

absl::Status SegmentWriter::Append(const StoredBlock& block) {
  ABSL_RETURN_IF_ERROR(impl_->Usable());
  if (block.number < next_block()) {
    return absl::AlreadyExistsError(
        absl::StrCat("block_number: ", block.number, " was received; the next is ", next_block()));
  }
  if (block.number > next_block()) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_number: ", block.number, " leaves a gap; the next is ", next_block()));
  }
  absl::Status appended = CatchOutOfMemory([&] { return impl_->output.Append(block); });
  if (appended.ok() || absl::IsInvalidArgument(appended)) return appended;
  impl_->broken = true;
  return impl_->core->SurviveFile(appended);
}

absl::Status SegmentWriter::Sync() {
  return CatchOutOfMemory([this] { return SealAndSync(); });
}

absl::Status SegmentWriter::SealAndSync() {
  ABSL_RETURN_IF_ERROR(impl_->Usable());
  absl::Status synced = impl_->output.Trim();
  if (synced.ok()) synced = impl_->output.Seal();
  if (synced.ok()) synced = impl_->output.Sync();
  if (!synced.ok()) return impl_->core->SurviveFile(synced);
  impl_->bytes_synced = bytes();
  return absl::OkStatus();
}

absl::Status SegmentWriter::Checkpoint() {
  return CatchOutOfMemory([this] { return RecordCheckpoint(); });
}

absl::Status SegmentWriter::RecordCheckpoint() {
  ABSL_RETURN_IF_ERROR(impl_->Usable());
  if (impl_->token.empty()) {
    return absl::FailedPreconditionError("upload_token: an upload without one has no checkpoints");
  }
  StoreCore& core = *impl_->core;
  ABSL_RETURN_IF_ERROR(core.SurviveFile(impl_->output.Sync()));
  const MutexLock lock(core.mutex);
  const UploadRow* const old = core.catalog->tables().Find<UploadRow>(impl_->segment());
  if (old == nullptr) return DroppedMeanwhile(collection_id());
  CHECK_GE(next_block(), old->next_block);  // a checkpoint keeps what an earlier one recorded
  CHECK_GE(bytes(), old->bytes_durable);
  UploadRow row = *old;
  row.next_block = next_block();
  row.rows = rows_count();
  row.bytes_durable = bytes();
  row.touched_unix_s = core.Now();
  Transaction transaction;
  transaction.Put(std::move(row));
  core.Touch(impl_->segment());
  return core.Commit(std::move(transaction),
                     {.kind = CommitKind::kCheckpoint, .collection = collection_id()});
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> Store::BeginUpload(
    int64_t collection_id, const BeginUploadOptions& options) {
  return CatchOutOfMemory([&] { return BeginSegment(collection_id, options); });
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> Store::BeginSegment(
    int64_t collection_id, const BeginUploadOptions& options) {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  if (static_cast<int64_t>(options.token.size()) > kTokenBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("upload_token: ", options.token.size(),
                                                   " bytes, must be at most ", kTokenBytesMax));
  }
  SegmentPlan plan = {.bytes_expected = options.bytes_expected,
                      .free_bytes_min = core_->options.free_bytes_min};
  // Refuse before any write, so that the disk keeps space for the catalog.
  ABSL_RETURN_IF_ERROR(CheckRoom(*core_->directory, plan.bytes_expected, plan.free_bytes_min));
  SegmentIdentity identity;
  {
    const MutexLock lock(core_->mutex);
    ABSL_ASSIGN_OR_RETURN(const CollectionRow collection, core_->FindSound(collection_id));
    if (!options.token.empty()) {
      Transaction unused;  // checked again after the file is made
      ABSL_RETURN_IF_ERROR(AdmitUpload(*core_, collection_id, options, &unused).status());
    }
    identity = core_->Identity(collection, core_->catalog->AllocateId());
    plan.commits = core_->catalog->commits_count();
    CHECK(core_->writers.insert(identity.segment).second);
  }
  absl::Cleanup leave = [&] { core_->Leave(identity.segment); };
  // Allocate everything before the commit. Make the file without the lock, because reserving disk
  // space may be slow.
  std::string token = options.token;
  const std::string name = SegmentFileName(identity.segment);
  absl::StatusOr<SegmentOutput> output = SegmentOutput::Create(core_->directory, identity, plan);
  ABSL_RETURN_IF_ERROR(core_->SurviveFile(output.status()));
  absl::Cleanup discard = [&] { core_->RemoveFile(name); };
  auto impl = absl::WrapUnique(new SegmentWriter::Impl{.core = core_,
                                                       .output = *std::move(output),
                                                       .mode = options.mode,
                                                       .token = std::move(token)});
  auto writer = absl::WrapUnique(new SegmentWriter(std::move(impl)));
  std::move(leave).Cancel();  // the writer's destructor does both now
  std::move(discard).Cancel();
  if (!options.token.empty()) {
    // The catalog may only name a durable file.
    ABSL_RETURN_IF_ERROR(core_->SurviveFile(writer->impl_->output.Sync()));
    ABSL_RETURN_IF_ERROR(RecordUpload(core_.get(), writer->impl_->output, options));
  }
  return writer;
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> Store::ResumeUpload(const UploadKey& key,
                                                                   const BlockSink& sink,
                                                                   const std::string& caller) {
  return CatchOutOfMemory([&] { return ResumeSegment(key, sink, caller); });
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> Store::ResumeSegment(const UploadKey& key,
                                                                    const BlockSink& sink,
                                                                    const std::string& caller) {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  StreamSource source = {.directory = core_->directory.get(), .may_be_longer = true};
  UploadMode mode = UploadMode::kInsert;
  {
    const MutexLock lock(core_->mutex);
    const UploadRow* const row = core_->FindUpload(key);
    if (row == nullptr) return NoSuchUpload();
    if (row->state == UploadState::kCommitted) return AlreadyCommitted(*row);
    ABSL_ASSIGN_OR_RETURN(const CollectionRow collection, core_->FindSound(row->collection));
    if (core_->writers.count(row->id) > 0) {
      return absl::FailedPreconditionError("upload_token: the upload is in use by another stream");
    }
    core_->upload_callers[row->id] = caller;
    core_->Touch(row->id);
    source.identity = core_->Identity(collection, row->id);
    source.extent = {.blocks = row->next_block, .rows = row->rows, .bytes = row->bytes_durable};
    mode = row->mode;
    CHECK(core_->writers.insert(row->id).second);
  }
  absl::Cleanup leave = [&] { core_->LeaveUpload(source.identity.segment); };
  StreamTotals totals;
  ABSL_RETURN_IF_ERROR(StreamBlocks(
      absl::MakeConstSpan(&source, 1), /*records=*/nullptr, {},
      [&sink](const StreamSource&, const DecodedBlock& block) {
        return sink(block.View(block.header.number));
      },
      &totals));
  std::string kept_token = key.token;
  absl::StatusOr<SegmentOutput> output =
      SegmentOutput::Reopen(core_->directory, source.identity, source.extent,
                            std::move(totals.digest), core_->options.free_bytes_min);
  if (!output.ok()) return core_->SurviveFile(output.status());
  auto impl = absl::WrapUnique(new SegmentWriter::Impl{
      .core = core_, .output = *std::move(output), .mode = mode, .token = std::move(kept_token)});
  auto writer = absl::WrapUnique(new SegmentWriter(std::move(impl)));
  std::move(leave).Cancel();
  return writer;
}

void Store::AwaitWriterEnd(const UploadKey& key, std::chrono::seconds wait) const {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  MutexLock lock(core_->mutex);
  const auto is_written = [&] {
    core_->AssertLocked();
    const UploadRow* const row = core_->FindUpload(key);
    return row != nullptr && core_->writers.count(row->id) > 0;
  };
  while (is_written() && core_->writer_ended.WaitUntil(lock, deadline)) {
  }
}

absl::StatusOr<UploadInfo> Store::GetUpload(const UploadKey& key) const {
  const MutexLock lock(core_->mutex);
  const UploadRow* const row = core_->FindUpload(key);
  if (row == nullptr) return NoSuchUpload();
  return core_->InfoOf(*row);
}

absl::StatusOr<UploadInfo> Store::DropUpload(const UploadKey& key) {
  return CatchOutOfMemory([&] { return DropOpenUpload(key); });
}

absl::StatusOr<UploadInfo> Store::DropOpenUpload(const UploadKey& key) {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  const MutexLock lock(core_->mutex);
  const UploadRow* const row = core_->FindUpload(key);
  if (row == nullptr) return NoSuchUpload();
  if (row->state == UploadState::kCommitted) return AlreadyCommitted(*row);
  if (core_->writers.count(row->id) > 0) {
    return absl::FailedPreconditionError("upload_token: the upload is in use by a stream");
  }
  const UploadInfo info = core_->InfoOf(*row);
  const std::string file = SegmentFileName(row->id);
  Transaction transaction;
  core_->RemoveUpload(row->id, &transaction);
  ABSL_RETURN_IF_ERROR(core_->Commit(
      std::move(transaction), {.kind = CommitKind::kEndUpload, .collection = key.collection_id}));
  core_->RemoveFile(file);
  return info;
}

int64_t UploadBytes(const CollectionSpec& spec, int64_t rows, int64_t value_bytes) {
  // Per row: an id or its end, and the ends of payload and attributes. Per block: header, padding
  // and table.
  const int64_t row_bytes = int64_t{spec.dim} * BytesPerElement(spec.row_type) + 8 + 4 + 4;
  const int64_t planes = rows * row_bytes + value_bytes;
  const int64_t blocks = CeilDiv(rows, 1000);
  return kSegmentHeaderBytes + planes + blocks * 1024 + CeilDiv(planes, kPieceBytes) * 4;
}

}  // namespace nearfield::store

// Store::CommitUpload: the commit of an upload in one transaction of the catalog.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/little_endian.h"
#include "server/store/segment_writer_impl.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {
namespace {

std::string EncodePlaces(absl::Span<const int64_t> places) {
  std::string bytes(places.size() * 8, '\0');
  for (size_t i = 0; i < places.size(); ++i) {
    PutUint64(static_cast<uint64_t>(places[i]), reinterpret_cast<uint8_t*>(bytes.data()) + 8 * i);
  }
  return bytes;
}

absl::Status CheckCommit(const CollectionRow& collection, UploadMode mode, int64_t rows,
                         const UploadCommit& commit) {
  const int64_t replaced = commit.replaced_ids != nullptr ? commit.replaced_ids->size() : 0;
  if (replaced > collection.rows_live || (mode != UploadMode::kUpsert && replaced > 0) ||
      (replaced > 0 && commit.replaced_ids->type() != collection.spec.id_type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("replaced_ids: ", replaced, " ids; the collection has ", collection.rows_live,
                     " live rows, and only an upsert replaces any"));
  }
  int64_t before = -1;
  for (const int64_t place : commit.superseded_rows) {
    if (place <= before || place >= rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "superseded_rows: ", place, " is out of order or not below ", rows, ", the rows"));
    }
    before = place;
  }
  const auto given = static_cast<int64_t>(commit.epoch);
  if (commit.without_effect) {
    if (rows == 0 && replaced == 0 && given <= collection.epoch) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "epoch: ", commit.epoch, " with ", rows,
        " rows; an upload without effect has none, and at most epoch ", collection.epoch));
  }
  const bool changes = rows > 0 || mode == UploadMode::kReplace;
  const int64_t epoch = collection.epoch + (changes ? 1 : 0);
  if (given == epoch) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("epoch: ", commit.epoch, "; the commit's epoch must be ", epoch));
}

// Returns the row of the collection after the commit.
CollectionRow After(CollectionRow collection, const UploadRow& upload, int64_t replaced) {
  collection.epoch = upload.epoch;
  if (upload.mode == UploadMode::kReplace) collection.rows_live = 0;
  collection.rows_live += upload.rows - replaced;
  return collection;
}

// Returns whether the upload was committed longer ago than a token is remembered. Uploads of
// earlier processes have the time of the system clock only, which may be wrong: their tokens are
// kept for a while after the start, so that an upload whose reply was lost can be repeated.
bool IsPastItsTime(const StoreCore& core, int64_t commit_number, const UploadRow& row)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  const int64_t age_max = core.options.token_committed_s_max;
  const int64_t now = core.SteadyNow();
  if (commit_number > core.commits_opened) {
    return commit_number <= core.commit_times.OlderThan(now, age_max);
  }
  return core.Now() - row.touched_unix_s > age_max &&
         now - core.opened_s > std::min(age_max, kGraceSeconds);
}

// Forgets tokens of committed uploads into the collection, to make room for one: the oldest beyond
// the limit, and those that are past their time. At most kForgottenMax, so that no commit takes
// long.
void ForgetOldTokens(const StoreCore& core, int64_t collection, Transaction* transaction)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  constexpr int kForgottenMax = 100;
  const Tables& tables = core.catalog->tables();
  const UploadIndex::Committed& committed = tables.uploads.CommittedInto(collection);
  int64_t surplus = static_cast<int64_t>(committed.size()) + 1 - core.options.tokens_committed_max;
  int forgotten = 0;
  for (const auto& [commit_number, id] : committed) {
    const bool goes =
        surplus > 0 || IsPastItsTime(core, commit_number, *tables.Find<UploadRow>(id));
    if (!goes || forgotten == kForgottenMax) return;
    core.RemoveUpload(id, transaction);
    --surplus;
    ++forgotten;
  }
}

}  // namespace

absl::Status Store::CommitUpload(SegmentWriter* writer, const UploadCommit& commit) {
  return CatchOutOfMemory([&] { return CommitSegment(writer, commit); });
}

absl::Status Store::CommitSegment(SegmentWriter* writer, const UploadCommit& commit) {
  SegmentWriter::Impl& impl = *writer->impl_;
  ABSL_RETURN_IF_ERROR(impl.Usable());
  const SegmentExtent extent = impl.output.extent();
  const MutexLock lock(core_->mutex);
  const Tables& tables = core_->catalog->tables();
  const CollectionRow* const now = tables.Find<CollectionRow>(impl.collection());
  const UploadRow* const open = tables.Find<UploadRow>(impl.segment());
  if (now == nullptr) return DroppedMeanwhile(impl.collection());
  ABSL_RETURN_IF_ERROR(CheckCommit(*now, impl.mode, extent.rows, commit));
  if (extent.rows > 0 && impl.bytes_synced != extent.bytes) {
    return absl::FailedPreconditionError("the upload was not synced after its last block");
  }
  const bool has_token = open != nullptr;
  UploadRow upload = has_token ? *open : UploadRow{.mode = impl.mode};
  upload.state = UploadState::kCommitted;
  upload.rows = extent.rows - static_cast<int64_t>(commit.superseded_rows.size());
  upload.next_block = extent.blocks;
  upload.bytes_durable = extent.bytes;
  upload.epoch = static_cast<int64_t>(commit.epoch);
  upload.touched_unix_s = core_->Now();
  const SegmentRow segment = {.id = impl.segment(),
                              .collection = impl.collection(),
                              .seq = upload.epoch,
                              .rows = extent.rows,
                              .blocks = extent.blocks,
                              .bytes = extent.bytes,
                              .digest = impl.output.digest(),
                              .superseded = EncodePlaces(commit.superseded_rows)};
  const int64_t replaced_count = commit.replaced_ids != nullptr ? commit.replaced_ids->size() : 0;
  const CollectionRow collection =
      commit.without_effect ? *now : After(*now, upload, replaced_count);

  Transaction transaction;
  SegmentChange change;
  if (impl.mode == UploadMode::kReplace && !commit.without_effect) {
    core_->RemoveRows(impl.collection(), &transaction, &change);
  }
  if (extent.rows > 0) {
    transaction.Put(segment);
    core_->Add(collection, segment, &change);
  }
  if (commit.replaced_ids != nullptr) {
    core_->PutDeletions(impl.collection(), upload.epoch, *commit.replaced_ids, &transaction);
  }
  if (has_token) {
    ForgetOldTokens(*core_, impl.collection(), &transaction);
    transaction.Put(upload);
    transaction.Put(
        UploadResultRow{.id = upload.id,
                        .rows_replaced = now->rows_live + upload.rows - collection.rows_live,
                        .commit_number = core_->catalog->commits_count() + 1});
  }
  transaction.Put(collection);
  const CommitNote note = {.kind = CommitKind::kCommitUpload,
                           .collection = impl.collection(),
                           .epoch = collection.epoch};
  ABSL_RETURN_IF_ERROR(core_->Commit(std::move(transaction), note, std::move(change)));
  DCHECK(core_->SegmentsAgree(impl.collection()));
  if (has_token) {
    core_->commit_times.Note(core_->SteadyNow(), core_->catalog->commits_count(),
                             core_->options.token_committed_s_max);
  }

  impl.committed = true;
  if (extent.rows == 0) {  // an orphan at worst
    CatchOutOfMemory([&impl] { return impl.output.Discard(); }).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace nearfield::store

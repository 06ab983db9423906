// Store::Compact: rewrites segments into fewer, fuller ones with the same live rows. For the proof
// see server/store/DESIGN.md.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/block_stream.h"
#include "server/store/compaction_due.h"
#include "server/store/segment_reader.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {
namespace {

using SegmentList = std::vector<std::shared_ptr<CommittedSegment>>;

// Larger patch records are not joined with others.
constexpr int64_t kJoinedBytesMax = kRecordBytesMax / 8;

// The input of one compaction: the collection at its begin.
struct Work {
  CollectionRow collection;
  SegmentList segments;
  RowRecords records;
  std::vector<DeletionRow> deletion_rows;
  std::vector<PatchRow> patch_rows;
  bool patches_large = false;  // too many bytes of patches: every segment that has any is rewritten
  bool only_scattered = false;  // many small patch records (patch_rows), and no other reason
};

struct Choice {
  SegmentList inputs;  // segments to rewrite
  SegmentList kept;
  int64_t rows_live = 0;  // of the inputs
};

// The records that the kept segments need.
struct NeededRecords {
  std::map<int64_t, IdColumn> deleted;  // ids, by seq
  IdColumn patched;                     // ids with a patch
};

absl::Status Cancelled(const CompactOptions& options) {
  if (options.cancelled && options.cancelled()) return absl::CancelledError("cancelled");
  return absl::OkStatus();
}

// Calls `visit` with the ids of each block of a segment and the position of its first row.
template <typename Visit>
absl::Status VisitIds(const CommittedSegment& segment, const CompactOptions& options, Visit visit) {
  ABSL_ASSIGN_OR_RETURN(SegmentReader reader,
                        SegmentReader::Open(segment.directory(), segment.identity(),
                                            segment.row().bytes, /*may_be_longer=*/false));
  while (!reader.AtEnd()) {
    ABSL_RETURN_IF_ERROR(Cancelled(options));
    ABSL_ASSIGN_OR_RETURN(const std::vector<BlockPlace> places, reader.NextBlocks(1));
    ABSL_ASSIGN_OR_RETURN(const IdColumn ids, reader.ReadIds(places.front()));
    visit(ids, places.front().header.first_row);
  }
  return absl::OkStatus();
}

// Rows of a segment.
struct RowCounts {
  int64_t live = 0;
  int64_t patched = 0;  // live rows with a patch
};

absl::StatusOr<RowCounts> CountRows(const Work& work, const CommittedSegment& segment,
                                    const CompactOptions& options) {
  const auto& [deleted, patches] = work.records;
  const std::vector<int64_t> superseded = segment.row().SupersededRows();
  if (deleted.empty() && patches.empty()) {
    return RowCounts{.live = segment.row().rows - static_cast<int64_t>(superseded.size())};
  }
  RowCounts counts;
  const int64_t seq = segment.row().seq;
  ABSL_RETURN_IF_ERROR(VisitIds(segment, options, [&](const IdColumn& ids, int64_t first_row) {
    for (int64_t i = 0; i < ids.size(); ++i) {
      if (work.records.deleted.Dead(ids, i, seq) ||
          std::binary_search(superseded.begin(), superseded.end(), first_row + i)) {
        continue;
      }
      ++counts.live;
      if (work.records.patches.Changes(ids, i, seq)) ++counts.patched;
    }
  }));
  return counts;
}

absl::StatusOr<Choice> Choose(const Work& work, const CompactOptions& options) {
  const auto small =
      std::count_if(work.segments.begin(), work.segments.end(),
                    [&options](const auto& segment) { return IsSmall(*segment, options); });
  Choice choice;
  int64_t bytes = 0;
  for (const std::shared_ptr<CommittedSegment>& segment : work.segments) {
    const SegmentRow& row = segment->row();
    ABSL_ASSIGN_OR_RETURN(const RowCounts counts, CountRows(work, *segment, options));
    const int64_t old = row.rows - counts.live + counts.patched;
    const bool wanted =
        static_cast<double>(old) > options.dead_share_max * static_cast<double>(row.rows) ||
        (counts.patched > 0 && work.patches_large) ||
        (small >= options.small_segments_min && IsSmall(*segment, options));
    const int64_t live_bytes = row.bytes / row.rows * counts.live;
    if (wanted && (choice.inputs.empty() || bytes + live_bytes <= options.bytes_max)) {
      bytes += live_bytes;
      choice.rows_live += counts.live;
      choice.inputs.push_back(segment);
    } else {
      choice.kept.push_back(segment);
    }
  }
  return choice;
}

// Returns the records that are needed to keep rows of kept segments dead, or patched.
absl::StatusOr<NeededRecords> FindNeeded(const Work& work, const Choice& choice,
                                         const CompactOptions& options) {
  const IdType type = work.collection.spec.id_type;
  const auto& [deleted, patches] = work.records;
  NeededRecords needed = {.deleted = {}, .patched = IdColumn(type)};
  if (deleted.empty() && patches.empty()) return needed;
  DeletedIds seen(type);
  DeletedIds patched(type);  // a segment may have an id twice
  for (const std::shared_ptr<CommittedSegment>& segment : choice.kept) {
    const int64_t segment_seq = segment->row().seq;
    IdColumn dead(type);
    ABSL_RETURN_IF_ERROR(VisitIds(*segment, options, [&](const IdColumn& ids, int64_t) {
      for (int64_t i = 0; i < ids.size(); ++i) {
        if (!work.records.deleted.Dead(ids, i, segment_seq)) {
          if (!work.records.patches.Changes(ids, i, segment_seq)) continue;
          if (patched.SeqOf(ids, i) > 0) continue;
          patched.Mark(ids, i, 1);
          needed.patched.AppendFrom(ids, i);
        } else if (seen.SeqOf(ids, i) == 0) {
          dead.AppendFrom(ids, i);
        }
      }
    }));
    for (int64_t i = 0; i < dead.size(); ++i) {
      if (seen.SeqOf(dead, i) > 0) continue;  // twice in this segment
      const int64_t seq = work.records.deleted.SeqOf(dead, i);
      seen.Mark(dead, i, seq);
      needed.deleted.try_emplace(seq, dead.type()).first->second.AppendFrom(dead, i);
    }
  }
  return needed;
}

// Writes the live rows of the inputs into one new segment, durably.
absl::Status Rewrite(const Work& work, const Choice& choice, const CompactOptions& options,
                     SegmentOutput* output) {
  std::vector<StreamSource> sources;
  for (const auto& segment : choice.inputs) sources.push_back(SourceOf(*segment));
  StreamTotals totals;
  LoadOptions reading = {.threads = 1};
  reading.cancelled = options.cancelled;
  ABSL_RETURN_IF_ERROR(StreamBlocks(
      sources, &work.records, reading,
      [&](const StreamSource&, const DecodedBlock& block) {
        return output->AppendDivided(block.View(0), options.block_bytes_max);
      },
      &totals));
  ABSL_RETURN_IF_ERROR(output->Trim());
  ABSL_RETURN_IF_ERROR(output->Seal());
  return output->Sync();
}

// Returns whether all segments that the compaction read still exist.
bool Unchanged(const StoreCore& core, const Work& work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  return std::all_of(work.segments.begin(), work.segments.end(), [&core](const auto& segment) {
    core.AssertLocked();
    return core.segments.count(segment->row().id) > 0;
  });
}

// Replaces inputs by the output, and old records by the needed ones, in one transaction.
absl::Status Swap(StoreCore* core, const Work& work, const Choice& choice,
                  const NeededRecords& needed, const SegmentOutput* output)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core->mutex) {
  if (!Unchanged(*core, work)) {
    return absl::AbortedError("the collection was dropped or replaced during its compaction");
  }
  ABSL_ASSIGN_OR_RETURN(const CollectionRow now, core->Find(work.collection.id));
  CHECK_GE(now.epoch, work.collection.epoch);
  Transaction transaction;
  SegmentChange change;
  if (output != nullptr) {
    CHECK_EQ(output->extent().rows, choice.rows_live);
    const SegmentRow row = {.id = output->identity().segment,
                            .collection = work.collection.id,
                            .seq = work.collection.epoch,
                            .rows = output->extent().rows,
                            .blocks = output->extent().blocks,
                            .bytes = output->extent().bytes,
                            .digest = output->digest()};
    core->Add(now, row, &change);
    transaction.Put(row);
  }
  for (const auto& segment : choice.inputs) {
    transaction.Remove<SegmentRow>(segment->row().id);
    core->Remove(segment->row().id, &change);
  }
  for (const DeletionRow& row : work.deletion_rows) transaction.Remove<DeletionRow>(row.id);
  for (const PatchRow& row : work.patch_rows) transaction.Remove<PatchRow>(row.id);
  for (const auto& [seq, ids] : needed.deleted) {
    core->PutDeletions(work.collection.id, seq, ids, &transaction);
  }
  PatchRecord patches(work.collection.spec.id_type);
  for (int64_t i = 0; i < needed.patched.size(); ++i) {
    const RowPatch& patch = *work.records.patches.Find(needed.patched, i);
    core->PutPatch(work.collection.id, needed.patched, i, patch, &patches, &transaction);
  }
  core->FlushPatches(work.collection.id, &patches, &transaction);
  ABSL_RETURN_IF_ERROR(core->Commit(
      std::move(transaction),
      {.kind = CommitKind::kCompact, .collection = work.collection.id, .epoch = now.epoch},
      std::move(change)));
  DCHECK(core->SegmentsAgree(work.collection.id));
  return absl::OkStatus();
}

// Joins the patch records, without a look at the segments.
absl::Status JoinPatches(StoreCore* core, const Work& work)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core->mutex) {
  if (!Unchanged(*core, work)) {
    return absl::AbortedError("the collection was dropped or replaced during its compaction");
  }
  ABSL_ASSIGN_OR_RETURN(const CollectionRow now, core->Find(work.collection.id));
  Transaction transaction;
  for (const PatchRow& row : work.patch_rows) transaction.Remove<PatchRow>(row.id);
  const IdColumn ids = work.records.patches.Ids();
  PatchRecord joined(ids.type());
  for (int64_t i = 0; i < ids.size(); ++i) {
    core->PutPatch(work.collection.id, ids, i, *work.records.patches.Find(ids, i), &joined,
                   &transaction);
  }
  core->FlushPatches(work.collection.id, &joined, &transaction);
  return core->Commit(
      std::move(transaction),
      {.kind = CommitKind::kCompact, .collection = work.collection.id, .epoch = now.epoch});
}

absl::StatusOr<Work> Begin(StoreCore* core, int64_t collection_id, const CompactOptions& options) {
  MutexLock lock(core->mutex);
  ABSL_ASSIGN_OR_RETURN(CollectionRow collection, core->FindSound(collection_id));
  SegmentList segments = core->SegmentsOf(collection_id);
  std::vector<DeletionRow> deletion_rows = core->RowsOf<DeletionRow>(collection_id);
  std::vector<PatchRow> patch_rows = core->RowsOf<PatchRow>(collection_id);
  const bool patches_large = PatchesLarge(*core, collection_id);
  const Due due = DueOf(*core, collection_id, options);
  lock.Unlock();
  const bool only_scattered = due.scattered && !due.segments;
  if (only_scattered) {
    deletion_rows.clear();
    std::erase_if(patch_rows, [](const PatchRow& row) { return row.bytes >= kJoinedBytesMax; });
  }
  // A later patch has a larger seq than the output, and is not in patch_rows.
  ABSL_ASSIGN_OR_RETURN(
      RowRecords records,
      core->ReadRecords(collection.spec.id_type, deletion_rows, patch_rows, options.cancelled));
  return Work{.collection = std::move(collection),
              .segments = std::move(segments),
              .records = std::move(records),
              .deletion_rows = std::move(deletion_rows),
              .patch_rows = std::move(patch_rows),
              .patches_large = patches_large,
              .only_scattered = only_scattered};
}

int64_t Sum(const NeededRecords& needed) {
  int64_t ids = needed.patched.size();
  for (const auto& [seq, column] : needed.deleted) ids += column.size();
  return ids;
}

absl::StatusOr<CompactionResult> Run(StoreCore* core, const Work& work,
                                     const CompactOptions& options) {
  if (work.only_scattered) {
    const MutexLock lock(core->mutex);
    ABSL_RETURN_IF_ERROR(JoinPatches(core, work));
    const auto segments = static_cast<int64_t>(work.segments.size());
    CompactionResult joined = {.segments_before = segments, .segments_after = segments};
    for (const PatchRow& row : work.patch_rows) joined.ids_dropped += row.rows;
    joined.ids_dropped -= work.records.patches.size();
    return joined;
  }
  ABSL_ASSIGN_OR_RETURN(const Choice choice, Choose(work, options));
  ABSL_ASSIGN_OR_RETURN(const NeededRecords needed, FindNeeded(work, choice, options));
  CompactionResult result = {.segments_before = static_cast<int64_t>(work.segments.size()),
                             .segments_after = static_cast<int64_t>(choice.kept.size())};
  for (const DeletionRow& row : work.deletion_rows) result.ids_dropped += row.ids_count;
  Tables::PatchTotals patches;
  for (const PatchRow& row : work.patch_rows) patches.Add(row, 1);
  result.ids_dropped += patches.rows - Sum(needed);
  int64_t input_bytes = 0;
  for (const auto& segment : work.segments) result.bytes_before += segment->row().bytes;
  for (const auto& segment : choice.inputs) {
    input_bytes += segment->row().bytes;
    result.rows_dropped += segment->row().rows;
  }
  result.rows_dropped -= choice.rows_live;
  result.bytes_after = result.bytes_before - input_bytes;
  if (choice.inputs.empty() && result.ids_dropped == 0 && !PatchesScattered(patches)) return result;
  if (choice.rows_live == 0) {
    const MutexLock lock(core->mutex);
    ABSL_RETURN_IF_ERROR(Swap(core, work, choice, needed, nullptr));
    return result;
  }
  int64_t id = 0;
  SegmentPlan plan = {.free_bytes_min = core->options.free_bytes_min};
  {
    const MutexLock lock(core->mutex);
    id = core->catalog->AllocateId();
    plan.commits = core->catalog->commits_count();
    CHECK(core->writers.insert(id).second);
  }
  absl::StatusOr<SegmentOutput> output = CatchOutOfMemory([&] {
    SegmentIdentity identity = choice.inputs.front()->identity();
    identity.segment = id;
    return SegmentOutput::Create(core->directory, identity, plan);
  });
  absl::Status status = output.status();
  if (status.ok()) {
    status = CatchOutOfMemory([&] { return Rewrite(work, choice, options, &*output); });
  }
  const MutexLock lock(core->mutex);
  if (status.ok()) {
    status = CatchOutOfMemory([&] {
      core->AssertLocked();
      return Swap(core, work, choice, needed, &*output);
    });
  }
  core->EndWriter(id);
  if (!status.ok()) {
    // After a failure of the store the swap may be in the catalog; the next start decides. An
    // orphan at worst.
    if (output.ok() && !core->failed.load()) output->Discard().IgnoreError();
    return status;
  }
  result.segments_after += 1;
  result.bytes_after += output->extent().bytes;
  return result;
}

}  // namespace

absl::StatusOr<CompactionResult> Store::Compact(int64_t collection_id,
                                                const CompactOptions& options) {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  ABSL_RETURN_IF_ERROR(CatchOutOfMemory([&]() -> absl::Status {
    const MutexLock lock(core_->mutex);
    if (core_->compactions.insert(collection_id).second) return absl::OkStatus();
    return absl::AbortedError("another compaction of this collection runs");
  }));
  absl::StatusOr<CompactionResult> result =
      CatchOutOfMemory([&]() -> absl::StatusOr<CompactionResult> {
        ABSL_ASSIGN_OR_RETURN(const Work work, Begin(core_.get(), collection_id, options));
        return Run(core_.get(), work, options);
      });
  {
    const MutexLock lock(core_->mutex);
    core_->compactions.erase(collection_id);
  }
  core_->NoteRead(collection_id, result.status());
  if (!result.ok()) return core_->SurviveFile(result.status());
  return result;
}

}  // namespace nearfield::store

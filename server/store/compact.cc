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
#include "server/store/segment_reader.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {
namespace {

using SegmentList = std::vector<std::shared_ptr<CommittedSegment>>;

// The input of one compaction: the collection at its begin.
struct Work {
  CollectionRow collection;
  SegmentList segments;
  DeletedIds deleted;
  std::vector<DeletionRow> records;
};

struct Choice {
  SegmentList inputs;  // segments to rewrite
  SegmentList kept;
  int64_t rows_live = 0;  // of the inputs
};

bool IsSmall(const CommittedSegment& segment, const CompactOptions& options) {
  return segment.row().bytes < options.small_bytes_max;
}

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

absl::StatusOr<int64_t> CountLive(const Work& work, const CommittedSegment& segment,
                                  const CompactOptions& options) {
  const std::vector<int64_t> superseded = segment.row().SupersededRows();
  if (work.deleted.empty()) {
    return segment.row().rows - static_cast<int64_t>(superseded.size());
  }
  int64_t live = 0;
  ABSL_RETURN_IF_ERROR(VisitIds(segment, options, [&](const IdColumn& ids, int64_t first_row) {
    for (int64_t i = 0; i < ids.size(); ++i) {
      if (!work.deleted.Dead(ids, i, segment.row().seq) &&
          !std::binary_search(superseded.begin(), superseded.end(), first_row + i)) {
        ++live;
      }
    }
  }));
  return live;
}

absl::StatusOr<Choice> Choose(const Work& work, const CompactOptions& options) {
  const auto small =
      std::count_if(work.segments.begin(), work.segments.end(),
                    [&options](const auto& segment) { return IsSmall(*segment, options); });
  Choice choice;
  int64_t bytes = 0;
  for (const std::shared_ptr<CommittedSegment>& segment : work.segments) {
    const SegmentRow& row = segment->row();
    ABSL_ASSIGN_OR_RETURN(const int64_t live, CountLive(work, *segment, options));
    const double dead_share = static_cast<double>(row.rows - live) / static_cast<double>(row.rows);
    const bool wanted = dead_share > options.dead_share_max ||
                        (small >= options.small_segments_min && IsSmall(*segment, options));
    const int64_t live_bytes = row.bytes / row.rows * live;
    if (wanted && (choice.inputs.empty() || bytes + live_bytes <= options.bytes_max)) {
      bytes += live_bytes;
      choice.rows_live += live;
      choice.inputs.push_back(segment);
    } else {
      choice.kept.push_back(segment);
    }
  }
  return choice;
}

// Returns the ids, by seq, whose records are needed to keep rows of kept segments dead.
absl::StatusOr<std::map<int64_t, IdColumn>> NeededIds(const Work& work, const Choice& choice,
                                                      const CompactOptions& options) {
  std::map<int64_t, IdColumn> needed;
  if (work.deleted.empty()) return needed;
  DeletedIds seen(work.collection.spec.id_type);
  for (const std::shared_ptr<CommittedSegment>& segment : choice.kept) {
    IdColumn dead(work.collection.spec.id_type);
    ABSL_RETURN_IF_ERROR(VisitIds(*segment, options, [&](const IdColumn& ids, int64_t) {
      for (int64_t i = 0; i < ids.size(); ++i) {
        if (!work.deleted.Dead(ids, i, segment->row().seq) || seen.SeqOf(ids, i) > 0) continue;
        dead.AppendFrom(ids, i);
      }
    }));
    for (int64_t i = 0; i < dead.size(); ++i) {
      if (seen.SeqOf(dead, i) > 0) continue;  // twice in this segment
      const int64_t seq = work.deleted.SeqOf(dead, i);
      seen.Mark(dead, i, seq);
      needed.try_emplace(seq, dead.type()).first->second.AppendFrom(dead, i);
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
      sources, &work.deleted, reading,
      [&](const StreamSource&, const DecodedBlock& block) {
        return output->Append(block.View(output->extent().blocks));
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
                  const std::map<int64_t, IdColumn>& needed, const SegmentOutput* output)
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
  for (const DeletionRow& record : work.records) transaction.Remove<DeletionRow>(record.id);
  for (const auto& [seq, ids] : needed) {
    core->PutDeletions(work.collection.id, seq, ids, &transaction);
  }
  ABSL_RETURN_IF_ERROR(core->Commit(
      std::move(transaction),
      {.kind = CommitKind::kCompact, .collection = work.collection.id, .epoch = now.epoch},
      std::move(change)));
  DCHECK(core->SegmentsAgree(work.collection.id));
  return absl::OkStatus();
}

absl::StatusOr<Work> Begin(StoreCore* core, int64_t collection_id) {
  const MutexLock lock(core->mutex);
  ABSL_ASSIGN_OR_RETURN(CollectionRow collection, core->FindSound(collection_id));
  if (core->compactions.count(collection_id) > 0) {
    return absl::AbortedError("another compaction of this collection runs");
  }
  ABSL_ASSIGN_OR_RETURN(DeletedIds deleted, core->ReadDeleted(collection));
  Work work = {.collection = std::move(collection),
               .segments = core->SegmentsOf(collection_id),
               .deleted = std::move(deleted)};
  for (const auto& [id, row] : core->catalog->tables().Of<DeletionRow>()) {
    if (row.collection == collection_id) work.records.push_back(row);
  }
  CHECK(core->compactions.insert(collection_id).second);
  return work;
}

int64_t Sum(const std::map<int64_t, IdColumn>& needed) {
  int64_t ids = 0;
  for (const auto& [seq, column] : needed) ids += column.size();
  return ids;
}

absl::StatusOr<CompactionResult> Run(StoreCore* core, const Work& work,
                                     const CompactOptions& options) {
  ABSL_ASSIGN_OR_RETURN(const Choice choice, Choose(work, options));
  ABSL_ASSIGN_OR_RETURN(const auto needed, NeededIds(work, choice, options));
  CompactionResult result = {.segments_before = static_cast<int64_t>(work.segments.size()),
                             .segments_after = static_cast<int64_t>(choice.kept.size())};
  for (const DeletionRow& record : work.records) result.ids_dropped += record.ids_count;
  result.ids_dropped -= Sum(needed);
  int64_t input_bytes = 0;
  for (const auto& segment : work.segments) result.bytes_before += segment->row().bytes;
  for (const auto& segment : choice.inputs) {
    input_bytes += segment->row().bytes;
    result.rows_dropped += segment->row().rows;
  }
  result.rows_dropped -= choice.rows_live;
  result.bytes_after = result.bytes_before - input_bytes;
  if (choice.inputs.empty() && result.ids_dropped == 0) return result;
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
  core->writers.erase(id);
  if (!status.ok()) {
    if (output.ok()) output->Discard().IgnoreError();  // an orphan at worst
    return status;
  }
  result.segments_after += 1;
  result.bytes_after += output->extent().bytes;
  return result;
}

}  // namespace

bool Store::CompactionDue(int64_t collection_id, const CompactOptions& options) const {
  const MutexLock lock(core_->mutex);
  int64_t rows = 0;
  int64_t dead_max = 0;  // each id in a record made at most one stored row dead
  int64_t small = 0;
  for (const auto& segment : core_->SegmentsOf(collection_id)) {
    rows += segment->row().rows;
    dead_max += static_cast<int64_t>(segment->row().superseded.size() / 8);
    if (IsSmall(*segment, options)) ++small;
  }
  for (const auto& [id, row] : core_->catalog->tables().Of<DeletionRow>()) {
    if (row.collection == collection_id) dead_max += row.ids_count;
  }
  return small >= options.small_segments_min ||
         static_cast<double>(dead_max) > options.dead_share_max * static_cast<double>(rows);
}

absl::StatusOr<CompactionResult> Store::Compact(int64_t collection_id,
                                                const CompactOptions& options) {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  ABSL_ASSIGN_OR_RETURN(const Work work,
                        CatchOutOfMemory([&] { return Begin(core_.get(), collection_id); }));
  absl::StatusOr<CompactionResult> result =
      CatchOutOfMemory([&] { return Run(core_.get(), work, options); });
  {
    const MutexLock lock(core_->mutex);
    core_->compactions.erase(collection_id);
  }
  core_->NoteRead(collection_id, result.status());
  if (!result.ok()) return core_->SurviveFile(result.status());
  return result;
}

}  // namespace nearfield::store

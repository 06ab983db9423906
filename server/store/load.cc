// Store::Load and Store::Verify: reading the live rows of a collection, and checking everything.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/block_stream.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {
namespace {

// A collection at one moment. Its segments stay readable during the view's lifetime.
struct CollectionView {
  CollectionRow collection;
  std::vector<std::shared_ptr<CommittedSegment>> segments;
  RowRecords records;
};

// Sorts the rows of records by their size. Only small records are joined and disappear, so those
// are read first: then a new start loses little.
template <typename Row>
std::vector<Row> SmallFirst(std::vector<Row> rows, int64_t Row::*size) {
  std::sort(rows.begin(), rows.end(),
            [size](const Row& a, const Row& b) { return a.*size < b.*size; });
  return rows;
}

// Returns the collection as it is now. If a compaction removes a record before it is read, takes
// the state after the compaction.
absl::StatusOr<CollectionView> Take(StoreCore* core, int64_t collection_id,
                                    const std::function<bool()>& cancelled) {
  for (;;) {
    MutexLock lock(core->mutex);
    ABSL_ASSIGN_OR_RETURN(CollectionRow collection, core->FindSound(collection_id));
    std::vector<std::shared_ptr<CommittedSegment>> segments = core->SegmentsOf(collection_id);
    const auto deletions =
        SmallFirst(core->RowsOf<DeletionRow>(collection_id), &DeletionRow::ids_count);
    const auto patches = SmallFirst(core->RowsOf<PatchRow>(collection_id), &PatchRow::bytes);
    lock.Unlock();
    absl::StatusOr<RowRecords> records =
        core->ReadRecords(collection.spec.id_type, deletions, patches, cancelled);
    if (absl::IsAborted(records.status())) continue;
    ABSL_RETURN_IF_ERROR(records.status());
    return CollectionView{.collection = std::move(collection),
                          .segments = std::move(segments),
                          .records = *std::move(records)};
  }
}

// Removes all segments except one from the view.
absl::Status KeepOnly(int64_t segment, CollectionView* view) {
  std::erase_if(view->segments, [&](const auto& each) { return each->row().id != segment; });
  if (!view->segments.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no segment ", segment));
}

absl::StatusOr<StreamTotals> Stream(const CollectionView& view, const LoadOptions& options,
                                    const Store::BlockSink& sink) {
  std::vector<StreamSource> sources;
  for (const auto& segment : view.segments) sources.push_back(SourceOf(*segment));
  StreamTotals totals;
  int64_t number = 0;
  ABSL_RETURN_IF_ERROR(StreamBlocks(
      sources, &view.records, options,
      [&](const StreamSource& source, const DecodedBlock& block) {
        StoredBlock stored = block.View(number++);
        stored.segment = source.identity.segment;
        stored.block = block.header.number;
        return sink(stored);
      },
      &totals));
  const int64_t live = totals.rows - totals.rows_dead;
  if (options.segment == 0 && live != view.collection.rows_live) {
    return absl::DataLossError(absl::StrCat("collection ", view.collection.id, ": ", live,
                                            " live rows in its segments; the catalog says ",
                                            view.collection.rows_live));
  }
  return totals;
}

// Checks that each file is known to the catalog or to a running operation.
absl::Status CheckNames(const StoreCore& core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> names, core.directory->Names());
  for (const std::string& name : names) {
    const std::optional<int64_t> segment = SegmentOfFileName(name);
    if (!segment.has_value() || core.segments.count(*segment) > 0 ||
        core.writers.count(*segment) > 0) {
      continue;
    }
    const UploadRow* const upload = core.catalog->tables().Find<UploadRow>(*segment);
    const auto gone = core.segments_gone.find(*segment);
    const bool left =
        std::any_of(core.orphans.left.begin(), core.orphans.left.end(),
                    [&](const auto& file) { return file.path == core.directory->PathOf(name); });
    const bool still_read = gone != core.segments_gone.end() && !gone->second.expired();
    if (left || still_read || (upload != nullptr && upload->state == UploadState::kOpen)) continue;
    return absl::DataLossError(
        absl::StrCat(core.directory->PathOf(name), ": belongs to no segment and no upload"));
  }
  return absl::OkStatus();
}

absl::Status VerifyUpload(const StreamSource& upload) {
  StreamTotals totals;
  return StreamBlocks(
      {upload}, /*records=*/nullptr, {},
      [](const StreamSource&, const DecodedBlock&) { return absl::OkStatus(); }, &totals);
}

// Collects all damages that a check finds, so that it reports more than the first one.
class Damages {
 public:
  // Returns an error that is not a damage; it ends the check.
  absl::Status Note(const absl::Status& status) {
    if (!absl::IsDataLoss(status)) return status;
    texts_.emplace_back(status.message());
    return absl::OkStatus();
  }
  absl::Status All() const {
    if (texts_.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrJoin(texts_, "; "));
  }

 private:
  std::vector<std::string> texts_;
};

}  // namespace

absl::Status Store::Load(int64_t collection_id, const BlockSink& sink,
                         const LoadOptions& options) const {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  absl::Status loaded = CatchOutOfMemory([&]() -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(CollectionView view, Take(core_.get(), collection_id, options.cancelled));
    if (options.segment != 0) ABSL_RETURN_IF_ERROR(KeepOnly(options.segment, &view));
    return Stream(view, options, sink).status();
  });
  core_->NoteRead(collection_id, loaded);
  return loaded;
}

ReadFailures Store::ReadFailuresOf(int64_t collection_id) const {
  const MutexLock lock(core_->read_mutex);
  const auto it = core_->read_failures.find(collection_id);
  return it == core_->read_failures.end() ? ReadFailures() : it->second;
}

absl::StatusOr<std::vector<int64_t>> Store::Segments(int64_t collection_id) const {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  const MutexLock lock(core_->mutex);
  ABSL_RETURN_IF_ERROR(core_->Find(collection_id).status());
  std::vector<int64_t> ids;
  for (const auto& segment : core_->SegmentsOf(collection_id)) ids.push_back(segment->row().id);
  return ids;
}

absl::StatusOr<VerifyReport> Store::Verify() const {
  return CatchOutOfMemory([&]() -> absl::StatusOr<VerifyReport> {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    VerifyReport report;
    Damages damages;
    std::vector<int64_t> collections;
    std::vector<StreamSource> uploads;
    {
      const MutexLock lock(core_->mutex);
      ABSL_ASSIGN_OR_RETURN(report.commits, core_->catalog->Audit());
      ABSL_RETURN_IF_ERROR(damages.Note(CheckNames(*core_)));
      for (const auto& [id, row] : core_->catalog->tables().Of<CollectionRow>()) {
        collections.push_back(id);
      }
      for (const int64_t id : core_->catalog->tables().uploads.open()) {
        if (core_->writers.count(id) > 0) continue;
        const UploadRow& row = *core_->catalog->tables().Find<UploadRow>(id);
        ABSL_ASSIGN_OR_RETURN(const CollectionRow collection, core_->Find(row.collection));
        uploads.push_back(
            {.directory = core_->directory.get(),
             .identity = core_->Identity(collection, id),
             .extent = {.blocks = row.next_block, .rows = row.rows, .bytes = row.bytes_durable},
             .may_be_longer = true});
      }
    }
    for (const int64_t id : collections) {
      const absl::StatusOr<CollectionView> view = Take(core_.get(), id, nullptr);
      if (absl::IsNotFound(view.status())) continue;  // dropped meanwhile
      ABSL_RETURN_IF_ERROR(damages.Note(view.status()));
      if (!view.ok()) continue;
      const absl::StatusOr<StreamTotals> totals =
          Stream(*view, {}, [](const StoredBlock&) { return absl::OkStatus(); });
      ABSL_RETURN_IF_ERROR(damages.Note(totals.status()));
      if (!totals.ok()) continue;
      report.collections += 1;
      report.segments += static_cast<int64_t>(view->segments.size());
      report.blocks += totals->blocks;
      report.rows += totals->rows;
      report.bytes += totals->bytes;
    }
    for (const StreamSource& upload : uploads) {
      ABSL_RETURN_IF_ERROR(damages.Note(VerifyUpload(upload)));
    }
    ABSL_RETURN_IF_ERROR(damages.All());
    return report;
  });
}

}  // namespace nearfield::store

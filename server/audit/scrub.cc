#include "server/audit/scrub.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "server/store/segment_format.h"

namespace nearfield::server {
namespace {

using store::StoredBlock;

// Bytes of vectors that are fetched and compared in one step.
constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr int64_t kChunkRowsMax = 4096;
// A few suspects per segment suffice as evidence.
constexpr size_t kSuspectsMax = 16;

// Returns the store's epoch; nullopt if the collection no longer exists.
std::optional<uint64_t> StoreEpoch(const NamedCollection& named) {
  for (const store::StoredCollection& stored : named.store->Collections()) {
    if (stored.id == named.store_id) return stored.epoch;
  }
  return std::nullopt;
}

// Compares one segment and confirms the suspected rows.
class SegmentScrub {
 public:
  SegmentScrub(const NamedCollection& named, const ScrubTools& tools, int64_t segment)
      : named_(named),
        tools_(tools),
        segment_(segment),
        row_bytes_(static_cast<size_t>(named.collection->spec().dim) *
                   static_cast<size_t>(BytesPerElement(named.collection->spec().row_type))) {}

  absl::Status Run() {
    ABSL_RETURN_IF_ERROR(Load([this](const StoredBlock& block) { return Compare(block); }));
    if (suspects_.empty()) return absl::OkStatus();
    const absl::Status looked = Load([this](const StoredBlock& block) { return Confirm(block); });
    // The rest was compacted meanwhile. The next pass compares it in its new segment.
    tools_.counts->rows_skipped += static_cast<int64_t>(suspects_.size());
    return absl::IsNotFound(looked) ? absl::OkStatus() : looked;
  }

 private:
  absl::Status Load(const store::Store::BlockSink& sink) {
    return named_.store->Load(named_.store_id, sink,
                              {.threads = 1, .read_bytes = kChunkBytes, .segment = segment_});
  }

  absl::Status Compare(const StoredBlock& block) {
    // Read the epoch after the load has fixed its view, so that it is not older than the view.
    if (!seen_epoch_.has_value()) seen_epoch_ = StoreEpoch(named_);
    if (!seen_epoch_.has_value()) return absl::NotFoundError("the collection was dropped");
    const int64_t step =
        std::clamp<int64_t>(kChunkBytes / static_cast<int64_t>(row_bytes_), 1, kChunkRowsMax);
    for (int64_t begin = 0; begin < block.ids->size(); begin += step) {
      const int64_t end = std::min(begin + step, block.ids->size());
      ABSL_RETURN_IF_ERROR(CompareRows(block, begin, end));
      const auto bytes = static_cast<double>(end - begin) * static_cast<double>(row_bytes_);
      const std::chrono::duration<double> time(bytes /
                                               static_cast<double>(tools_.bytes_per_second));
      if (!tools_.pace->Wait(std::chrono::duration_cast<std::chrono::nanoseconds>(time))) {
        return absl::CancelledError("the server ends");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CompareRows(const StoredBlock& block, int64_t begin, int64_t end) {
    IdColumn ids(block.ids->type());
    for (int64_t row = begin; row < end; ++row) ids.AppendFrom(*block.ids, row);
    ABSL_ASSIGN_OR_RETURN(const FetchResult found,
                          named_.collection->Fetch(ids, {.vectors = true, .payloads = true}));
    int64_t next = 0;  // found ids are in the order of the request
    for (int64_t row = begin; row < end; ++row) {
      const bool there = next < found.ids.size() && found.ids.Compare(next, *block.ids, row) == 0;
      const int64_t at = there ? next++ : -1;
      if (there && Same(block, row, found, at)) {
        tools_.counts->rows += 1;
      } else if (found.epoch < *seen_epoch_ || suspects_.size() >= kSuspectsMax) {
        tools_.counts->rows_skipped += 1;  // memory does not show this commit yet
      } else {
        Suspect(block, row, found, at);
      }
    }
    tools_.counts->bytes += (end - begin) * static_cast<int64_t>(row_bytes_);
    return absl::OkStatus();
  }

  const uint8_t* StoredRow(const StoredBlock& block, int64_t row) const {
    return block.rows.data() + static_cast<size_t>(row) * row_bytes_;
  }
  static std::string StoredPayload(const StoredBlock& block, int64_t row) {
    return block.payloads == nullptr ? "" : std::string(block.payloads->at(row));
  }

  bool Same(const StoredBlock& block, int64_t row, const FetchResult& found, int64_t at) const {
    const uint8_t* resident = found.rows.data() + static_cast<size_t>(at) * row_bytes_;
    return std::memcmp(StoredRow(block, row), resident, row_bytes_) == 0 &&
           (block.payloads == nullptr ? found.payloads.at(at).empty()
                                      : block.payloads->at(row) == found.payloads.at(at));
  }

  void Suspect(const StoredBlock& block, int64_t row, const FetchResult& found, int64_t at) {
    RowMismatch mismatch;
    mismatch.collection_name = named_.name;
    mismatch.spec = named_.collection->spec();
    mismatch.file = store::SegmentFileName(block.segment);
    mismatch.block = block.block;
    mismatch.id = block.ids->at(row);
    mismatch.epoch = found.epoch;
    mismatch.stored.assign(StoredRow(block, row), StoredRow(block, row) + row_bytes_);
    mismatch.stored_payload = StoredPayload(block, row);
    if (at >= 0) {
      const uint8_t* resident = found.rows.data() + static_cast<size_t>(at) * row_bytes_;
      mismatch.resident.emplace(resident, resident + row_bytes_);
      mismatch.resident_payload = std::string(found.payloads.at(at));
    }
    Id id = mismatch.id;
    suspects_.emplace(std::move(id), std::move(mismatch));
  }

  // Raises the alarm for suspects that are still live in this segment with the values that were
  // compared. They were live before and after the row was fetched, so they were live at that time.
  // A row with another payload was updated meanwhile.
  absl::Status Confirm(const StoredBlock& block) {
    for (int64_t row = 0; row < block.ids->size() && !suspects_.empty(); ++row) {
      const auto suspect = suspects_.find(block.ids->at(row));
      if (suspect == suspects_.end()) continue;
      if (suspect->second.stored_payload == StoredPayload(block, row)) {
        tools_.counts->mismatches += 1;
        tools_.alarm->Raise(suspect->second);
      } else {
        tools_.counts->rows_skipped += 1;
      }
      suspects_.erase(suspect);
    }
    return absl::OkStatus();
  }

  const NamedCollection& named_;
  const ScrubTools& tools_;
  const int64_t segment_;
  const size_t row_bytes_;
  std::optional<uint64_t> seen_epoch_;
  std::map<Id, RowMismatch> suspects_;
};

}  // namespace

absl::Status ScrubCollection(const NamedCollection& named, const ScrubTools& tools) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<int64_t> segments, named.store->Segments(named.store_id));
  for (const int64_t segment : segments) {
    if (named.dropped.load()) return absl::OkStatus();
    const absl::Status status = SegmentScrub(named, tools, segment).Run();
    if (absl::IsNotFound(status)) continue;  // compacted or dropped meanwhile
    ABSL_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server

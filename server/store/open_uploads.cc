#include "server/store/open_uploads.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/store.h"

namespace nearfield::store {
namespace {

using OpenRows = std::vector<const UploadRow*>;

// Orders uploads by their last use. Uploads that this process has not used come first, in the order
// of their begins. So setting the system clock does not change the order.
bool IsEarlier(const StoreCore& core, const UploadRow& a, const UploadRow& b)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  return std::make_pair(core.TouchedAt(a.id), a.id) < std::make_pair(core.TouchedAt(b.id), b.id);
}

// Returns the uploads that stay open after `gone` are removed.
OpenRows OpenUploadsBut(const StoreCore& core, const std::vector<int64_t>& gone)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  OpenRows open;
  const Tables& tables = core.catalog->tables();
  for (const int64_t id : tables.uploads.open()) {
    if (std::find(gone.begin(), gone.end(), id) == gone.end()) {
      open.push_back(tables.Find<UploadRow>(id));
    }
  }
  return open;
}

OpenRows OfCaller(const StoreCore& core, const OpenRows& open, const std::string& caller)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  OpenRows own;
  for (const UploadRow* const row : open) {
    const auto known = core.upload_callers.find(row->id);
    if (known != core.upload_callers.end() && known->second == caller) own.push_back(row);
  }
  return own;
}

// Returns the upload to remove; null if each has a writer or durable rows.
const UploadRow* FirstToGiveWay(const StoreCore& core, const OpenRows& open)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  const UploadRow* first = nullptr;
  for (const UploadRow* const row : open) {
    if (row->next_block > 0 || core.writers.count(row->id) > 0) continue;
    if (first == nullptr || IsEarlier(core, *row, *first)) first = row;
  }
  return first;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> AdmitUpload(const StoreCore& core, int64_t collection_id,
                                                 const BeginUploadOptions& options,
                                                 Transaction* transaction) {
  if (core.FindUpload({.collection_id = collection_id, .token = options.token}) != nullptr) {
    return absl::AlreadyExistsError("upload_token: an upload with this token was begun already");
  }
  std::vector<int64_t> gone = core.RemoveIdleUploads(transaction);
  // Removes an upload if the limit of `open` is reached.
  const auto make_room = [&](const OpenRows& open, int64_t limit, const char* whose,
                             const char* setting) -> absl::Status {
    core.AssertLocked();
    if (static_cast<int64_t>(open.size()) < limit) return absl::OkStatus();
    const UploadRow* const first = FirstToGiveWay(core, open);
    if (first == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(open.size(), " resumable uploads ", whose, " are open, the limit ", setting,
                       " is ", limit, ": commit one, or give one up with DropUpload"));
    }
    transaction->Remove<UploadRow>(first->id);
    gone.push_back(first->id);
    return absl::OkStatus();
  };
  if (!options.caller.empty()) {
    ABSL_RETURN_IF_ERROR(make_room(OfCaller(core, OpenUploadsBut(core, gone), options.caller),
                                   core.options.uploads_open_per_caller_max, "of this caller",
                                   "caller_share_percent of upload_tokens_max"));
  }
  ABSL_RETURN_IF_ERROR(make_room(OpenUploadsBut(core, gone), core.options.uploads_open_max,
                                 "of all callers", "upload_tokens_max"));
  return gone;
}

std::vector<OpenUpload> Store::OpenUploads() const {
  std::vector<UploadRow> rows;
  std::vector<OpenUpload> uploads;
  {
    const MutexLock lock(core_->mutex);
    const Tables& tables = core_->catalog->tables();
    for (const int64_t id : tables.uploads.open()) rows.push_back(*tables.Find<UploadRow>(id));
    uploads.reserve(rows.size());
    for (const UploadRow& row : rows) {
      uploads.push_back({.token = row.token,
                         .collection_id = row.collection,
                         .mode = row.mode,
                         .rows_count = row.rows,
                         .untouched_s = core_->UntouchedSeconds(row),
                         .is_live = core_->writers.count(row.id) > 0});
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    uploads[i].bytes_on_disk = core_->directory->AllocatedBytes(SegmentFileName(rows[i].id));
  }
  std::sort(uploads.begin(), uploads.end(), [](const OpenUpload& a, const OpenUpload& b) {
    return std::tie(b.untouched_s, a.token) < std::tie(a.untouched_s, b.token);
  });
  return uploads;
}

}  // namespace nearfield::store

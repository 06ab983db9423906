// SegmentWriter::Impl, the private part of a SegmentWriter. Only server/store includes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/store/segment_file.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {

struct SegmentWriter::Impl {
  std::shared_ptr<StoreCore> core;
  SegmentOutput output;
  UploadMode mode = UploadMode::kInsert;
  std::string token;
  bool broken = false;  // the disk was full in the middle of a block
  bool committed = false;
  int64_t bytes_synced = 0;

  int64_t segment() const { return output.identity().segment; }
  int64_t collection() const { return output.identity().collection; }

  absl::Status Usable() const {
    if (absl::Status status = core->Usable(); !status.ok()) return status;
    if (!broken && !committed) return absl::OkStatus();
    return absl::FailedPreconditionError("the upload has ended: it can only be destroyed");
  }
};

inline absl::Status DroppedMeanwhile(int64_t collection) {
  return absl::AbortedError(
      absl::StrCat("collection ", collection, " was dropped during the upload"));
}

}  // namespace nearfield::store

// GpuRowPlanes: exact rows, norms, ranks and codes of one generation, in slabs of the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/plan/path_costs.h"

namespace nearfield::gpu {

class GpuRowPlanes : public backend::RowPlanes {
 public:
  static absl::StatusOr<std::unique_ptr<GpuRowPlanes>> Reserve(std::shared_ptr<GpuCore> core,
                                                               const backend::RowFormat& format,
                                                               int64_t rows_max);
  // Returns the device memory that Reserve takes. Requires: the limits that Reserve checks.
  static int64_t DeviceBytesOf(GpuCore& core, const backend::RowFormat& format, int64_t rows_max);
  // The same for slabs of these sizes: of device memory, and of host memory for rows.
  struct SlabBytes {
    int64_t device = 0;
    int64_t host_rows = 0;
  };
  static int64_t DeviceBytesOf(const SlabBytes& slabs, const backend::RowFormat& format,
                               int64_t rows_max);
  ~GpuRowPlanes() override;
  GpuRowPlanes(const GpuRowPlanes&) = delete;
  GpuRowPlanes& operator=(const GpuRowPlanes&) = delete;

  absl::Status Append(const void* rows, int64_t rows_count) override;
  absl::Status AppendFrom(const backend::RowPlanes& source,
                          absl::Span<const uint32_t> slots) override;
  absl::Status Seal(const backend::SealedOrder& order) override;
  absl::Status Read(absl::Span<const uint32_t> slots, void* rows) const override;
  absl::Status ReadRange(int64_t begin, int64_t rows_count, void* rows) const override;
  int64_t rows_count() const override { return rows_count_; }
  int64_t device_bytes() const override;
  int64_t host_bytes() const override;

  const GpuCore* core() const { return core_.get(); }
  const backend::RowFormat& format() const { return format_; }
  bool sealed() const { return sealed_; }
  const RowsView& view() const { return view_; }
  // Returns a view without slabs if the format has no codes (ScanPrecision::kRows).
  const CodesView& codes() const { return codes_; }
  // Learned from searches in which these rows were the largest generation.
  plan::PathCosts& path_costs() const { return path_costs_; }

 private:
  // The slabs of a reservation.
  struct SlabNeeds {
    int64_t rows_per_slab = 0;
    int64_t codes_per_slab = 0;  // 0: the format has no codes
    int64_t rows = 0;
    int64_t codes = 0;
    int64_t second_codes = 0;  // as many as codes, or 0: the format has no second codes
    int64_t meta = 0;
    int64_t on_device = 0;  // all, except rows in host memory
  };
  static SlabNeeds NeedsOf(const SlabBytes& slabs, const backend::RowFormat& format,
                           int64_t rows_max);
  GpuRowPlanes(std::shared_ptr<GpuCore> core, const backend::RowFormat& format, int64_t rows_max);
  absl::Status TakeSlabs();
  bool on_host() const { return format_.rows == RowPlacement::kHost; }
  // Returns the arena that holds the exact rows.
  Arena& row_arena() const { return on_host() ? core_->host_rows() : core_->arena(); }
  bool has_codes() const { return format_.scan != ScanPrecision::kRows; }
  bool has_second_codes() const { return has_codes() && format_.second_codes; }
  absl::Status StoreRows(const StagingRing::Lease& lease, int64_t rows_count);
  absl::Status CheckRoom(int64_t rows_count) const;
  // Rows slots[0, count), or [begin, begin + count) if slots is null. They fit in one staging
  // buffer.
  struct ReadPart {
    const uint32_t* slots = nullptr;
    int64_t begin = 0;
    int64_t count = 0;
  };
  absl::Status ReadOne(const ReadPart& part, char* rows) const;
  int64_t ReadRowsMax() const;

  const std::shared_ptr<GpuCore> core_;
  const backend::RowFormat format_;
  const int64_t rows_max_;
  const int64_t source_row_bytes_;  // row-major, unpadded
  int64_t rows_count_ = 0;
  bool sealed_ = false;
  std::vector<char*> row_slabs_;
  std::vector<char*> meta_slabs_;
  std::vector<char*> code_slabs_;
  std::vector<char*> second_code_slabs_;
  RowsView view_;
  CodesView codes_;
  mutable plan::PathCosts path_costs_;
};

}  // namespace nearfield::gpu

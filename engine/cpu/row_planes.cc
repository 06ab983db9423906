#include "engine/cpu/row_planes.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/check_range.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/bound/int8_code.h"
#include "engine/cpu/first_error.h"
#include "engine/cpu/workspace.h"
#include "engine/score/arithmetic_mode.h"

namespace nearfield::cpu {
namespace {

// Bytes of rows that one thread stores at a time: copied, then squared while still in its cache.
constexpr int64_t kStoreBytes = 256 << 10;
constexpr int64_t kEncodeBytes = 32 << 10;  // the same if rows are also encoded
// Bytes stored while holding the threads' turn: limits how long a search that arrives meanwhile
// waits.
constexpr int64_t kTurnBytes = 4 << 20;
// Below this the caller's thread alone is as fast.
constexpr int64_t kParallelBytesMin = 1 << 20;
// The same for rows to encode, which takes longer than storing.
constexpr int64_t kParallelEncodeBytesMin = 64 << 10;

// Returns the bytes of a row's code; 0 if it has none.
int64_t CodeBytes(const backend::RowFormat& format) {
  return format.scan != ScanPrecision::kRows ? CodeStride(format.dim) : 0;
}
int64_t BoundBytes(const backend::RowFormat& format) {
  return format.scan != ScanPrecision::kRows ? int64_t{sizeof(bound::RowBound)} : 0;
}

}  // namespace

absl::StatusOr<int64_t> CpuRowPlanes::BytesNeeded(const backend::RowFormat& format,
                                                  int64_t rows_count) {
  const int64_t row_bytes = int64_t{PaddedDim(format.dim)} * BytesPerElement(format.row_type) +
                            static_cast<int64_t>(sizeof(double) + sizeof(uint32_t)) +
                            CodeBytes(format) + BoundBytes(format);
  const std::optional<int64_t> bytes = CheckedMul(rows_count, row_bytes);
  if (!bytes.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("row memory: ", rows_count, " rows of ", row_bytes, " bytes exceed 2^63"));
  }
  return *bytes;
}

absl::StatusOr<std::unique_ptr<CpuRowPlanes>> CpuRowPlanes::Reserve(
    const backend::RowFormat& format, int64_t rows_max, const Resources& resources) {
  ABSL_RETURN_IF_ERROR(CheckRange("dim", format.dim, 1, kDimMax));
  ABSL_RETURN_IF_ERROR(CheckRange("rows_max", rows_max, 1, kRowsMax));
  ABSL_ASSIGN_OR_RETURN(const int64_t bytes, BytesNeeded(format, rows_max));
  ABSL_ASSIGN_OR_RETURN(MemoryReservation share, resources.budget->Reserve(bytes));
  const int64_t stride = int64_t{PaddedDim(format.dim)} * BytesPerElement(format.row_type);
  ABSL_ASSIGN_OR_RETURN(Mapping rows, Mapping::Create(rows_max * stride));
  // Squares are written for whole row groups.
  ABSL_ASSIGN_OR_RETURN(Mapping squares,
                        Mapping::Create((rows_max + kRowGroup) * int64_t{sizeof(double)}));
  ABSL_ASSIGN_OR_RETURN(Mapping ranks, Mapping::Create(rows_max * int64_t{sizeof(uint32_t)}));
  ABSL_ASSIGN_OR_RETURN(Mapping codes, Mapping::Create(rows_max * CodeBytes(format)));
  ABSL_ASSIGN_OR_RETURN(Mapping bounds, Mapping::Create(rows_max * BoundBytes(format)));
  return std::unique_ptr<CpuRowPlanes>(
      new CpuRowPlanes(format, rows_max, resources, std::move(share),
                       Planes{std::move(rows), std::move(squares), std::move(ranks),
                              std::move(codes), std::move(bounds)}));
}

CpuRowPlanes::CpuRowPlanes(const backend::RowFormat& format, int64_t rows_max,
                           const Resources& resources, MemoryReservation share, Planes planes)
    : format_(format),
      rows_max_(rows_max),
      row_bytes_(int64_t{format.dim} * BytesPerElement(format.row_type)),
      stride_bytes_(int64_t{PaddedDim(format.dim)} * BytesPerElement(format.row_type)),
      code_stride_(CodeBytes(format)),
      resources_(resources),
      share_(std::move(share)),
      planes_(std::move(planes)),
      rotation_(format.scan == ScanPrecision::kInt8
                    ? std::make_unique<bound::Rotation>(format.dim, backend::kRotationSeed)
                    : nullptr) {}

bool CpuRowPlanes::Answers(const backend::RowFormat& format) const {
  const bool codes_fit = format.scan == ScanPrecision::kRows ||
                         (format.scan == format_.scan && format.metric == format_.metric);
  return format.dim == format_.dim && format.row_type == format_.row_type && codes_fit;
}

absl::Status CpuRowPlanes::CheckRoom(int64_t rows_count) const {
  if (sealed_) return absl::FailedPreconditionError("rows appended after Seal");
  if (rows_count < 0 || rows_count > rows_max_ - rows_count_) {
    return absl::ResourceExhaustedError(absl::StrCat("rows_count = ", rows_count,
                                                     " in addition to ", rows_count_,
                                                     " present exceeds rows_max = ", rows_max_));
  }
  return absl::OkStatus();
}

absl::Status CpuRowPlanes::CheckSlots(absl::Span<const uint32_t> slots) const {
  for (const uint32_t slot : slots) {
    if (slot >= rows_count_) {
      return absl::InvalidArgumentError(
          absl::StrCat("slot = ", slot, ", must be below rows_count = ", rows_count_));
    }
  }
  return absl::OkStatus();
}

void CpuRowPlanes::Store(const std::byte* packed, int64_t begin, int64_t rows_count,
                         double* scratch) {
  CHECK_LE(begin + rows_count, rows_max_);
  std::byte* out = planes_.rows.data() + begin * stride_bytes_;
  if (row_bytes_ == stride_bytes_) {
    std::memcpy(out, packed, static_cast<size_t>(rows_count * row_bytes_));
  } else {  // the padding is already zero, because the mapping is fresh
    for (int64_t r = 0; r < rows_count; ++r) {
      std::memcpy(out + r * stride_bytes_, packed + r * row_bytes_,
                  static_cast<size_t>(row_bytes_));
    }
  }
  // Write squares through a buffer: kernels write whole row groups, and the rows after these may
  // belong to another thread.
  constexpr int32_t kRowsAtOnce = 128;
  static_assert(kRowsAtOnce % kRowGroup == 0);
  alignas(64) double buffer[kRowsAtOnce];
  auto* squares = reinterpret_cast<double*>(planes_.squares.data()) + begin;
  for (int64_t r = 0; r < rows_count; r += kRowsAtOnce) {
    const auto rows_here = static_cast<int32_t>(std::min<int64_t>(kRowsAtOnce, rows_count - r));
    resources_.kernels->square_rows(tile(begin + r, rows_here), buffer);
    std::copy(buffer, buffer + rows_here, squares + r);
    if (!has_codes()) continue;
    const EncodeRows encode = {
        .rotation = rotation_.get(),
        .dim = format_.dim,
        .metric = format_.metric,
        .row_type = format_.row_type,
        .rows = tile(begin + r, rows_here).rows,
        .rows_count = rows_here,
        .squares = buffer,
        .codes = codes() + (begin + r) * code_stride_,
        .bounds = reinterpret_cast<bound::RowBound*>(planes_.bounds.data()) + begin + r,
        .scratch = scratch};
    resources_.kernels->codes.encode_rows(encode);
  }
}

absl::Status CpuRowPlanes::Append(const void* rows, int64_t rows_count) {
  ABSL_RETURN_IF_ERROR(CheckRoom(rows_count));
  const auto* packed = static_cast<const std::byte*>(rows);
  const int64_t bytes_a_store = has_codes() ? kEncodeBytes : kStoreBytes;
  const int64_t parallel_bytes_min = has_codes() ? kParallelEncodeBytesMin : kParallelBytesMin;
  const int64_t rows_a_store = std::max<int64_t>(1, bytes_a_store / stride_bytes_);
  const int64_t rows_a_turn = std::max(rows_a_store, kTurnBytes / stride_bytes_);
  FirstError error;
  for (int64_t done = 0; done < rows_count; done += rows_a_turn) {
    const int64_t rows_here = std::min(rows_a_turn, rows_count - done);
    std::atomic<int64_t> next{0};
    const auto store_some = [&](int32_t /*worker*/) {
      if (!error.Check(score::CheckArithmeticMode())) return;
      ScratchBuffer<double> scratch;
      if (has_codes()) scratch.Ensure(EncodeScratchDoubles(format_.dim));
      for (int64_t r; (r = next.fetch_add(rows_a_store, std::memory_order_relaxed)) < rows_here;) {
        Store(packed + (done + r) * row_bytes_, rows_count_ + done + r,
              std::min(rows_a_store, rows_here - r), scratch.get());
      }
    };
    SharedThreads& threads = *resources_.threads;
    if (rows_here * stride_bytes_ >= parallel_bytes_min && !threads.SearchedRecently() &&
        threads.turn.TryLock()) {
      const MutexLock turn(threads.turn, std::adopt_lock);
      threads.pool.Run(threads.pool.threads_count(), store_some);
    } else {
      store_some(0);
    }
    ABSL_RETURN_IF_ERROR(error.status());
  }
  rows_count_ += rows_count;
  return absl::OkStatus();
}

absl::Status CpuRowPlanes::AppendFrom(const backend::RowPlanes& source,
                                      absl::Span<const uint32_t> slots) {
  const auto& from = static_cast<const CpuRowPlanes&>(source);  // same backend, by contract
  if (!from.Answers(format_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("source rows of dim = ", from.format_.dim, " do not fit dim = ", format_.dim,
                     " or are of another row type, or have other codes"));
  }
  ABSL_RETURN_IF_ERROR(CheckRoom(static_cast<int64_t>(slots.size())));
  ABSL_RETURN_IF_ERROR(from.CheckSlots(slots));
  auto* squares = reinterpret_cast<double*>(planes_.squares.data());
  for (const uint32_t slot : slots) {
    std::memcpy(planes_.rows.data() + rows_count_ * stride_bytes_,
                from.planes_.rows.data() + slot * stride_bytes_,
                static_cast<size_t>(stride_bytes_));
    squares[rows_count_] = from.squares()[slot];
    if (has_codes()) {
      std::memcpy(codes() + rows_count_ * code_stride_, from.codes() + slot * code_stride_,
                  static_cast<size_t>(code_stride_));
      reinterpret_cast<bound::RowBound*>(planes_.bounds.data())[rows_count_] = from.bounds()[slot];
    }
    ++rows_count_;
  }
  return absl::OkStatus();
}

absl::Status CpuRowPlanes::Seal(const backend::SealedOrder& order) {
  const absl::Span<const uint32_t> ranks = order.ranks;
  if (sealed_) return absl::FailedPreconditionError("generation sealed twice");
  if (static_cast<int64_t>(ranks.size()) != rows_count_) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks.size = ", ranks.size(), ", must equal rows_count = ", rows_count_));
  }
  std::copy(ranks.begin(), ranks.end(), reinterpret_cast<uint32_t*>(planes_.ranks.data()));
  planes_.rows.Shrink(rows_count_ * stride_bytes_);
  planes_.squares.Shrink((rows_count_ + kRowGroup) * int64_t{sizeof(double)});
  planes_.ranks.Shrink(rows_count_ * int64_t{sizeof(uint32_t)});
  planes_.codes.Shrink(rows_count_ * code_stride_);
  planes_.bounds.Shrink(rows_count_ * BoundBytes(format_));
  ABSL_ASSIGN_OR_RETURN(const int64_t bytes, BytesNeeded(format_, rows_count_));
  CHECK_LE(bytes, share_.bytes());
  share_.ShrinkTo(bytes);
  sealed_ = true;
  return absl::OkStatus();
}

absl::Status CpuRowPlanes::Read(absl::Span<const uint32_t> slots, void* rows) const {
  ABSL_RETURN_IF_ERROR(CheckSlots(slots));
  auto* out = static_cast<std::byte*>(rows);
  for (const uint32_t slot : slots) {
    std::memcpy(out, planes_.rows.data() + slot * stride_bytes_, static_cast<size_t>(row_bytes_));
    out += row_bytes_;
  }
  return absl::OkStatus();
}

absl::Status CpuRowPlanes::ReadRange(int64_t begin, int64_t rows_count, void* rows) const {
  if (begin < 0 || rows_count < 0 || begin > rows_count_ - rows_count) {
    return absl::InvalidArgumentError(absl::StrCat("rows [", begin, ", ", begin, " + ", rows_count,
                                                   ") reach past rows_count = ", rows_count_));
  }
  auto* out = static_cast<std::byte*>(rows);
  for (int64_t r = begin; r < begin + rows_count; ++r) {
    std::memcpy(out, planes_.rows.data() + r * stride_bytes_, static_cast<size_t>(row_bytes_));
    out += row_bytes_;
  }
  return absl::OkStatus();
}

}  // namespace nearfield::cpu

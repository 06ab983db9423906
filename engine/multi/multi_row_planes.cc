#include "engine/multi/multi_row_planes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::multi {
namespace {

// Rows that move to another device pass through host memory, this many bytes at a time.
constexpr int64_t kMoveBytes = int64_t{4} << 20;

}  // namespace

MultiRowPlanes::MultiRowPlanes(std::shared_ptr<const DeviceSet> devices,
                               const backend::RowFormat& format, int64_t stripe_rows,
                               std::vector<PlanesPart> parts)
    : devices_(std::move(devices)),
      row_bytes_(int64_t{format.dim} * BytesPerElement(format.row_type)),
      stripe_rows_(stripe_rows),
      parts_(std::move(parts)),
      placement_(parts_.size()) {
  CHECK_GE(stripe_rows, 1);
  CHECK_EQ(parts_.size(), devices_->size());
}

int64_t MultiRowPlanes::RoomOf(size_t device) const {
  return parts_[device].rows_max - placement_.rows_of(device);
}

size_t MultiRowPlanes::NextDevice() const {
  size_t next = 0;
  for (size_t device = 1; device < parts_.size(); ++device) {
    if (RoomOf(device) == 0) continue;
    if (RoomOf(next) == 0 || placement_.rows_of(device) < placement_.rows_of(next)) next = device;
  }
  return next;
}

absl::Status MultiRowPlanes::AppendTo(size_t device, const char* rows, int64_t rows_count) {
  ABSL_RETURN_IF_ERROR(devices_->Named(device, parts_[device].planes->Append(rows, rows_count)));
  placement_.Append(device, rows_count);
  return absl::OkStatus();
}

absl::Status MultiRowPlanes::Append(const void* rows, int64_t rows_count) {
  const auto* from = static_cast<const char*>(rows);
  while (rows_count > 0) {
    // The stripe that the last rows began is filled first.
    const absl::Span<const Placement::Run> runs = placement_.runs();
    size_t device = NextDevice();
    int64_t stripe_left = stripe_rows_;
    if (!runs.empty() && runs.back().count % stripe_rows_ != 0 && RoomOf(runs.back().device) > 0) {
      device = runs.back().device;
      stripe_left = stripe_rows_ - runs.back().count % stripe_rows_;
    }
    const int64_t count = std::min({rows_count, stripe_left, RoomOf(device)});
    if (count == 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("rows: ", this->rows_count(), " + ", rows_count, " exceed the reservation"));
    }
    ABSL_RETURN_IF_ERROR(AppendTo(device, from, count));
    from += count * row_bytes_;
    rows_count -= count;
  }
  return absl::OkStatus();
}

absl::Status MultiRowPlanes::Move(const MultiRowPlanes& source, size_t device,
                                  absl::Span<const uint32_t> locals) {
  const auto rows_max = static_cast<size_t>(std::max<int64_t>(1, kMoveBytes / row_bytes_));
  std::vector<char> rows;
  while (!locals.empty()) {
    const absl::Span<const uint32_t> some = locals.first(std::min(rows_max, locals.size()));
    rows.resize(some.size() * static_cast<size_t>(row_bytes_));
    ABSL_RETURN_IF_ERROR(
        devices_->Named(device, source.parts_[device].planes->Read(some, rows.data())));
    ABSL_RETURN_IF_ERROR(Append(rows.data(), static_cast<int64_t>(some.size())));
    locals.remove_prefix(some.size());
  }
  return absl::OkStatus();
}

absl::Status MultiRowPlanes::CopyRun(const MultiRowPlanes& source, size_t device,
                                     absl::Span<const uint32_t> locals) {
  const auto staying =
      static_cast<size_t>(std::min<int64_t>(RoomOf(device), static_cast<int64_t>(locals.size())));
  if (staying > 0) {
    ABSL_RETURN_IF_ERROR(devices_->Named(
        device,
        parts_[device].planes->AppendFrom(*source.parts_[device].planes, locals.first(staying))));
    placement_.Append(device, static_cast<int64_t>(staying));
  }
  return Move(source, device, locals.subspan(staying));
}

absl::Status MultiRowPlanes::AppendFrom(const backend::RowPlanes& source,
                                        absl::Span<const uint32_t> slots) {
  const auto* const from = dynamic_cast<const MultiRowPlanes*>(&source);
  if (from == nullptr || from->devices_ != devices_ || from->row_bytes_ != row_bytes_) {
    return absl::InvalidArgumentError("rows of another backend or format");
  }
  std::vector<uint32_t> locals;
  while (!slots.empty()) {
    // The leading slots that are on one device. A run of the source may hold many of them.
    locals.clear();
    const size_t device = from->placement_.RunOf(slots.front()).device;
    while (locals.size() < slots.size()) {
      const Placement::Run& run = from->placement_.RunOf(slots[locals.size()]);
      if (run.device != device) break;
      for (size_t i = locals.size(); i < slots.size(); ++i) {
        if (slots[i] < run.slot || slots[i] - run.slot >= run.count) break;
        locals.push_back(run.local + (slots[i] - run.slot));
      }
    }
    ABSL_RETURN_IF_ERROR(CopyRun(*from, device, locals));
    slots.remove_prefix(locals.size());
  }
  return absl::OkStatus();
}

absl::Status MultiRowPlanes::Seal(const backend::SealedOrder& order) {
  const auto [ranks, ids] = order;
  if (static_cast<int64_t>(ranks.size()) != rows_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: ", ranks.size(), " for ", rows_count(), " rows"));
  }
  std::vector<Place> by_rank(ranks.size());
  std::vector<std::vector<uint64_t>> local_ids(parts_.size());  // by row of the device
  for (size_t device = 0; !ids.empty() && device < parts_.size(); ++device) {
    local_ids[device].reserve(static_cast<size_t>(placement_.rows_of(device)));
  }
  for (const Placement::Run& run : placement_.runs()) {
    const absl::Span<const uint64_t> of_run = ids.empty() ? ids : ids.subspan(run.slot, run.count);
    local_ids[run.device].insert(local_ids[run.device].end(), of_run.begin(), of_run.end());
    for (uint32_t i = 0; i < run.count; ++i) {
      by_rank[ranks[run.slot + i]] = {.device = run.device, .local = run.local + i};
    }
  }
  std::vector<std::vector<uint32_t>> local_ranks(parts_.size());  // by row of the device
  for (size_t device = 0; device < parts_.size(); ++device) {
    const auto rows = static_cast<size_t>(placement_.rows_of(device));
    local_ranks[device].resize(rows);
    parts_[device].ranks.reserve(rows);
  }
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto [device, local] = by_rank[rank];
    std::vector<uint32_t>& in_order = parts_[device].ranks;
    local_ranks[device][local] = static_cast<uint32_t>(in_order.size());
    in_order.push_back(static_cast<uint32_t>(rank));
  }
  for (size_t device = 0; device < parts_.size(); ++device) {
    PlanesPart& part = parts_[device];
    if (part.planes == nullptr) continue;
    if (placement_.rows_of(device) == 0 && rows_count() > 0) {
      part.planes.reset();
      continue;
    }
    ABSL_RETURN_IF_ERROR(devices_->Named(
        device, part.planes->Seal({.ranks = local_ranks[device], .ids = local_ids[device]})));
    if (placement_.rows_of(device) == rows_count()) part.ranks = {};
  }
  return absl::OkStatus();
}

absl::Status MultiRowPlanes::Read(absl::Span<const uint32_t> slots, void* rows) const {
  const auto row_bytes = static_cast<size_t>(row_bytes_);
  auto* const target = static_cast<char*>(rows);
  std::vector<std::vector<uint32_t>> locals(parts_.size());
  std::vector<std::vector<size_t>> indices(parts_.size());  // into slots
  for (size_t i = 0; i < slots.size(); ++i) {
    if (int64_t{slots[i]} >= rows_count()) {
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", slots[i], " of ", rows_count(), " rows"));
    }
    const Place place = placement_.Of(slots[i]);
    locals[place.device].push_back(place.local);
    indices[place.device].push_back(i);
  }
  std::vector<char> some;
  for (size_t device = 0; device < parts_.size(); ++device) {
    if (locals[device].empty()) continue;
    some.resize(locals[device].size() * row_bytes);
    ABSL_RETURN_IF_ERROR(
        devices_->Named(device, parts_[device].planes->Read(locals[device], some.data())));
    for (size_t i = 0; i < indices[device].size(); ++i) {
      std::memcpy(target + indices[device][i] * row_bytes, some.data() + i * row_bytes, row_bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status MultiRowPlanes::ReadRange(int64_t begin, int64_t rows_count, void* rows) const {
  if (begin < 0 || rows_count < 0 || rows_count > this->rows_count() - begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows [", begin, ", ", begin, " + ", rows_count, ") of ", this->rows_count()));
  }
  auto* target = static_cast<char*>(rows);
  while (rows_count > 0) {
    const Placement::Run& run = placement_.RunOf(static_cast<uint32_t>(begin));
    const int64_t in_run = begin - run.slot;
    const int64_t count = std::min(rows_count, run.count - in_run);
    ABSL_RETURN_IF_ERROR(devices_->Named(
        run.device, parts_[run.device].planes->ReadRange(run.local + in_run, count, target)));
    target += count * row_bytes_;
    begin += count;
    rows_count -= count;
  }
  return absl::OkStatus();
}

int64_t MultiRowPlanes::device_bytes() const {
  int64_t bytes = 0;
  for (const PlanesPart& part : parts_) {
    if (part.planes != nullptr) bytes += part.planes->device_bytes();
  }
  return bytes;
}

int64_t MultiRowPlanes::host_bytes() const {
  int64_t bytes = 0;
  for (const PlanesPart& part : parts_) {
    if (part.planes != nullptr) bytes += part.planes->host_bytes();
  }
  return bytes;
}

}  // namespace nearfield::multi

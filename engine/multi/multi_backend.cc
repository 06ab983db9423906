#include "engine/multi/multi_backend.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/count_bits.h"
#include "engine/base/host_work.h"
#include "engine/base/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/base/thread_pool.h"
#include "engine/multi/device_task.h"
#include "engine/multi/merge_devices.h"
#include "engine/multi/multi_row_planes.h"
#include "engine/multi/multi_tombstones.h"
#include "engine/multi/part_terms.h"

namespace nearfield::multi {
namespace {

using backend::GenerationView;
using backend::QueryTile;
using backend::RankedLists;
using backend::RowFormat;
using backend::ScanCost;

// A device of a reservation gets this many stripes at least, if there are enough rows.
constexpr int64_t kStripesOfDeviceMin = 4;
// The cost of joining a row, in bytes that could be copied in the same time.
constexpr int64_t kBytesPerRow = 64;
// With at least this many queries, the devices finish their answers if they can.
constexpr int64_t kQueriesToFinishMin = 8;

class MultiBackend final : public backend::Backend {
 public:
  MultiBackend(std::shared_ptr<const DeviceSet> devices, const DeviceSpread& spread)
      : devices_(std::move(devices)),
        spread_(spread),
        info_(devices_->backend(0).info()),
        lists_(devices_->size()),
        pool_(static_cast<int32_t>(devices_->size())) {
    info_.read_bytes_per_second = 0;
    for (size_t d = 0; d < devices_->size(); ++d) {
      const backend::BackendInfo& info = devices_->backend(d).info();
      CHECK(info.kind == info_.kind && info.k_max == info_.k_max);
      info_.batch_max = std::min(info_.batch_max, info.batch_max);
      info_.finished_rows_max = std::min(info_.finished_rows_max, info.finished_rows_max);
      info_.scan_dim_min = std::max(info_.scan_dim_min, info.scan_dim_min);
      info_.scan_dim_max = std::min(info_.scan_dim_max, info.scan_dim_max);
      info_.row_terms = info_.row_terms && info.row_terms;
      info_.read_bytes_per_second += info.read_bytes_per_second;
    }
    const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
    const auto count = static_cast<int32_t>(devices_->size());
    for (int32_t d = 0; d < count; ++d) {
      host_work_.push_back(
          std::make_unique<HostWork>(std::clamp(cores / count, 1, kHostThreadsMax)));
    }
    info_.device_name = absl::StrCat(devices_->size(), " x ", info_.device_name);
  }

  const backend::BackendInfo& info() const override { return info_; }

  absl::StatusOr<int64_t> DeviceBytesOf(const RowFormat& format, int64_t rows_max) const override {
    int64_t sum = 0;
    for (const Share& share : SharesOf(format, rows_max)) {
      ABSL_ASSIGN_OR_RETURN(const int64_t bytes,
                            devices_->backend(share.device).DeviceBytesOf(format, share.rows_max));
      const std::optional<int64_t> more = CheckedAdd(sum, bytes);
      if (!more) return absl::ResourceExhaustedError("more than 2^63 bytes of device memory");
      sum = *more;
    }
    return sum;
  }

  absl::StatusOr<std::unique_ptr<backend::RowPlanes>> Reserve(const RowFormat& format,
                                                              int64_t rows_max) override {
    std::vector<PlanesPart> parts(devices_->size());
    for (const Share& share : SharesOf(format, rows_max)) {
      auto planes = devices_->backend(share.device).Reserve(format, share.rows_max);
      if (!planes.ok()) return devices_->Named(share.device, planes.status());
      parts[share.device] = {.planes = *std::move(planes), .rows_max = share.rows_max, .ranks = {}};
    }
    return std::make_unique<MultiRowPlanes>(
        devices_, format, StripeRows(rows_max, DevicesFor(format, rows_max)), std::move(parts));
  }

  absl::StatusOr<std::unique_ptr<backend::Tombstones>> MakeTombstones(
      const backend::RowPlanes& planes, std::vector<uint64_t> words) override {
    const auto* const multi = dynamic_cast<const MultiRowPlanes*>(&planes);
    if (multi == nullptr || multi->devices() != devices_.get()) {
      return absl::InvalidArgumentError("rows of another backend");
    }
    const Placement& placement = multi->placement();
    std::vector<std::vector<uint64_t>> split = placement.Split(words);
    std::vector<TombstonesPart> parts(devices_->size());
    for (size_t d = 0; d < parts.size(); ++d) {
      parts[d].rows_live = placement.rows_of(d) - CountBits(split[d]);
      if (parts[d].rows_live == placement.rows_of(d)) continue;
      auto tombstones =
          devices_->backend(d).MakeTombstones(*multi->part(d).planes, std::move(split[d]));
      if (!tombstones.ok()) return devices_->Named(d, tombstones.status());
      parts[d].tombstones = *std::move(tombstones);
    }
    return std::make_unique<MultiTombstones>(devices_, std::move(words), std::move(parts));
  }

  absl::Status Search(const RowFormat& format, absl::Span<const GenerationView> generations,
                      const QueryTile& tile, RankedLists* best, ScanCost* cost) override {
    ABSL_RETURN_IF_ERROR(CheckViews(generations));
    std::vector<DeviceTask> tasks;
    for (size_t d = 0; d < devices_->size(); ++d) {
      DeviceTask task = {.device = d};
      for (size_t g = 0; g < generations.size(); ++g) AddView(generations[g], g, &task);
      if (task.views.empty()) continue;
      AddViewsOfQueries(generations, tile, &task);
      tasks.push_back(std::move(task));
    }
    if (tasks.size() == 1 && IsWhole(tasks.front(), generations.size())) {
      const DeviceTask& only = tasks.front();
      QueryTile own = tile;
      own.views = only.views_of_queries;
      return devices_->Named(
          only.device, devices_->backend(only.device).Search(format, only.views, own, best, cost));
    }
    best->Reset(tile.k, generations.size());
    return SearchTogether({format, generations, tile}, tasks, best, cost);
  }

  std::shared_ptr<float[]> TakeQueryMemory(int64_t count) override {
    return devices_->backend(0).TakeQueryMemory(count);  // every device can read it
  }
  absl::Status SendQueries(const float* values, int64_t count) override {
    return devices_->Named(0, devices_->backend(0).SendQueries(values, count));
  }
  std::vector<DeviceCapacity> devices() const override {
    std::vector<DeviceCapacity> all;
    for (size_t d = 0; d < devices_->size(); ++d) {
      all.push_back({.name = absl::StrCat(devices_->name(d), " (",
                                          devices_->backend(d).info().device_name, ")"),
                     .bytes_total = devices_->backend(d).device_bytes_total(),
                     .bytes_used = devices_->backend(d).device_bytes_used()});
    }
    return all;
  }
  int64_t device_bytes_total() const override {
    return Sum([](const Backend& backend) { return backend.device_bytes_total(); });
  }
  int64_t device_bytes_used() const override {
    return Sum([](const Backend& backend) { return backend.device_bytes_used(); });
  }
  int64_t host_rows_bytes_total() const override {
    return Sum([](const Backend& backend) { return backend.host_rows_bytes_total(); });
  }
  int64_t host_rows_bytes_used() const override {
    return Sum([](const Backend& backend) { return backend.host_rows_bytes_used(); });
  }

  absl::Status Health() const override {
    for (size_t d = 0; d < devices_->size(); ++d) {
      ABSL_RETURN_IF_ERROR(devices_->Named(d, devices_->backend(d).Health()));
    }
    return absl::OkStatus();
  }

 private:
  // The part of a reservation on one device.
  struct Share {
    size_t device = 0;
    int64_t free_bytes = 0;
    int64_t rows_max = 0;
  };

  // Returns how many devices hold a generation.
  int64_t DevicesFor(const RowFormat& format, int64_t rows_max) const {
    const auto all = static_cast<int64_t>(devices_->size());
    if (format.devices > 0) return std::min<int64_t>(format.devices, all);
    const int64_t row_bytes = int64_t{format.dim} * BytesPerElement(format.row_type);
    return rows_max <= spread_.one_device_bytes / row_bytes ? 1 : all;
  }

  // Returns rows per stripe: fewer for a small reservation, so that all of its devices take part.
  int64_t StripeRows(int64_t rows_max, int64_t devices) const {
    return std::clamp<int64_t>(rows_max / (kStripesOfDeviceMin * devices), 1, spread_.stripe_rows);
  }

  // Returns how many of `rows` fit into the free memory of the device.
  int64_t FittingRows(const Share& share, const RowFormat& format, int64_t rows) const {
    const auto fit = [&](int64_t count) {
      const auto bytes = devices_->backend(share.device).DeviceBytesOf(format, count);
      return bytes.ok() && *bytes <= share.free_bytes;
    };
    if (fit(rows)) return rows;
    int64_t fitting = 0;
    for (int64_t above = rows; above - fitting > 1;) {
      const int64_t middle = fitting + (above - fitting) / 2;
      (fit(middle) ? fitting : above) = middle;
    }
    return fitting;
  }

  // Returns even shares on the devices with the most free memory. Rows that do not fit there go to
  // the others; rows that fit nowhere stay on the first, which refuses them.
  std::vector<Share> SharesOf(const RowFormat& format, int64_t rows_max) const {
    const int64_t count = DevicesFor(format, rows_max);
    std::vector<Share> shares(devices_->size());
    for (size_t d = 0; d < shares.size(); ++d) {
      shares[d] = {.device = d, .free_bytes = devices_->FreeBytes(d)};
    }
    std::stable_sort(shares.begin(), shares.end(),
                     [](const Share& a, const Share& b) { return a.free_bytes > b.free_bytes; });
    int64_t left = rows_max;
    const auto take = [&](Share& share, int64_t rows) {
      share.rows_max = FittingRows(share, format, std::min(rows, left));
      left -= share.rows_max;
    };
    // The fullest device first: those after it have room for what does not fit there.
    const int64_t stripe_rows = StripeRows(rows_max, count);
    for (int64_t i = count; i > 0; --i) {
      const int64_t stripes = CeilDiv(CeilDiv(left, i), stripe_rows);
      take(shares[static_cast<size_t>(i - 1)], stripes * stripe_rows);
    }
    for (size_t i = 0; i < shares.size() && left > 0; ++i) {
      left += shares[i].rows_max;
      take(shares[i], left);
    }
    shares.front().rows_max += left;
    std::erase_if(shares, [](const Share& share) { return share.rows_max == 0; });
    return shares;
  }

  absl::Status CheckViews(absl::Span<const GenerationView> generations) const {
    for (const GenerationView& view : generations) {
      const auto* const planes = dynamic_cast<const MultiRowPlanes*>(view.planes);
      if (planes == nullptr || planes->devices() != devices_.get()) {
        return absl::InvalidArgumentError("a generation of another backend");
      }
    }
    return absl::OkStatus();
  }

  // Returns true if the search finds what a search of all devices would: the lists of the device
  // are then the answer.
  static bool IsWhole(const DeviceTask& task, size_t generations_count) {
    return task.views.size() == generations_count &&
           std::all_of(task.found.ranks.begin(), task.found.ranks.end(),
                       [](const auto& ranks) { return ranks.empty(); });
  }

  // The arguments of Search.
  struct Arguments {
    const RowFormat& format;
    absl::Span<const GenerationView> generations;
    const QueryTile& tile;
  };

  // Takes what the tasks will find, in `lists`, by device.
  static std::vector<DeviceLists> TakeFound(std::vector<DeviceTask>& tasks,
                                            const RankedLists* lists) {
    std::vector<DeviceLists> found;
    found.reserve(tasks.size());
    for (DeviceTask& task : tasks) {
      task.found.lists = &lists[task.device];
      found.push_back(std::move(task.found));
    }
    return found;
  }

  // Searches the devices at the same time and joins their lists. A query is joined as soon as every
  // device has its lists.
  absl::Status SearchTogether(const Arguments& arguments, std::vector<DeviceTask>& tasks,
                              RankedLists* best, ScanCost* cost) {
    const QueryTile& tile = arguments.tile;
    const auto queries = static_cast<int64_t>(tile.k.size());
    const MutexLock lock(search_mutex_);
    RankedLists* const lists = lists_.data();  // for the threads of the devices, under this lock
    // The next search of a device may need the memory.
    const absl::Cleanup drop = [lists, count = devices_->size()] {
      for (size_t d = 0; d < count; ++d) lists[d].DropFinished();
    };
    const std::vector<DeviceLists> found = TakeFound(tasks, lists);
    std::vector<std::atomic<size_t>> missing(tile.k.size());  // devices that work on the query
    for (std::atomic<size_t>& count : missing) count = tasks.size();
    const bool finishes = tile.finish != backend::Finish::kNone && queries >= kQueriesToFinishMin &&
                          info_.finished_rows_max > 0;
    FinishedMemory joined_rows;
    if (finishes) {
      joined_rows = FinishedMemory::Of(tile.k);
      best->Hold(joined_rows.memory, /*lends=*/true);
    }
    const auto join = [&](int64_t query) {
      const auto q = static_cast<size_t>(query);
      if (finishes) {
        JoinFinished(found, q, tile.k[q], joined_rows, best);
      } else {
        MergeDevices(found, q, tile.k[q], best);
      }
      return tile.answered ? tile.answered(query) : absl::OkStatus();
    };
    std::atomic<bool> failed = false;
    QueryTile part = tile;
    part.finish = finishes ? backend::Finish::kAll : backend::Finish::kNone;
    part.placed = nullptr;  // a device does not know the rows of the others
    part.cancelled = [&] { return failed || (tile.cancelled && tile.cancelled()); };
    part.answered = [&](int64_t query) {
      return missing[static_cast<size_t>(query)].fetch_sub(1) == 1 ? join(query) : absl::OkStatus();
    };
    std::atomic<size_t> taken = 0;
    pool_.Run(static_cast<int32_t>(std::max<size_t>(1, tasks.size())), [&](int32_t) {
      for (size_t i = taken++; i < tasks.size(); i = taken++) {
        DeviceTask& task = tasks[i];
        QueryTile own = part;
        const PartTermsOfQueries terms(tile.terms, arguments.generations,
                                       {task.device, found[i].generations});
        own.terms = terms.terms();
        own.views = task.views_of_queries;
        if (tile.host_work != nullptr) own.host_work = host_work_[task.device].get();
        task.status =
            devices_->backend(task.device)
                .Search(arguments.format, task.views, own, &lists[task.device], &task.cost);
        if (!task.status.ok()) failed = true;
      }
    });
    ABSL_RETURN_IF_ERROR(FirstError(tasks));
    AddCosts(tasks, cost);
    // Devices may report their queries early, or not.
    int64_t rows_count = 0;
    for (size_t q = 0; q < missing.size(); ++q) rows_count += missing[q] > 0 ? tile.k[q] : 0;
    const auto join_missing = [&](int64_t query) {
      return missing[static_cast<size_t>(query)] > 0 ? join(query) : absl::OkStatus();
    };
    if (tile.host_work != nullptr) {
      return tile.host_work->ParallelFor(queries, rows_count * kBytesPerRow, join_missing);
    }
    for (int64_t q = 0; q < queries; ++q) ABSL_RETURN_IF_ERROR(join_missing(q));
    return absl::OkStatus();
  }

  // Returns the error that made a search fail: the others were cancelled because of it.
  absl::Status FirstError(absl::Span<const DeviceTask> tasks) const {
    absl::Status first;
    for (const DeviceTask& task : tasks) {
      if (task.status.ok()) continue;
      if (first.ok() || absl::IsCancelled(first)) {
        first = devices_->Named(task.device, task.status);
      }
    }
    return first;
  }

  static void AddCosts(absl::Span<const DeviceTask> tasks, ScanCost* cost) {
    *cost = {};
    int64_t device_us = 0;
    int64_t queries_of_codes = 0;
    for (const DeviceTask& task : tasks) {
      *cost += task.cost;
      device_us = std::max(device_us, task.cost.device_us);
      queries_of_codes = std::max(queries_of_codes, task.cost.queries_of_codes);
    }
    // The devices work at the same time, on the same queries.
    cost->device_us = device_us;
    cost->queries_of_codes = queries_of_codes;
  }

  template <typename Bytes>
  int64_t Sum(const Bytes& bytes) const {
    int64_t sum = 0;
    for (size_t d = 0; d < devices_->size(); ++d) sum += bytes(devices_->backend(d));
    return sum;
  }

  const std::shared_ptr<const DeviceSet> devices_;
  const DeviceSpread spread_;
  backend::BackendInfo info_;
  Mutex search_mutex_;
  std::vector<RankedLists> lists_ ABSL_GUARDED_BY(search_mutex_);  // by device; reused
  ThreadPool pool_ ABSL_GUARDED_BY(search_mutex_);                 // one thread for each device
  // By device: a HostWork serves one caller at a time.
  std::vector<std::unique_ptr<HostWork>> host_work_;
};

}  // namespace

std::unique_ptr<backend::Backend> MakeMultiBackend(std::vector<NamedBackend> devices,
                                                   const DeviceSpread& spread) {
  CHECK(!devices.empty());
  return std::make_unique<MultiBackend>(std::make_shared<const DeviceSet>(std::move(devices)),
                                        spread);
}

}  // namespace nearfield::multi

#include "tests/testing/fake_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/backend/query_views.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/tombstone_words.h"
#include "engine/oracle/oracle.h"
#include "engine/score/element.h"
#include "tests/testing/fake_device_answers.h"

namespace nearfield::testing {

using backend::GenerationView;
using backend::QueryTile;
using backend::RankedLists;
using backend::RankedScore;
using backend::RowFormat;
using backend::RowPlanes;
using backend::ScanCost;
using backend::Tombstones;

void FakeDevice::FailAt(FakeCall call, int64_t nth, absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_[call] = {.nth = nth, .status = std::move(status)};
}

void FakeDevice::Lose() {
  const std::lock_guard<std::mutex> lock(mutex_);
  lost_ = true;
}

void FakeDevice::OnSearch(std::function<void()> hook) {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_search_ = std::move(hook);
}

void FakeDevice::OnCopy(std::function<void()> hook) {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_copy_ = std::move(hook);
}

void FakeDevice::CorruptAnswers(std::function<void(RankedLists*)> corrupt) {
  const std::lock_guard<std::mutex> lock(mutex_);
  corrupt_ = std::move(corrupt);
}

int64_t FakeDevice::bytes_used() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_used_;
}

int64_t FakeDevice::calls(FakeCall call) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

int64_t FakeDevice::rows_copied() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return rows_copied_;
}

absl::Status FakeDevice::Enter(FakeCall call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++calls_[call];
  if (lost_) return absl::UnavailableError("the fake device is lost");
  const auto found = faults_.find(call);
  if (found == faults_.end() || --found->second.nth > 0) return absl::OkStatus();
  absl::Status status = found->second.status;
  faults_.erase(found);
  return status;
}

absl::Status FakeDevice::Health() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lost_ ? absl::UnavailableError("the fake device is lost") : absl::OkStatus();
}

absl::Status FakeDevice::Take(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t bytes_free = options_.memory_bytes - bytes_used_;
  if (bytes > bytes_free) {
    return absl::ResourceExhaustedError(absl::StrCat("needs ", bytes, " bytes of device memory, ",
                                                     bytes_free, " of ", options_.memory_bytes,
                                                     " are free"));
  }
  bytes_used_ += bytes;
  return absl::OkStatus();
}

void FakeDevice::GiveBack(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_used_ -= bytes;
}

void FakeDevice::CountCopied(int64_t rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rows_copied_ += rows;
}

namespace {

int64_t RowBytes(const RowFormat& format) {
  return int64_t{format.dim} * BytesPerElement(format.row_type);
}

}  // namespace

class FakeRowPlanes final : public RowPlanes {
 public:
  FakeRowPlanes(std::shared_ptr<FakeDevice> device, const RowFormat& format, int64_t rows_max)
      : device_(std::move(device)),
        format_(format),
        row_bytes_(static_cast<size_t>(RowBytes(format))),
        bytes_(BytesFor(format, rows_max)) {
    const std::lock_guard<std::mutex> lock(device_->mutex_);
    device_->planes_.insert(this);
  }
  ~FakeRowPlanes() override {
    device_->GiveBack(bytes_);
    const std::lock_guard<std::mutex> lock(device_->mutex_);
    device_->planes_.erase(this);
  }

  bool FlipBit(absl::Span<const uint8_t> wanted, int64_t bit) {
    if (wanted.size() != row_bytes_) return false;
    for (size_t begin = 0; begin < rows_.size(); begin += row_bytes_) {
      if (std::memcmp(rows_.data() + begin, wanted.data(), row_bytes_) != 0) continue;
      rows_[begin + static_cast<size_t>(bit / 8)] ^= static_cast<uint8_t>(1u << (bit % 8));
      return true;
    }
    return false;
  }

  // Counts the row, its norm, its rank and its id, as a real device does.
  static int64_t BytesFor(const RowFormat& format, int64_t rows_count) {
    return rows_count * (RowBytes(format) + 8 + 4 + (format.numeric_ids ? 8 : 0));
  }

  absl::Status Append(const void* rows, int64_t rows_count) override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kAppend));
    const auto* const bytes = static_cast<const uint8_t*>(rows);
    rows_.insert(rows_.end(), bytes, bytes + static_cast<size_t>(rows_count) * row_bytes_);
    return absl::OkStatus();
  }

  absl::Status AppendFrom(const RowPlanes& source, absl::Span<const uint32_t> slots) override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kAppendFrom));
    device_->Call(device_->on_copy_);
    const auto& from = static_cast<const FakeRowPlanes&>(source);
    for (const uint32_t slot : slots) {
      rows_.insert(rows_.end(), from.row(slot), from.row(slot) + row_bytes_);
    }
    device_->CountCopied(static_cast<int64_t>(slots.size()));
    return absl::OkStatus();
  }

  absl::Status Seal(const backend::SealedOrder& order) override {
    const absl::Span<const uint32_t> ranks = order.ranks;
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kSeal));
    if (ranks.size() * row_bytes_ != rows_.size()) {
      return absl::InternalError(
          absl::StrCat(ranks.size(), " ranks for ", rows_.size(), " bytes of rows"));
    }
    ranks_.assign(ranks.begin(), ranks.end());
    if (order.ids.size() != (format_.numeric_ids ? ranks.size() : 0)) {
      return absl::InternalError(
          absl::StrCat(order.ids.size(), " ids for ", ranks.size(), " rows"));
    }
    ids_by_rank_.resize(order.ids.size());
    for (size_t slot = 0; slot < order.ids.size(); ++slot) {
      ids_by_rank_[ranks[slot]] = order.ids[slot];
    }
    const int64_t bytes_kept = BytesFor(format_, static_cast<int64_t>(ranks.size()));
    if (bytes_kept > bytes_) return absl::InternalError("more rows than reserved");
    device_->GiveBack(bytes_ - bytes_kept);
    bytes_ = bytes_kept;
    return absl::OkStatus();
  }

  absl::Status Read(absl::Span<const uint32_t> slots, void* rows) const override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kRead));
    auto* to = static_cast<uint8_t*>(rows);
    for (const uint32_t slot : slots) {
      std::memcpy(to, row(slot), row_bytes_);
      to += row_bytes_;
    }
    return absl::OkStatus();
  }

  absl::Status ReadRange(int64_t begin, int64_t rows_count, void* rows) const override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kRead));
    if (rows_count > 0) {
      std::memcpy(rows, row(static_cast<uint32_t>(begin)),
                  static_cast<size_t>(rows_count) * row_bytes_);
    }
    return absl::OkStatus();
  }

  int64_t rows_count() const override { return static_cast<int64_t>(ranks_.size()); }
  int64_t device_bytes() const override { return bytes_; }
  uint64_t id_at(uint32_t rank) const { return ids_by_rank_[rank]; }
  const uint8_t* row(uint32_t slot) const { return rows_.data() + slot * row_bytes_; }
  uint32_t rank(uint32_t slot) const { return ranks_[slot]; }

 private:
  const std::shared_ptr<FakeDevice> device_;
  const RowFormat format_;
  const size_t row_bytes_;
  int64_t bytes_;
  std::vector<uint8_t> rows_;
  std::vector<uint32_t> ranks_;
  std::vector<uint64_t> ids_by_rank_;
};

bool FakeDevice::FlipResidentBit(absl::Span<const uint8_t> row, int64_t bit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (FakeRowPlanes* planes : planes_) {
    if (planes->FlipBit(row, bit)) return true;
  }
  return false;
}

class FakeTombstones final : public Tombstones {
 public:
  FakeTombstones(std::shared_ptr<FakeDevice> device, std::vector<uint64_t> words)
      : device_(std::move(device)), words_(std::move(words)) {}
  ~FakeTombstones() override { device_->GiveBack(BytesFor(words_)); }

  static int64_t BytesFor(const std::vector<uint64_t>& words) {
    return static_cast<int64_t>(words.size() * sizeof(uint64_t));
  }
  absl::Span<const uint64_t> words() const override { return words_; }

 private:
  const std::shared_ptr<FakeDevice> device_;
  const std::vector<uint64_t> words_;
};

namespace {

// Scores every live row, sorts all of them, keeps k.
std::vector<RankedScore> SearchGeneration(const RowFormat& format, const GenerationView& view,
                                          absl::Span<const float> query, int32_t k) {
  const auto& planes = static_cast<const FakeRowPlanes&>(*view.planes);
  std::vector<RankedScore> best;
  if (view.rows_live == 0) return best;
  for (int64_t slot = 0; slot < planes.rows_count(); ++slot) {
    const auto place = static_cast<uint32_t>(slot);
    if (corpus::IsDeleted(view.tombstones, place)) continue;
    best.push_back(
        {.score = oracle::Score(format.metric, format.row_type, query, planes.row(place)),
         .rank = planes.rank(place)});
  }
  std::sort(best.begin(), best.end(), [](const RankedScore& a, const RankedScore& b) {
    return a.score != b.score ? a.score > b.score : a.rank < b.rank;
  });
  if (best.size() > static_cast<size_t>(k)) best.resize(static_cast<size_t>(k));
  return best;
}

uint64_t IdOfRow(const RowPlanes& planes, uint32_t rank) {
  return static_cast<const FakeRowPlanes&>(planes).id_at(rank);
}

}  // namespace

class FakeBackend final : public backend::Backend {
 public:
  explicit FakeBackend(std::shared_ptr<FakeDevice> device) : device_(std::move(device)) {
    info_.kind = device_->options_.kind;
    info_.device_name = "a fake";
    info_.k_max = device_->options_.k_max;
    info_.batch_max = device_->options_.batch_max;
    info_.scan_dim_max = device_->options_.scan_dim_max;
    info_.row_terms = device_->options_.row_terms;
    info_.read_bytes_per_second = device_->options_.read_bytes_per_second;
    info_.finished_rows_max = device_->options_.finished_rows_max;
  }

  const backend::BackendInfo& info() const override { return info_; }

  absl::StatusOr<int64_t> DeviceBytesOf(const RowFormat& format, int64_t rows_max) const override {
    return FakeRowPlanes::BytesFor(format, rows_max);
  }

  absl::StatusOr<std::unique_ptr<RowPlanes>> Reserve(const RowFormat& format,
                                                     int64_t rows_max) override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kReserve));
    ABSL_RETURN_IF_ERROR(device_->Take(FakeRowPlanes::BytesFor(format, rows_max)));
    return std::unique_ptr<RowPlanes>(new FakeRowPlanes(device_, format, rows_max));
  }

  absl::StatusOr<std::unique_ptr<Tombstones>> MakeTombstones(const RowPlanes& /*planes*/,
                                                             std::vector<uint64_t> words) override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kMakeTombstones));
    ABSL_RETURN_IF_ERROR(device_->Take(FakeTombstones::BytesFor(words)));
    return std::unique_ptr<Tombstones>(new FakeTombstones(device_, std::move(words)));
  }

  absl::Status Search(const RowFormat& format, absl::Span<const GenerationView> generations,
                      const QueryTile& tile, RankedLists* best, ScanCost* cost) override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kSearch));
    if (tile.k.size() > static_cast<size_t>(info_.batch_max)) {
      return absl::InternalError("more queries than batch_max");
    }
    const auto dim = static_cast<size_t>(format.dim);
    best->Reset(tile.k, generations.size());
    for (size_t g = 0; g < generations.size(); ++g) {
      for (size_t q = 0; q < tile.k.size(); ++q) {
        if (tile.cancelled && tile.cancelled()) return absl::CancelledError("cancelled");
        const GenerationView& view = backend::ViewsOf(generations, tile, q)[g];
        const std::vector<RankedScore> found =
            SearchGeneration(format, view, {tile.queries + q * dim, dim}, tile.k[q]);
        std::copy(found.begin(), found.end(), best->Resize(q, g, found.size()).begin());
        cost->candidates += view.rows_live;
      }
      cost->bytes_read += RowBytes(format) * generations[g].planes->rows_count();
      if (g == 0) device_->Call(device_->on_search_);
    }
    cost->device_us += device_->options_.search_us;
    if (format.scan == ScanPrecision::kInt8) {
      cost->queries_of_codes += static_cast<int64_t>(tile.k.size());
    }
    if (tile.finish != backend::Finish::kNone && info_.finished_rows_max > 0) {
      ABSL_RETURN_IF_ERROR(FinishAll(generations, tile, device_->options_, IdOfRow, best));
    }
    device_->Call(device_->corrupt_, best);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(int64_t bytes) override {
    ABSL_RETURN_IF_ERROR(device_->Take(bytes));
    return std::unique_ptr<DeviceMemory>(new FakeDeviceMemory(device_, bytes));
  }

  absl::Status SearchOnDevice(const RowFormat& format, absl::Span<const GenerationView> generations,
                              const backend::DeviceTile& tile, backend::QueryFault* fault,
                              ScanCost* cost) override {
    ABSL_RETURN_IF_ERROR(device_->Enter(FakeCall::kSearchOnDevice));
    std::vector<float> vectors;
    const auto dim = static_cast<size_t>(format.dim);
    for (size_t i = 0; i < static_cast<size_t>(tile.queries_count) * dim; ++i) {
      vectors.push_back(score::ElementAt(tile.query_type, tile.queries, i));
    }
    for (int64_t q = 0; q < tile.queries_count; ++q) {
      const absl::Span<const float> query(vectors.data() + static_cast<size_t>(q) * dim, dim);
      if (const std::optional<int32_t> dimension = FaultOf(format.metric, query)) {
        *fault = {.query = q, .dimension = *dimension};
        return absl::InvalidArgumentError("a query is not valid");
      }
    }
    RankedLists lists;
    const std::vector<int32_t> k(static_cast<size_t>(tile.queries_count), tile.k);
    ABSL_RETURN_IF_ERROR(Search(format, generations,
                                {.queries = vectors.data(), .k = k, .cancelled = tile.cancelled},
                                &lists, cost));
    for (size_t q = 0; q < k.size(); ++q) WriteAnswer(generations, lists, q, tile, IdOfRow, q);
    return absl::OkStatus();
  }

  int64_t device_bytes_total() const override { return device_->options_.memory_bytes; }
  int64_t host_rows_bytes_total() const override { return device_->options_.host_rows_bytes; }
  int64_t host_rows_bytes_used() const override { return device_->options_.host_rows_bytes_used; }
  int64_t device_bytes_used() const override { return device_->bytes_used(); }
  absl::Status Health() const override { return device_->Health(); }

 private:
  const std::shared_ptr<FakeDevice> device_;
  backend::BackendInfo info_;
};

std::unique_ptr<backend::Backend> MakeFakeBackend(std::shared_ptr<FakeDevice> device) {
  return std::make_unique<FakeBackend>(std::move(device));
}

}  // namespace nearfield::testing

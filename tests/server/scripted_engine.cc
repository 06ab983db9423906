#include "tests/server/scripted_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "tests/server/scripted_rows.h"

namespace nearfield::server {

namespace {

using Script = std::shared_ptr<EngineScript>;

absl::Status Lost() { return absl::UnavailableError("the device is lost: scripted"); }

absl::Status CheckCopied(int64_t bytes, const RowParts& parts) {
  if (parts.bytes_max == 0 || bytes <= parts.bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("scripted: ", bytes, " bytes to copy, the limit is ", parts.bytes_max));
}

class ScriptedEpoch final : public PinnedEpoch {
 public:
  ScriptedEpoch(uint64_t epoch, int64_t rows_count) : epoch_(epoch), rows_count_(rows_count) {}
  uint64_t epoch() const override { return epoch_; }
  int64_t rows_count() const override { return rows_count_; }

 private:
  const uint64_t epoch_;
  const int64_t rows_count_;
};

class ScriptedCollection final : public Collection,
                                 public std::enable_shared_from_this<ScriptedCollection> {
 public:
  ScriptedCollection(CollectionSpec spec, Script script, uint64_t epoch)
      : spec_(spec), script_(std::move(script)), rows_(spec.id_type), epoch_(epoch) {
    Show();
  }
  ~ScriptedCollection() override { script_->device_bytes_used -= rows_.ids.size() * row_bytes(); }

  int64_t row_bytes() const { return int64_t{spec_.dim} * BytesPerElement(spec_.row_type); }
  const CollectionSpec& spec() const override { return spec_; }
  CollectionStats Stats() const override {
    const std::lock_guard lock(mutex_);
    return {.epoch = epoch_,
            .rows_count = rows_.ids.size(),
            .generations_count = 1,
            .scan = ScanPrecision::kInt8,
            .device_bytes = rows_.ids.size() * row_bytes(),
            .host_bytes = rows_.payloads.value_bytes()};
  }
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) override;
  using Collection::Delete;
  absl::StatusOr<DeleteResult> Delete(const IdColumn& ids,
                                      const CommitHook& before_visible) override;
  // No filter chooses a row, because the rows have no ordinals.
  absl::StatusOr<DeleteResult> DeleteRows(const RowFilter&, const CommitHook&) override {
    return DeleteResult{.epoch = epoch()};
  }
  void ReleaseOrdinals(uint32_t /*first*/, int64_t /*rows_count*/) noexcept override {}
  absl::StatusOr<RowFilter> LiveRows(const PinnedEpoch*) const override { return RowFilter{}; }
  absl::StatusOr<RowFilter> RowsWithIds(const PinnedEpoch*, const IdColumn&) const override {
    script_->filter_gate.Pass();
    return RowFilter{};
  }
  absl::StatusOr<int64_t> CountRows(const PinnedEpoch*, const RowFilter&) const override {
    return 0;
  }
  std::shared_ptr<const PinnedEpoch> PinEpoch() const override {
    // Like a real collection, do not take the lock that a running change holds.
    ++script_->pins;
    const std::lock_guard lock(shown_mutex_);
    return shown_;
  }
  PinnedEpochs ReachableEpochs() const override { return {PinEpoch()}; }
  HeldBytes BytesHeldBy(const PinnedEpochs& /*epochs*/) const override { return {}; }
  absl::StatusOr<CompactionResult> Compact(const CompactionOptions&) override {
    return CompactionResult{.done = true};
  }
  absl::StatusOr<FetchResult> Fetch(const IdColumn& ids, RowParts parts) const override;
  uint32_t TakeOrdinals(int64_t count) {
    return ordinals_taken_.fetch_add(static_cast<uint32_t>(count));
  }
  absl::StatusOr<CommitResult> Add(const RowStore& added, uint32_t first_ordinal,
                                   const CommitHook& before_visible);
  absl::StatusOr<Neighbors> Search(const Query& query, RowParts parts) const;
  // Requires: mutex_.
  void Show() {
    const std::lock_guard lock(shown_mutex_);
    shown_ = std::make_shared<ScriptedEpoch>(epoch_, rows_.ids.size());
  }
  uint64_t epoch() const {
    const std::lock_guard lock(mutex_);
    return epoch_;
  }

 private:
  const CollectionSpec spec_;
  const Script script_;
  mutable std::mutex mutex_;
  mutable std::mutex shown_mutex_;
  std::shared_ptr<const PinnedEpoch> shown_;
  std::atomic<uint32_t> ordinals_taken_{0};
  RowStore rows_;
  uint64_t epoch_;
};

class ScriptedUpload final : public Upload {
 public:
  ScriptedUpload(std::shared_ptr<ScriptedCollection> collection, Script script,
                 int64_t reserved_bytes)
      : collection_(std::move(collection)),
        script_(std::move(script)),
        reserved_bytes_(reserved_bytes),
        rows_(collection_->spec().id_type) {
    ++script_->uploads_open;
  }
  ~ScriptedUpload() override {
    script_->device_bytes_used -= reserved_bytes_;
    --script_->uploads_open;
  }

  absl::Status Append(const UploadBlock& block) override {
    script_->append_gate.Pass();
    if (script_->device_lost) return Lost();
    RowStore added(collection_->spec().id_type);
    added.Append(block, collection_->spec());
    for (size_t row = 0; row < added.values.size(); ++row) {
      for (const float value : added.values[row]) {
        if (!std::isfinite(value))
          return absl::InvalidArgumentError(absl::StrCat("row ", row, " is not finite"));
      }
    }
    rows_.Append(block, collection_->spec());
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> TakeOrdinals() override {
    return first_ordinal_.emplace(collection_->TakeOrdinals(rows_.ids.size()));
  }

  using Upload::Commit;
  absl::StatusOr<CommitResult> Commit(const CommitHook& before_visible) override {
    script_->commit_gate.Pass();
    const uint32_t first = first_ordinal_ ? *first_ordinal_ : *TakeOrdinals();
    return script_->device_lost ? Lost() : collection_->Add(rows_, first, before_visible);
  }

 private:
  const std::shared_ptr<ScriptedCollection> collection_;
  const Script script_;
  const int64_t reserved_bytes_;
  RowStore rows_;
  std::optional<uint32_t> first_ordinal_;
};

absl::StatusOr<std::unique_ptr<Upload>> ScriptedCollection::BeginUpload(
    const UploadReservation& reservation) {
  const int64_t free = script_->device_bytes_total - script_->device_bytes_used;
  if (reservation.rows_max > free / row_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat("the upload needs ", reservation.rows_max,
                                                     " rows of ", row_bytes(), " bytes, free are ",
                                                     free));
  }
  const int64_t bytes = reservation.rows_max * row_bytes();
  script_->device_bytes_used += bytes;
  return std::make_unique<ScriptedUpload>(shared_from_this(), script_, bytes);
}

absl::StatusOr<CommitResult> ScriptedCollection::Add(const RowStore& added, uint32_t first_ordinal,
                                                     const CommitHook& before_visible) {
  const std::lock_guard lock(mutex_);
  for (int64_t i = 0; i < added.ids.size(); ++i) {
    bool twice = rows_.IndexOf(added.ids, i) >= 0;
    for (int64_t j = 0; j < i; ++j) twice = twice || added.ids.Compare(i, added.ids, j) == 0;
    if (twice)
      return absl::AlreadyExistsError(absl::StrCat("the id of row ", i, " is there already"));
  }
  const IdColumn none(spec_.id_type);
  if (before_visible && added.ids.size() > 0) {
    const absl::Status allowed = before_visible({.epoch = epoch_ + 1,
                                                 .rows_count = added.ids.size(),
                                                 .first_ordinal = first_ordinal,
                                                 .ids_removed = &none});
    if (!allowed.ok()) return allowed;
  }
  for (int64_t i = 0; i < added.ids.size(); ++i) rows_.AppendFrom(added, i);
  script_->device_bytes_used += added.ids.size() * row_bytes();
  if (added.ids.size() > 0) ++epoch_;
  Show();
  return CommitResult{.epoch = epoch_, .rows_count = added.ids.size()};
}

absl::StatusOr<DeleteResult> ScriptedCollection::Delete(const IdColumn& ids,
                                                        const CommitHook& before_visible) {
  const std::lock_guard lock(mutex_);
  if (script_->device_lost) return Lost();
  RowStore kept(spec_.id_type);
  IdColumn gone(spec_.id_type);
  for (int64_t row = 0; row < rows_.ids.size(); ++row) {
    bool doomed = false;
    for (int64_t i = 0; i < ids.size(); ++i) doomed = doomed || rows_.ids.Compare(row, ids, i) == 0;
    if (doomed) {
      gone.AppendFrom(rows_.ids, row);
    } else {
      kept.AppendFrom(rows_, row);
    }
  }
  if (before_visible && gone.size() > 0) {
    const absl::Status allowed = before_visible({.epoch = epoch_ + 1, .ids_removed = &gone});
    if (!allowed.ok()) return allowed;
  }
  const int64_t deleted = rows_.ids.size() - kept.ids.size();
  script_->device_bytes_used -= deleted * row_bytes();
  if (deleted > 0) ++epoch_;
  rows_ = std::move(kept);
  Show();
  return DeleteResult{.epoch = epoch_, .rows_deleted = deleted};
}

absl::StatusOr<FetchResult> ScriptedCollection::Fetch(const IdColumn& ids, RowParts parts) const {
  const std::lock_guard lock(mutex_);
  if (script_->device_lost) return Lost();
  RowStore found(spec_.id_type);
  for (int64_t i = 0; i < ids.size(); ++i) {
    if (const int64_t row = rows_.IndexOf(ids, i); row >= 0) found.AppendFrom(rows_, row);
  }
  FetchResult result;
  result.epoch = epoch_;
  result.ids = std::move(found.ids);
  if (parts.vectors) result.rows = std::move(found.bytes);
  if (parts.payloads) result.payloads = std::move(found.payloads);
  ABSL_RETURN_IF_ERROR(
      CheckCopied(static_cast<int64_t>(result.rows.size()) + result.payloads.value_bytes(), parts));
  return result;
}

float PlainScore(Metric metric, const std::vector<float>& query, const std::vector<float>& row) {
  double sum = 0;
  double query_square = 0;
  double row_square = 0;
  for (size_t d = 0; d < row.size(); ++d) {
    const double q = query[d];
    const double x = row[d];
    sum += metric == Metric::kL2 ? -(q - x) * (q - x) : q * x;
    query_square += q * q;
    row_square += x * x;
  }
  if (metric == Metric::kCosine) sum /= std::sqrt(query_square) * std::sqrt(row_square);
  return static_cast<float>(sum);
}

absl::StatusOr<Neighbors> ScriptedCollection::Search(const Query& query, RowParts parts) const {
  const std::lock_guard lock(mutex_);
  std::vector<float> vector(query.vector.begin(), query.vector.end());
  int64_t own_row = -1;
  if (query.row_id.has_value()) {
    IdColumn wanted(spec_.id_type);
    wanted.Append(*query.row_id);
    own_row = rows_.IndexOf(wanted, 0);
    if (own_row < 0) return absl::NotFoundError("row_id: no such row");
    vector = rows_.values[static_cast<size_t>(own_row)];
  }
  std::vector<float> scores;
  for (const std::vector<float>& row : rows_.values)
    scores.push_back(PlainScore(spec_.metric, vector, row));
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const float x = scores[static_cast<size_t>(a)];
    const float y = scores[static_cast<size_t>(b)];
    return x != y ? x > y : rows_.ids.Compare(a, rows_.ids, b) < 0;
  });
  RowStore best(spec_.id_type);
  Neighbors neighbors;
  for (const int64_t row : order) {
    if (row == own_row || best.ids.size() == query.k) continue;
    best.AppendFrom(rows_, row);
    neighbors.scores.push_back(scores[static_cast<size_t>(row)]);
  }
  neighbors.ids = std::move(best.ids);
  if (parts.vectors) neighbors.rows = std::move(best.bytes);
  if (parts.payloads) neighbors.payloads = std::move(best.payloads);
  return neighbors;
}

class ScriptedEngine final : public Engine {
 public:
  explicit ScriptedEngine(Script script) : script_(std::move(script)) {}

  EngineInfo Info() const override {
    return {.backend = BackendKind::kCpu,
            .device_name = "scripted",
            .note = "for tests",
            .k_max = kKMax,
            .batch_max = 1024,
            .read_bytes_per_second = static_cast<double>(script_->read_bytes_per_second)};
  }
  Capacity GetCapacity() const override {
    return {.device_bytes_total = script_->device_bytes_total,
            .device_bytes_used = script_->device_bytes_used,
            .host_bytes_total = 1 << 20,
            .host_bytes_used = 0,
            .host_rows_bytes_total = 1 << 22,
            .host_rows_bytes_used = 1 << 21};
  }
  absl::Status Health() const override { return script_->device_lost ? Lost() : absl::OkStatus(); }

  using Engine::CreateCollection;
  absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec,
                                                               uint64_t epoch) override {
    return std::make_shared<ScriptedCollection>(spec, script_, epoch);
  }

  absl::StatusOr<SearchResult> Search(const Collection& collection,
                                      const SearchBatch& batch) override {
    const int64_t number = ++script_->searches;
    script_->NoteBatch(static_cast<int64_t>(batch.queries.size()));
    const bool deaf = script_->deaf_searches;
    script_->search_gate.Pass(deaf ? nullptr : batch.cancelled);
    if (script_->lose_at_search == number) script_->device_lost = true;
    if (script_->device_lost) return Lost();
    if (!deaf && batch.cancelled && batch.cancelled()) {
      ++script_->cancelled_searches;
      return absl::CancelledError("cancelled");
    }
    const auto& scripted = static_cast<const ScriptedCollection&>(collection);
    SearchResult result;
    result.epoch = scripted.epoch();
    result.cost.device_us = 7;
    int64_t copied = 0;
    result.cost.rows_scanned = scripted.Stats().rows_count;
    result.cost.bytes_read = scripted.Stats().device_bytes;
    if (scripted.spec().scan == ScanChoice::kInt8) result.cost.precision = ScanPrecision::kInt8;
    result.cost.escalations = {.tighter = script_->escalations_tighter,
                               .canonical = script_->escalations_canonical};
    for (const Query& query : batch.queries) {
      ABSL_ASSIGN_OR_RETURN(Neighbors neighbors, scripted.Search(query, batch.parts));
      copied += static_cast<int64_t>(neighbors.rows.size()) + neighbors.payloads.value_bytes();
      script_->Corrupt(&neighbors);
      result.queries.push_back(std::move(neighbors));
    }
    ABSL_RETURN_IF_ERROR(CheckCopied(copied, batch.parts));
    return result;
  }

  absl::StatusOr<VerifyResult> Verify(const Collection& collection, const Claim& claim,
                                      const std::function<bool()>& cancelled) override {
    script_->verify_gate.Pass(cancelled);
    if (cancelled && cancelled()) return absl::CancelledError("cancelled");
    const auto& scripted = static_cast<const ScriptedCollection&>(collection);
    if (claim.epoch != scripted.epoch()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the claim is of epoch ", claim.epoch, ", the collection is at ", scripted.epoch()));
    }
    VerifyResult result;
    ABSL_ASSIGN_OR_RETURN(result.expected, scripted.Search(claim.query, RowParts{}));
    result.epoch = claim.epoch;
    result.rows_checked = scripted.Stats().rows_count;
    result.equal = claim.neighbors.scores == result.expected.scores &&
                   claim.neighbors.ids.size() == result.expected.ids.size();
    for (int64_t i = 0; result.equal && i < claim.neighbors.ids.size(); ++i) {
      result.equal = claim.neighbors.ids.Compare(i, result.expected.ids, i) == 0;
    }
    if (!result.equal) {
      result.first_difference = 0;
      result.explanation = "differs";
    }
    return result;
  }

  absl::Status SelfTest(uint64_t /*seed*/) override {
    script_->self_test_gate.Pass();
    if (script_->self_test_differs) return absl::DataLossError("a scripted difference");
    return Health();
  }

 private:
  const Script script_;
};

}  // namespace

std::unique_ptr<Engine> MakeScriptedEngine(std::shared_ptr<EngineScript> script) {
  return std::make_unique<ScriptedEngine>(std::move(script));
}

}  // namespace nearfield::server

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check_range.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/convert/cursor.h"
#include "server/convert/filter.h"
#include "server/convert/retrieval.h"
#include "server/rpc/await_epoch.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/kept_epoch.h"
#include "server/rpc/scan_rows.h"
#include "server/rpc/streams.h"

namespace nearfield::server {
namespace {

// Size of a reply. Larger ones would not be faster, and each is held twice until it is written.
constexpr int64_t kReplyBytesMax = 1 << 20;
constexpr int64_t kLargerReply = 4;  // times the one that was too small for its first row
// Rows that one turn on the read pool looks at, so that a scan that skips many rows does not keep
// a thread: about 20 ms.
constexpr int64_t kRowsExaminedMax = 1 << 20;

// Reads one reply in each turn on the read pool, and takes the next turn after the reply was
// written. Between turns it holds the epoch only through the cache of pinned epochs, which may drop
// it to free its memory.
class Scan final : public ActiveCall {
 public:
  Scan(ServerState* state, ScanReplies* context, std::shared_ptr<const pb::ScanRequest> request)
      : context_(context), request_(std::move(request)), call_(state, context, "Scan") {
    const absl::Status started = Start();
    if (!started.ok()) call_.Finish(started);
  }

  void OnWriteDone(bool ok) override {
    call_.ReplyTaken();
    call_.holds.reply.Resize(0);
    if (!ok) return call_.Finish(absl::CancelledError("the caller does not read any more"));
    Next();
  }
  void OnCancel() override { call_.cancelled()->store(true); }

 private:
  absl::Status Start() {
    call_.record.collection = request_->collection();
    ABSL_ASSIGN_OR_RETURN(core_, call_.Enter());
    ABSL_ASSIGN_OR_RETURN(named_, call_.Find(*core_, request_->collection()));
    if (request_->has_incarnation()) {
      ABSL_RETURN_IF_ERROR(CheckIncarnation(*named_, request_->incarnation()));
    }
    if (request_->has_rows_max()) left_ = request_->rows_max();
    if (left_ < 1) return MustBe("rows_max", "0", "at least 1");
    const auto schema = Schema();
    ABSL_RETURN_IF_ERROR(rows_.Begin(*request_, named_.get(), *schema, call_.state()->limits()));
    ABSL_RETURN_IF_ERROR(SetFilter(*schema));
    ABSL_RETURN_IF_ERROR(CheckEpochs(EpochsOf(*request_)));
    if (request_->has_cursor()) ABSL_RETURN_IF_ERROR(BeginAtCursor());
    // The epoch of a cursor was reached already, and a larger min_epoch was refused.
    if (!request_->has_min_epoch() || request_->has_cursor()) return Begin();
    AwaitEpoch(core_, call_, named_, request_->min_epoch(), [this](absl::Status status) {
      if (status.ok()) status = Begin();
      if (!status.ok()) call_.Finish(status);
    });
    return absl::OkStatus();
  }

  // Returns the attributes at the epoch that the scan reads. BeginAtCursor refuses a bad cursor.
  std::shared_ptr<const AttributeSchema> Schema() const {
    if (!request_->has_cursor()) return named_->attributes->SchemaAt(EpochsOf(*request_).at_epoch);
    const absl::StatusOr<ScanCursor> cursor =
        DecodeScanCursor(request_->cursor(), named_->collection->spec().id_type);
    return cursor.ok() ? named_->attributes->SchemaAt(cursor->epoch)
                       : named_->attributes->SchemaAt();
  }

  absl::Status SetFilter(const AttributeSchema& schema) {
    const GivenFilter given = FilterOf(*request_);
    if (given.given()) {
      ABSL_ASSIGN_OR_RETURN(filter_hold_,
                            call_.state()->ledger().requests.Reserve(call_.caller(), 0));
      ABSL_ASSIGN_OR_RETURN(filter_, HeldFilter(*named_, schema, given, &filter_hold_));
    }
    fingerprint_ = ScanFingerprint(named_->incarnation, filter_ ? filter_->canonical() : "");
    return absl::OkStatus();
  }

  absl::Status BeginAtCursor() {
    ABSL_ASSIGN_OR_RETURN(const ScanCursor cursor,
                          DecodeScanCursor(request_->cursor(), named_->collection->spec().id_type));
    if (cursor.scan_fingerprint != fingerprint_) {
      return ArgumentError(
          "cursor",
          "of another scan: collection and filter must be those of the first one, and a collection "
          "that was created again or restored is another one");
    }
    ABSL_RETURN_IF_ERROR(CheckCursorEpoch(EpochsOf(*request_), cursor.epoch));
    epoch_ = cursor.epoch;
    position_ = cursor.position;
    after_ = cursor.last;
    return absl::OkStatus();
  }

  // Continues after the requested epoch is reached. A filter is evaluated on the pool of the
  // filters.
  absl::Status Begin() {
    if (!filter_.has_value()) {
      ABSL_RETURN_IF_ERROR(SetRows());
      return PostRead();
    }
    return core_->filters.Post(
        [this] {
          status_ = call_.DeadStatus();
          if (status_.ok()) status_ = SetRows();
        },
        [this] { status_.ok() ? Next() : call_.Finish(status_); });
  }

  // Pins the epoch, and sets the rows of the scan.
  absl::Status SetRows() {
    if (epoch_.has_value()) {
      ABSL_ASSIGN_OR_RETURN(at_, KeptEpoch());
    } else {
      ABSL_ASSIGN_OR_RETURN(at_,
                            FindWanted({*core_, call_.caller(), *named_}, EpochsOf(*request_)));
    }
    epoch_ = at_->epoch();
    rows_count_ = at_->rows_count();
    if (filter_.has_value()) {
      ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen, ChooseRows(*named_, *filter_, at_, call_));
      chosen_ = chosen.rows;
      ABSL_ASSIGN_OR_RETURN(rows_count_, named_->collection->CountRows(at_.get(), *chosen_));
    }
    if (!after_.has_value() || position_ < rows_count_) return absl::OkStatus();
    return ArgumentError("cursor",
                         absl::StrCat("damaged: it is after row ", position_, " of ", rows_count_));
  }

  absl::StatusOr<std::shared_ptr<const PinnedEpoch>> KeptEpoch() {
    return FindKept({*core_, call_.caller(), *named_}, request_->has_cursor() ? "cursor" : "scan",
                    *epoch_);
  }

  // Takes a turn on the read pool. After OK, the call may end at any time.
  absl::Status PostRead() {
    return core_->reads.Post([this] { status_ = Read(); }, [this] { Send(); });
  }
  void Next() {
    const absl::Status posted = CatchOutOfMemory([this] { return PostRead(); });
    if (!posted.ok()) call_.Finish(posted);
  }

  // Makes the next reply. It may have no row, if the turn has only skipped rows.
  absl::Status Read() {
    response_.Clear();
    ABSL_RETURN_IF_ERROR(call_.DeadStatus());
    ABSL_RETURN_IF_ERROR(call_.CheckKey());
    if (call_.state()->distrusted()) return ServerState::DistrustStatus();
    if (named_->dropped.load()) {
      return absl::NotFoundError(absl::StrCat("collection: ", named_->name, " was dropped"));
    }
    std::shared_ptr<const PinnedEpoch> at = std::move(at_);
    if (at == nullptr) {
      ABSL_ASSIGN_OR_RETURN(at, KeptEpoch());
    }
    const absl::StatusOr<OrderedRows> rows = ReadRows(*at);
    ABSL_RETURN_IF_ERROR(WithAdvice(rows.status(), kScanAdvice));
    ABSL_RETURN_IF_ERROR(SetReply(*rows));
    if (!response_.has_next_cursor()) return absl::OkStatus();
    return core_->pinned_snapshots.Keep(call_.caller(), named_->collection, std::move(at), &hold_);
  }

  // Reserves a reply and reads rows that fit into it. A row that is larger than a usual reply gets
  // a larger one of its own.
  absl::StatusOr<OrderedRows> ReadRows(const PinnedEpoch& at) {
    OrderedRead read = {.at = &at,
                        .after = after_,
                        .filter = chosen_.get(),
                        .rows_max = static_cast<int64_t>(std::min<uint64_t>(left_, kRowsMax)),
                        .rows_examined_max = kRowsExaminedMax};
    const int64_t bytes_max = call_.state()->limits().response_bytes_max;
    int64_t bytes = std::min(kReplyBytesMax, bytes_max);
    while (true) {
      call_.holds.reply = {};
      ABSL_ASSIGN_OR_RETURN(call_.holds.reply,
                            call_.state()->ledger().replies.Reserve(call_.caller(), bytes));
      absl::StatusOr<OrderedRows> rows = rows_.Read(read, bytes);
      if (!absl::IsResourceExhausted(rows.status()) || bytes == bytes_max) return rows;
      read.rows_max = 1;
      bytes = std::min(kLargerReply * bytes, bytes_max);
    }
  }

  // Moves past `rows` and makes the message of them.
  absl::Status SetReply(const OrderedRows& rows) {
    const int64_t count = rows.found.ids.size();
    if (rows.last.has_value()) after_ = rows.last;
    position_ += count;
    left_ -= static_cast<uint64_t>(count);
    const bool follows = !rows.ended && position_ < rows_count_;
    ended_ = !follows || left_ == 0;
    rows_.ToProto(rows, &response_);
    response_.set_incarnation(named_->incarnation);
    response_.set_rows_count(static_cast<uint64_t>(rows_count_));
    if (follows) {
      response_.set_next_cursor(EncodeScanCursor({.epoch = *epoch_,
                                                  .position = position_,
                                                  .scan_fingerprint = fingerprint_,
                                                  .last = *after_}));
    }
    rows_sent_ = count;
    const auto bytes = static_cast<int64_t>(response_.ByteSizeLong());
    call_.holds.reply.Resize(std::max(bytes, rows_.held_bytes()));
    return CheckReplyBytes(bytes, call_.state()->limits(), kScanAdvice);
  }

  void Send() {
    if (!status_.ok()) {
      response_.Clear();
      call_.holds.reply.Resize(0);
      return call_.Finish(status_);
    }
    if (rows_sent_ == 0 && !ended_) return Next();
    call_.record.rows += rows_sent_;
    if (ended_) return context_->WriteAndFinish(response_, call_.Close(status_));
    call_.WatchReply();
    context_->Write(response_);
  }

  ScanReplies* const context_;
  const std::shared_ptr<const pb::ScanRequest> request_;  // keeps its reservation
  Call call_;
  Core* core_ = nullptr;
  std::shared_ptr<NamedCollection> named_;
  std::optional<Filter> filter_;
  ByteAccount::Hold filter_hold_;  // for filter_
  uint64_t fingerprint_ = 0;
  ScanRows rows_;
  std::optional<uint64_t> epoch_;
  std::shared_ptr<const PinnedEpoch> at_;    // until the first turn
  std::shared_ptr<const RowFilter> chosen_;  // by filter_; null: all
  int64_t rows_count_ = 0;                   // of the whole scan
  int64_t position_ = 0;                     // rows of the scan that were read
  std::optional<Id> after_;
  uint64_t left_ = UINT64_MAX;  // maximum rows to send
  EpochHold hold_;
  absl::Status status_;
  pb::ScanResponse response_;
  int64_t rows_sent_ = 0;  // in response_
  bool ended_ = false;     // response_ is the last one
};

}  // namespace

ActiveCallPtr StartScan(ServerState* state, ScanReplies* context,
                        std::shared_ptr<const pb::ScanRequest> request) {
  return std::make_shared<Scan>(state, context, std::move(request));
}

}  // namespace nearfield::server

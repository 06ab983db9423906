#include "server/rpc/streams.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/convert/common.h"
#include "server/convert/cursor.h"
#include "server/rpc/search_call.h"

namespace nearfield::server {
namespace {

// Adds "search." to the field that an error names, because the search is a field of the request.
absl::Status WithinSearch(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  ArgumentFacts facts = ArgumentFactsOf(status);
  if (!facts.field.empty()) facts.field = absl::StrCat("search.", facts.field);
  return WithArgument(absl::InvalidArgumentError(absl::StrCat("search.", status.message())), facts);
}

// Each page is a search with the cursor of the page before it. It is queued like any search, and no
// other page runs while it is written, so a client that does not read delays no other call. The
// state that the pages share, one bit for each row of the collection and the last rows found, is
// reserved as bytes of the caller's requests. A call that begins with a cursor also scans the rows
// before it page by page, so that all its searches have the same size.
class SearchAll final : public ActiveCall {
 public:
  SearchAll(ServerState* state, SearchReplies* context, const pb::SearchAllRequest& request)
      : context_(context), call_(state, context, "SearchAll") {
    const absl::Status started = Start(request);
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
  absl::Status Start(const pb::SearchAllRequest& request) {
    call_.record.collection = request.search().collection();
    ABSL_ASSIGN_OR_RETURN(core_, call_.Enter());
    ABSL_RETURN_IF_ERROR(Reserve(request));
    request_ = request.search();
    request_.set_collection(name_);  // an alias is resolved once
    if (request_.queries_size() != 1) {
      return MustBe("search.queries", absl::StrCat(request_.queries_size()), "1");
    }
    if (request_.has_group_by()) {
      return ArgumentError("search.group_by", "groups have no SearchAll: use Search with a cursor",
                           request_.group_by(), "absent");
    }
    if (request.has_results_max()) left_ = request.results_max();
    if (left_ < 1) return MustBe("results_max", "0", "at least 1");
    if (!request_.has_k()) {
      request_.set_k(static_cast<uint32_t>(call_.state()->limits().k_max));
    }
    request_.set_with_cursor(true);
    if (request_.has_cursor()) ABSL_RETURN_IF_ERROR(BeginAtCursor());
    page_cache_ = MakeResultPageCache(
        request_.has_cursor() ? INT64_MAX
                              : static_cast<int64_t>(std::min<uint64_t>(left_, INT64_MAX)));
    Next();
    return absl::OkStatus();
  }

  // Reserves the memory that the call also holds between its pages.
  absl::Status Reserve(const pb::SearchAllRequest& request) {
    messages_bytes_ =
        2 * static_cast<int64_t>(request.SpaceUsedLong());  // request_ and the request of a page
    ABSL_ASSIGN_OR_RETURN(const auto named, call_.Find(*core_, request.search().collection()));
    name_ = named->name;
    const int64_t bits_bytes = (named->collection->PinEpoch()->rows_count() + 7) / 8;
    ABSL_ASSIGN_OR_RETURN(hold_, call_.state()->ledger().requests.Reserve(
                                     call_.caller(), messages_bytes_ + bits_bytes));
    return absl::OkStatus();
  }

  // Starts at the cursor. The scan begins at the first row; rows before the cursor are not sent.
  absl::Status BeginAtCursor() {
    absl::StatusOr<Cursor> cursor = DecodeCursor(request_.cursor());
    if (!cursor.ok()) return WithinSearch(cursor.status());
    rows_to_skip_ = cursor->position;
    cursor->position = 0;
    request_.set_cursor(EncodeCursor(*cursor));
    return absl::OkStatus();
  }

  void Next() {
    const absl::Status started = CatchOutOfMemory([this] {
      StartPage();
      return absl::OkStatus();
    });
    if (!started.ok()) call_.Finish(started);
  }

  void StartPage() {
    pb::SearchRequest request = request_;
    if (rows_to_skip_ > 0) {
      const int64_t k_max = call_.state()->limits().k_max;
      request.set_k(static_cast<uint32_t>(std::min(rows_to_skip_, k_max)));
      request.clear_with_payload();
      request.clear_with_vectors();
      request.clear_with_parts();
      request.clear_attributes();
      request.clear_with_digest();
      request.clear_verify();
    } else if (left_ < request.k()) {
      request.set_k(static_cast<uint32_t>(left_));
    }
    response_.Clear();
    call_.holds.request.Resize(0);  // the next page reserves it again
    StartSearch(core_, call_, request,
                {.response = &response_,
                 .holds = &call_.holds,
                 .page_cache = page_cache_,
                 .epoch_hold = &epoch_hold_},
                [this](const absl::Status& status, const SearchFacts& facts) {
                  Note(facts, &call_.record);
                  OnPage(WithinSearch(status));
                });
  }

  void OnPage(absl::Status status) {
    status.Update(call_.CheckKey());
    if (!status.ok()) return call_.Finish(status);
    hold_.Resize(messages_bytes_ + page_cache_->bytes());
    const pb::QueryResult& page = response_.results(0);
    const bool follows = page.has_next_cursor();
    if (follows) {
      request_.set_cursor(page.next_cursor());
      request_.clear_at_epoch();  // the cursor has it
    }
    if (rows_to_skip_ > 0 && follows) {
      rows_to_skip_ -= page.scores_size();
      call_.holds.reply.Resize(0);
      return NextOnWorker();
    }
    if (rows_to_skip_ > 0) response_.mutable_results(0)->Clear();  // before the cursor
    left_ -= std::min<uint64_t>(left_, static_cast<uint64_t>(page.scores_size()));
    if (left_ == 0 || !follows) {
      return context_->WriteAndFinish(response_, call_.Close(status));
    }
    call_.WatchReply();
    context_->Write(response_);
  }

  // Runs Next on a worker, because the answering thread has other answers to send.
  void NextOnWorker() {
    if (!core_->replies.Post([this] { Next(); }).ok()) Next();
  }

  SearchReplies* const context_;
  Call call_;
  std::string name_;           // of the collection
  pb::SearchRequest request_;  // the request of the next page
  Core* core_ = nullptr;
  uint64_t left_ = UINT64_MAX;  // maximum rows to send
  int64_t rows_to_skip_ = 0;    // rows before the first row to send
  EpochHold epoch_hold_;
  std::shared_ptr<ResultPageCache> page_cache_;
  int64_t messages_bytes_ = 0;
  ByteAccount::Hold hold_;  // for messages_bytes_ and page_cache_
  pb::SearchResponse response_;
};

}  // namespace

ActiveCallPtr StartSearchAll(ServerState* state, SearchReplies* context,
                             const pb::SearchAllRequest& request) {
  return std::make_shared<SearchAll>(state, context, request);
}

}  // namespace nearfield::server

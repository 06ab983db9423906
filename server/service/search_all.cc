#include "server/service/search_all.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/convert/common.h"
#include "server/service/search_call.h"

namespace nearfield::server {
namespace {

// Each page is a search with the cursor of the one before it: it waits its turn, and while it is
// written no other is under way, so a client that does not read holds up nobody. What a page found
// beyond its end serves the next ones: page_rows_max rows of 16 bytes at most.
class SearchAll final : public grpc::ServerWriteReactor<pb::SearchResponse> {
 public:
  SearchAll(ServerState* state, grpc::CallbackServerContext* context,
            const pb::SearchAllRequest& request)
      : call_(state, context, "SearchAll"), request_(request.search()) {
    const absl::Status started = Start(request);
    if (!started.ok()) Finish(call_.Close(started));
  }

  void OnWriteDone(bool ok) override {
    hold_.Resize(0);
    if (!ok) return Finish(call_.Close(absl::CancelledError("the caller does not read any more")));
    Next();
  }
  void OnCancel() override { call_.cancelled()->store(true); }
  void OnDone() override { delete this; }

 private:
  absl::Status Start(const pb::SearchAllRequest& request) {
    call_.record.collection = request_.collection();
    ABSL_ASSIGN_OR_RETURN(core_, call_.Enter());
    const RequestLimits& limits = call_.state()->limits();
    if (request_.queries_size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("search.queries: ", request_.queries_size(), ", must be 1"));
    }
    const auto rows_max = static_cast<uint64_t>(limits.page_rows_max);
    left_ = request.has_results_max() ? request.results_max() : rows_max;
    if (left_ < 1 || left_ > rows_max) {
      return absl::InvalidArgumentError(
          absl::StrCat("results_max: ", left_, ", must be 1 .. ", rows_max));
    }
    if (!request_.has_k()) request_.set_k(static_cast<uint32_t>(limits.k_max));
    request_.set_with_cursor(true);
    prefix_ = MakeOrderPrefix(static_cast<int64_t>(request_.has_cursor() ? rows_max : left_));
    Next();
    return absl::OkStatus();
  }

  void Next() {
    if (left_ < request_.k()) request_.set_k(static_cast<uint32_t>(left_));
    response_.Clear();
    StartSearch(core_, call_, request_, {.response = &response_, .hold = &hold_, .prefix = prefix_},
                [this](const absl::Status& status, const SearchFacts& facts) {
                  Note(facts, &call_.record);
                  OnPage(status);
                });
  }

  void OnPage(const absl::Status& status) {
    if (!status.ok()) return Finish(call_.Close(status));
    const pb::QueryResult& page = response_.results(0);
    left_ -= std::min<uint64_t>(left_, static_cast<uint64_t>(page.scores_size()));
    if (left_ == 0 || !page.has_next_cursor()) {
      return StartWriteAndFinish(&response_, grpc::WriteOptions(), call_.Close(status));
    }
    request_.set_cursor(page.next_cursor());
    StartWrite(&response_);
  }

  Call call_;
  pb::SearchRequest request_;  // of the next page
  Core* core_ = nullptr;
  uint64_t left_ = 0;  // rows
  std::shared_ptr<OrderPrefix> prefix_;
  pb::SearchResponse response_;
  ReplyLedger::Hold hold_;  // until the transport has the page
};

}  // namespace

grpc::ServerWriteReactor<pb::SearchResponse>* StartSearchAll(ServerState* state,
                                                             grpc::CallbackServerContext* context,
                                                             const pb::SearchAllRequest& request) {
  return new SearchAll(state, context, request);
}

}  // namespace nearfield::server

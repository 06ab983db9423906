#include "nearfield/client/search_pages.h"

#include <algorithm>
#include <utility>

#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {

class SearchPages::Impl {
 public:
  Impl(std::shared_ptr<Client::Core> core, const SearchAllOptions& options)
      : core_(std::move(core)),
        deadline_(options.search.deadline ? core_->clock().Now() + *options.search.deadline
                                          : TimePoint::max()),
        has_deadline_(options.search.deadline.has_value()),
        left_(options.results_max) {}

  absl::Status Prepare(std::string_view collection, const Query& query,
                       const SearchOptions& options) {
    v1::SearchRequest* search = request_.mutable_search();
    NF_RETURN_IF_ERROR(ToProto(collection, std::span<const Query>(&query, 1), options, search));
    if (options.k == 0) search->clear_k();
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<SearchAnswer>> Next() {
    NF_RETURN_IF_ERROR(status_);
    if (complete_) return std::nullopt;
    std::optional<SearchAnswer> page;
    status_ = RunWithRetries(
        {.policy = core_->options().retry, .deadline = deadline_, .idempotent = true},
        core_->clock(), [&] { return TryNext(&page); });
    NF_RETURN_IF_ERROR(status_);
    return page;
  }

 private:
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::SearchResponse>> reader;

    ~Stream() {
      if (!reader) return;
      context.TryCancel();
      v1::SearchResponse unread;
      while (reader->Read(&unread)) {
      }
      reader->Finish();
    }
  };

  void Open() {
    stream_ = std::make_unique<Stream>();
    core_->Introduce(&stream_->context);
    if (has_deadline_) {
      stream_->context.set_deadline(
          std::chrono::system_clock::now() +
          std::chrono::duration_cast<std::chrono::microseconds>(deadline_ - core_->clock().Now()));
    }
    if (left_) request_.set_results_max(*left_);
    stream_->reader = core_->stub<RetrievalStub>().SearchAll(&stream_->context, request_);
  }

  Attempt TryNext(std::optional<SearchAnswer>* page) {
    if (!stream_) Open();
    v1::SearchResponse response;
    if (stream_->reader->Read(&response)) return {.status = Take(&response, page)};
    const grpc::Status end = stream_->reader->Finish();
    stream_->reader = nullptr;
    Attempt outcome = core_->Outcome(end, stream_->context);
    stream_ = nullptr;
    complete_ = outcome.status.ok();
    if (complete_ && !last_page_) {
      outcome.status = absl::InternalError("malformed reply: the pages ended before the last one");
    }
    return outcome;
  }

  // Drains the stream. After the last page the answer is complete, however the stream ends.
  void End() {
    complete_ = true;
    v1::SearchResponse unread;
    while (stream_->reader->Read(&unread)) {
    }
    stream_->reader->Finish();
    stream_->reader = nullptr;
    stream_ = nullptr;
  }

  absl::Status Take(v1::SearchResponse* response, std::optional<SearchAnswer>* page) {
    NF_ASSIGN_OR_RETURN(SearchAnswer answer, FromProto(response));
    NF_RETURN_IF_ERROR(CheckResults(answer, 1));
    if (epoch_.value_or(answer.epoch) != answer.epoch) {
      return absl::InternalError(
          Cat("malformed reply: a page of epoch ", answer.epoch, " after one of ", *epoch_));
    }
    epoch_ = answer.epoch;
    const Neighbors& rows = answer.results[0];
    const uint64_t count = Count(rows.ids);
    if (left_) left_ = *left_ - std::min(*left_, count);
    last_page_ = rows.next_cursor.empty() || left_ == uint64_t{0};
    if (last_page_) End();
    if (!rows.next_cursor.empty()) request_.mutable_search()->set_cursor(rows.next_cursor);
    *page = std::move(answer);
    return absl::OkStatus();
  }

  std::shared_ptr<Client::Core> core_;
  const TimePoint deadline_;
  const bool has_deadline_;
  v1::SearchAllRequest request_;  // for the rows after the last page
  std::unique_ptr<Stream> stream_;
  std::optional<uint64_t> left_;  // rows still to be returned; absent: all
  std::optional<uint64_t> epoch_;
  bool last_page_ = false;
  bool complete_ = false;
  absl::Status status_;
};

SearchPages::SearchPages(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SearchPages::SearchPages(SearchPages&&) noexcept = default;
SearchPages& SearchPages::operator=(SearchPages&&) noexcept = default;
SearchPages::~SearchPages() = default;

absl::StatusOr<std::optional<SearchAnswer>> SearchPages::Next() { return impl_->Next(); }

absl::StatusOr<SearchPages> Client::SearchAll(std::string_view collection, const Query& query,
                                              const SearchAllOptions& options) {
  NF_RETURN_IF_ERROR(CheckText(collection, std::span<const Query>(&query, 1)));
  auto impl = std::make_unique<SearchPages::Impl>(core_, options);
  NF_RETURN_IF_ERROR(impl->Prepare(collection, query, options.search));
  return SearchPages(std::move(impl));
}

}  // namespace nearfield::client

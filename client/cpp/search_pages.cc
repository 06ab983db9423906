#include "nearfield/client/search_pages.h"

#include <algorithm>
#include <utility>

#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/page_stream.h"
#include "client/cpp/status_macros.h"

namespace nearfield::client {

class SearchPages::Impl {
 public:
  Impl(std::shared_ptr<Client::Core> core, const SearchAllOptions& options)
      : stream_(std::move(core), options.search.deadline), left_(options.results_max) {}

  absl::Status Prepare(std::string_view collection, const Query& query,
                       const SearchOptions& options) {
    v1::SearchRequest* search = request_.mutable_search();
    NF_RETURN_IF_ERROR(ToProto(collection, std::span<const Query>(&query, 1), options, search));
    if (options.k == 0) search->clear_k();
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<SearchAnswer>> Next() {
    std::optional<SearchAnswer> page;
    NF_RETURN_IF_ERROR(
        stream_
            .Next({.open =
                       [this](grpc::ClientContext* context) {
                         if (left_) request_.set_results_max(*left_);
                         return stream_.core().stub<RetrievalStub>().SearchAll(context, request_);
                       },
                   .take = [&](v1::SearchResponse* response) { return Take(response, &page); }})
            .status());
    return page;
  }

 private:
  absl::StatusOr<bool> Take(v1::SearchResponse* response, std::optional<SearchAnswer>* page) {
    NF_ASSIGN_OR_RETURN(SearchAnswer answer, FromProto(response));
    NF_RETURN_IF_ERROR(CheckResults(answer, 1));
    NF_RETURN_IF_ERROR(CheckPageEpoch(answer.epoch, &epoch_));
    const Neighbors& rows = answer.results[0];
    if (left_) left_ = *left_ - std::min<uint64_t>(*left_, Count(rows.ids));
    const bool last = rows.next_cursor.empty() || left_ == uint64_t{0};
    if (!rows.next_cursor.empty()) {
      request_.mutable_search()->set_cursor(rows.next_cursor);
      request_.mutable_search()->clear_at_epoch();  // the cursor has its own epoch
    }
    *page = std::move(answer);
    return last;
  }

  PageStream<v1::SearchResponse> stream_;
  v1::SearchAllRequest request_;  // for the rows after the last page
  std::optional<uint64_t> left_;  // rows still to be returned; absent: all
  std::optional<uint64_t> epoch_;
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

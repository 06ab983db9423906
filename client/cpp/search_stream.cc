#include "nearfield/client/search_stream.h"

#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {

class SearchStream::Impl {
 public:
  Impl(std::shared_ptr<Client::Core> core, std::string_view collection,
       const SearchOptions& options)
      : core_(std::move(core)), collection_(collection), options_(options) {
    core_->Introduce(&context_);
    if (options.deadline) {
      context_.set_deadline(std::chrono::system_clock::now() + *options.deadline);
    }
    stream_ = core_->stub<RetrievalStub>().SearchStream(&context_);
  }

  ~Impl() {
    if (ended_) return;
    context_.TryCancel();
    v1::SearchResponse response;
    while (stream_->Read(&response)) {
    }
    stream_->Finish();
  }

  bool Send(std::span<const Query> queries) {
    v1::SearchRequest request;
    absl::Status status = CheckText(collection_, queries);
    if (status.ok()) status = ToProto(collection_, queries, options_, &request);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!refused_.ok()) return false;
      refused_ = status;
      if (status.ok()) unanswered_.push_back(queries.size());
    }
    if (status.ok()) return stream_->Write(request);
    context_.TryCancel();
    return false;
  }

  void SendDone() { stream_->WritesDone(); }

  absl::StatusOr<std::optional<SearchAnswer>> Receive() {
    if (ended_) return *ended_;
    v1::SearchResponse response;
    if (stream_->Read(&response)) {
      NF_ASSIGN_OR_RETURN(const size_t queries_count, TakeUnanswered());
      NF_ASSIGN_OR_RETURN(SearchAnswer answer, FromProto(&response));
      NF_RETURN_IF_ERROR(CheckResults(answer, queries_count));
      return std::optional<SearchAnswer>(std::move(answer));
    }
    const absl::Status status = EndStatus(core_->Outcome(stream_->Finish(), context_).status);
    ended_ = status.ok() ? absl::StatusOr<std::optional<SearchAnswer>>(std::nullopt)
                         : absl::StatusOr<std::optional<SearchAnswer>>(status);
    return *ended_;
  }

 private:
  // Returns the number of queries of the search that the next answer belongs to.
  absl::StatusOr<size_t> TakeUnanswered() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (unanswered_.empty()) return absl::InternalError("malformed reply: an answer to no search");
    const size_t queries_count = unanswered_.front();
    unanswered_.pop_front();
    return queries_count;
  }

  // Returns the status for the end of the stream. A server that could not read a message treats it
  // as the end of the messages and returns OK.
  absl::Status EndStatus(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!refused_.ok()) return refused_;
    if (!status.ok() || unanswered_.empty()) return status;
    return absl::InternalError(
        Cat("malformed reply: the stream ended with ", unanswered_.size(), " searches unanswered"));
  }

  std::shared_ptr<Client::Core> core_;
  std::string collection_;
  SearchOptions options_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SearchRequest, v1::SearchResponse>> stream_;
  std::optional<absl::StatusOr<std::optional<SearchAnswer>>> ended_;  // what ended the stream
  std::mutex mutex_;
  std::deque<size_t> unanswered_;  // queries of each search sent, guarded by mutex_
  absl::Status refused_;           // a search that could not be sent, guarded by mutex_
};

SearchStream::SearchStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SearchStream::SearchStream(SearchStream&&) noexcept = default;
SearchStream& SearchStream::operator=(SearchStream&&) noexcept = default;
SearchStream::~SearchStream() = default;

bool SearchStream::Send(std::span<const Query> queries) { return impl_->Send(queries); }
void SearchStream::SendDone() { impl_->SendDone(); }
absl::StatusOr<std::optional<SearchAnswer>> SearchStream::Receive() { return impl_->Receive(); }

absl::StatusOr<SearchStream> Client::OpenSearchStream(std::string_view collection,
                                                      const SearchOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  return SearchStream(std::make_unique<SearchStream::Impl>(core_, collection, options));
}

}  // namespace nearfield::client

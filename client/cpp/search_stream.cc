#include "nearfield/client/search_stream.h"

#include <string>
#include <utility>

#include "client/cpp/convert.h"
#include "client/cpp/core.h"

namespace nearfield::client {

class SearchStream::Impl {
 public:
  Impl(std::shared_ptr<Client::Core> core, std::string_view collection,
       const SearchOptions& options)
      : core_(std::move(core)), collection_(collection), options_(options) {
    if (options.deadline) {
      context_.set_deadline(std::chrono::system_clock::now() + *options.deadline);
    }
    stream_ = core_->retrieval().SearchStream(&context_);
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
    return stream_->Write(ToProto(collection_, queries, options_));
  }

  void SendDone() { stream_->WritesDone(); }

  absl::StatusOr<std::optional<SearchAnswer>> Receive() {
    if (ended_) return *ended_;
    v1::SearchResponse response;
    if (stream_->Read(&response)) {
      absl::StatusOr<SearchAnswer> answer = FromProto(&response);
      if (!answer.ok()) return answer.status();
      return std::optional<SearchAnswer>(*std::move(answer));
    }
    const absl::Status status = core_->Outcome(stream_->Finish(), context_).status;
    ended_ = status.ok() ? absl::StatusOr<std::optional<SearchAnswer>>(std::nullopt)
                         : absl::StatusOr<std::optional<SearchAnswer>>(status);
    return *ended_;
  }

 private:
  std::shared_ptr<Client::Core> core_;
  std::string collection_;
  SearchOptions options_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SearchRequest, v1::SearchResponse>> stream_;
  std::optional<absl::StatusOr<std::optional<SearchAnswer>>> ended_;  // what ended the stream
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
  return SearchStream(std::make_unique<SearchStream::Impl>(core_, collection, options));
}

}  // namespace nearfield::client

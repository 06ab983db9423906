#include "nearfield/client/scan_pages.h"

#include <algorithm>
#include <utility>

#include "client/cpp/attribute_convert.h"
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/page_stream.h"
#include "client/formats/status_macros.h"

namespace nearfield::client {

class ScanPages::Impl {
 public:
  Impl(std::shared_ptr<Client::Core> core, const ScanOptions& options)
      : stream_(std::move(core), options.deadline), left_(options.rows_max) {}

  absl::Status Prepare(std::string_view collection, const ScanOptions& options) {
    request_.set_collection(std::string(collection));
    request_.set_with_payload(options.with_payload);
    request_.set_with_vectors(options.with_vectors);
    NF_RETURN_IF_ERROR(AddNames(options.attributes, request_.mutable_attributes()));
    NF_RETURN_IF_ERROR(SetFilter(options.filter, &request_));
    if (options.min_epoch) request_.set_min_epoch(*options.min_epoch);
    if (options.at_epoch) request_.set_at_epoch(*options.at_epoch);
    if (options.incarnation) request_.set_incarnation(*options.incarnation);
    if (!options.cursor.empty()) request_.set_cursor(options.cursor);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<ScanPage>> Next() {
    std::optional<ScanPage> page;
    NF_RETURN_IF_ERROR(
        stream_
            .Next({.open =
                       [this](grpc::ClientContext* context) {
                         if (left_) request_.set_rows_max(*left_);
                         return stream_.core().stub<RetrievalStub>().Scan(context, request_);
                       },
                   .take = [&](v1::ScanResponse* response) { return Take(response, &page); }})
            .status());
    return page;
  }

 private:
  absl::StatusOr<bool> Take(v1::ScanResponse* response, std::optional<ScanPage>* page) {
    NF_ASSIGN_OR_RETURN(ScanPage taken, FromProto(response));
    NF_RETURN_IF_ERROR(CheckPageEpoch(taken.epoch, &epoch_));
    if (left_) left_ = *left_ - std::min<uint64_t>(*left_, Count(taken.ids));
    const bool last = taken.next_cursor.empty() || left_ == uint64_t{0};
    if (!taken.next_cursor.empty()) {
      request_.set_cursor(taken.next_cursor);
      request_.clear_min_epoch();  // the cursor has its own epoch
      request_.clear_at_epoch();
    }
    *page = std::move(taken);
    return last;
  }

  PageStream<v1::ScanResponse> stream_;
  v1::ScanRequest request_;       // for the rows after the last page
  std::optional<uint64_t> left_;  // rows still to be returned; absent: all
  std::optional<uint64_t> epoch_;
};

ScanPages::ScanPages(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ScanPages::ScanPages(ScanPages&&) noexcept = default;
ScanPages& ScanPages::operator=(ScanPages&&) noexcept = default;
ScanPages::~ScanPages() = default;

absl::StatusOr<std::optional<ScanPage>> ScanPages::Next() { return impl_->Next(); }

absl::StatusOr<ScanPages> Client::Scan(std::string_view collection, const ScanOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  auto impl = std::make_unique<ScanPages::Impl>(core_, options);
  NF_RETURN_IF_ERROR(impl->Prepare(collection, options));
  return ScanPages(std::move(impl));
}

}  // namespace nearfield::client

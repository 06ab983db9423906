#include "server/rpc/unary_call.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "server/rpc/await_epoch.h"

namespace nearfield::server {

ActiveCallPtr UnaryCall::Run(const Options& options, Work work) {
  auto unary = std::make_shared<UnaryCall>(options);
  const absl::Status status = unary->Start(options, std::move(work));
  if (!status.ok()) unary->call_.Finish(status);
  return unary;
}

absl::Status UnaryCall::Start(const Options& options, Work work) {
  ABSL_ASSIGN_OR_RETURN(Core* const core, call_.Enter());
  const std::optional<uint64_t> min_epoch = options.epochs.min_epoch;
  if (!min_epoch.has_value() && !options.incarnation.has_value()) {
    return Post(core, options, std::move(work));
  }
  ABSL_ASSIGN_OR_RETURN(call_.named, call_.Find(*core, options.collection));
  ABSL_RETURN_IF_ERROR(CheckIncarnation(*call_.named, options.incarnation));
  ABSL_RETURN_IF_ERROR(CheckEpochs(options.epochs));
  if (!min_epoch.has_value()) return Post(core, options, std::move(work));
  if (options.check != nullptr) ABSL_RETURN_IF_ERROR(options.check(*call_.named, call_));
  AwaitEpoch(core, call_, call_.named, *min_epoch,
             [this, core, options, work = std::move(work)](absl::Status status) {
               if (status.ok()) status = Post(core, options, work);
               if (!status.ok()) call_.Finish(status);
             });
  return absl::OkStatus();
}

absl::Status UnaryCall::Post(Core* core, const Options& options, Work work) {
  PostJob post = options.post;
  if (post == nullptr) {
    post = [pool = &(core->*options.pool)](Core&, std::function<void()> job,
                                           std::function<void()> after) {
      return pool->Post(std::move(job), std::move(after));
    };
  }
  if (options.choose == nullptr) return PostWork(core, post, std::move(work));
  return core->filters.Post(
      [this, core, choose = options.choose] {
        status_ = call_.DeadStatus();
        if (status_.ok()) status_ = choose(*core, call_);
      },
      [this, core, post = std::move(post), work = std::move(work)] {
        // After the work is posted, the call may end at any time.
        const absl::Status status = status_.ok() ? PostWork(core, post, work) : status_;
        if (!status.ok()) call_.Finish(status);
      });
}

absl::Status UnaryCall::PostWork(Core* core, const PostJob& post, Work work) {
  // The second function runs after the place in the pool is released, so that the caller's next
  // call finds it free.
  return post(
      *core,
      [this, core, work = std::move(work)]() mutable {
        status_ = call_.DeadStatus();
        if (status_.ok()) status_ = work(*core, call_);
        if (status_.ok()) status_ = ReserveReply();
        work = nullptr;  // releases the request
      },
      [this] { call_.Finish(status_); });
}

absl::Status UnaryCall::ReserveReply() {
  if (response_ == nullptr) return absl::OkStatus();
  auto hold = call_.state()->ledger().replies.Reserve(
      call_.caller(), static_cast<int64_t>(response_->ByteSizeLong()));
  if (!hold.ok()) {
    response_->Clear();
    return hold.status();
  }
  call_.holds.reply = *std::move(hold);
  return absl::OkStatus();
}

}  // namespace nearfield::server

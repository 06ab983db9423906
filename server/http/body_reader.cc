#include "server/http/body_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

constexpr size_t kBufferMin = size_t{16} << 10;

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

absl::Status TooLong(const char* what, int64_t bytes_max) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": more than ", bytes_max, " bytes, the limit request_bytes_max"));
}

}  // namespace

void BodyReader::ReadAll(Done done) {
  done_ = std::move(done);
  is_whole_ = true;
  const auto size = static_cast<int64_t>(*exchange_->head().content_length);
  if (size > limits_.bytes_max) return End(TooLong("body", limits_.bytes_max));
  if (size == 0) return End(std::make_shared<BodyText>());
  auto hold = limits_.account->Reserve(limits_.caller, size);
  if (!hold.ok()) return End(hold.status());
  hold_ = *std::move(hold);
  buffer_.resize(static_cast<size_t>(size));
  ReadMore();
}

void BodyReader::ReadLine(Done done) {
  done_ = std::move(done);
  Continue();
}

void BodyReader::Continue() {
  while (true) {
    absl::StatusOr<std::shared_ptr<BodyText>> line = TakeLine();
    if (!line.ok() || (*line == nullptr && is_over_)) return End(std::move(line));
    if (*line == nullptr) break;
    if (!IsBlank((*line)->text)) return End(std::move(line));
  }
  const absl::Status room = MakeRoom();
  if (!room.ok()) return End(room);
  ReadMore();
}

absl::StatusOr<std::shared_ptr<BodyText>> BodyReader::TakeLine() {
  const auto at = [this](size_t offset) {
    return buffer_.begin() + static_cast<std::ptrdiff_t>(offset);
  };
  const auto mark = std::find(at(scanned_), at(filled_), '\n');
  scanned_ = filled_;
  const bool is_last = mark == at(filled_);  // no mark follows it
  if (is_last && (!is_over_ || begin_ == filled_)) return std::shared_ptr<BodyText>();
  auto line = std::make_shared<BodyText>();
  ABSL_ASSIGN_OR_RETURN(line->hold, limits_.account->Reserve(limits_.caller, mark - at(begin_)));
  line->text.assign(at(begin_), mark);
  begin_ = static_cast<size_t>(mark - buffer_.begin()) + (is_last ? 0 : 1);
  scanned_ = begin_;
  return line;
}

absl::Status BodyReader::MakeRoom() {
  if (static_cast<int64_t>(filled_ - begin_) > limits_.bytes_max) {
    return TooLong("line", limits_.bytes_max);
  }
  if (filled_ < buffer_.size()) return absl::OkStatus();
  buffer_.erase(0, begin_);
  filled_ -= begin_;
  begin_ = 0;
  scanned_ = filled_;
  const size_t size = std::max(2 * filled_, kBufferMin);
  // Both buffers exist while one is copied to the other.
  const auto bytes = static_cast<int64_t>(size + buffer_.capacity());
  if (hold_.bytes() == 0) {
    ABSL_ASSIGN_OR_RETURN(hold_, limits_.account->Reserve(limits_.caller, bytes));
  } else if (bytes > hold_.bytes()) {
    ABSL_RETURN_IF_ERROR(hold_.Grow(bytes));
  }
  buffer_.resize(size);
  hold_.Resize(static_cast<int64_t>(buffer_.capacity()));
  return absl::OkStatus();
}

void BodyReader::ReadMore() {
  exchange_->ReadBody(
      buffer_.data() + filled_, buffer_.size() - filled_, [this](std::optional<size_t> bytes) {
        if (!bytes.has_value()) {
          return End(absl::CancelledError("the client left before its request was complete"));
        }
        filled_ += *bytes;
        is_over_ = *bytes == 0;
        if (!is_whole_) return Continue();
        if (filled_ < buffer_.size() && !is_over_) return ReadMore();
        auto body = std::make_shared<BodyText>();
        body->hold = std::move(hold_);
        body->text = std::move(buffer_);
        End(std::move(body));
      });
}

void BodyReader::End(absl::StatusOr<std::shared_ptr<BodyText>> result) {
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace nearfield::server

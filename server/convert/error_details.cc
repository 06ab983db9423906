#include "server/convert/error_details.h"

#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/convert/text.h"

namespace nearfield::server {
namespace {

constexpr char kDomain[] = "nearfield";
// A status is sent in headers, of which peers accept 8 KiB in total by default: the message,
// percent encoded, and the details, base64 encoded.
constexpr size_t kMessageBytesMax = 1024;
constexpr size_t kDescriptionBytesMax = 512;
constexpr size_t kFactBytesMax = 256;

// Returns a prefix of `text`, cut between characters. Replaces bytes that are not UTF-8 by '?'.
std::string Utf8Prefix(const std::string& text, size_t bytes_max) {
  size_t size = text.size();
  if (size > bytes_max) {
    size = bytes_max;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  }
  std::string prefix = text.substr(0, size);
  if (IsUtf8(prefix)) return prefix;
  for (char& c : prefix) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return prefix;
}

// Returns the field at the start of a message, as in messages of the engine: "queries[3].row_id = 7
// names ..".
std::string LeadingField(const std::string& message) {
  size_t size = 0;
  while (size < message.size() && (absl::ascii_isalnum(static_cast<unsigned char>(message[size])) ||
                                   absl::StrContains("_.-[]", message.substr(size, 1)))) {
    ++size;
  }
  return message.substr(0, size);
}

// Returns the message without the field at its start.
std::string DescriptionOf(const std::string& message, const std::string& field) {
  for (const char* const separator : {": ", " = "}) {
    const std::string begin = absl::StrCat(field, separator);
    if (absl::StartsWith(message, begin)) {
      return Utf8Prefix(message.substr(begin.size()), kDescriptionBytesMax);
    }
  }
  return Utf8Prefix(message, kDescriptionBytesMax);
}

void AddErrorInfo(const absl::Status& status, const ArgumentFacts& facts,
                  google::rpc::Status* details) {
  google::rpc::ErrorInfo info;
  info.set_reason(absl::StatusCodeToString(status.code()));
  info.set_domain(kDomain);
  const auto add = [&info](const char* key, const std::string& text) {
    if (!text.empty()) (*info.mutable_metadata())[key] = Utf8Prefix(text, kFactBytesMax);
  };
  add("field", facts.field);
  add("value", facts.value);
  add("limit", facts.limit);
  details->add_details()->PackFrom(info);
}

void AddBadRequest(const std::string& message, const ArgumentFacts& facts,
                   google::rpc::Status* details) {
  google::rpc::BadRequest bad;
  google::rpc::BadRequest::FieldViolation& violation = *bad.add_field_violations();
  violation.set_field(Utf8Prefix(facts.field, kFactBytesMax));
  violation.set_description(DescriptionOf(message, facts.field));
  details->add_details()->PackFrom(bad);
}

void AddRetryInfo(int64_t retry_after_ms, google::rpc::Status* details) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(retry_after_ms / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(retry_after_ms % 1000 * 1000000));
  details->add_details()->PackFrom(retry);
}

}  // namespace

ErrorDetails DetailsOf(const absl::Status& status, std::optional<int64_t> retry_after_ms) {
  if (status.ok()) return {};
  const std::string message = Utf8Prefix(std::string(status.message()), kMessageBytesMax);
  ArgumentFacts facts = ArgumentFactsOf(status);
  if (absl::IsInvalidArgument(status) && facts.field.empty()) facts.field = LeadingField(message);
  google::rpc::Status details;
  details.set_code(static_cast<int32_t>(status.code()));
  details.set_message(message);
  AddErrorInfo(status, facts, &details);
  if (absl::IsInvalidArgument(status)) AddBadRequest(message, facts, &details);
  if (retry_after_ms.has_value()) AddRetryInfo(*retry_after_ms, &details);
  return {.message = message, .details = details.SerializeAsString()};
}

}  // namespace nearfield::server

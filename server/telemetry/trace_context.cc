#include "server/telemetry/trace_context.h"

#include <cstddef>

namespace nearfield::server {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr size_t kVersionBytes = 2;
constexpr size_t kTraceIdBytes = 32;
constexpr size_t kSpanIdBytes = 16;
constexpr size_t kFlagsBytes = 2;
constexpr size_t kTraceParentBytes =
    kVersionBytes + 1 + kTraceIdBytes + 1 + kSpanIdBytes + 1 + kFlagsBytes;

bool IsHex(std::string_view text) {
  return text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

// Returns true if the text is an id: hexadecimal, and not only zeros.
bool IsTraceOrSpanId(std::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

TraceContext ParseTraceParent(std::string_view text) {
  if (text.size() < kTraceParentBytes) return {};
  const std::string_view version = text.substr(0, kVersionBytes);
  size_t at = kVersionBytes;
  // Returns the next part and its leading '-'.
  const auto next = [&](size_t bytes) {
    const std::string_view part = text.substr(at, bytes + 1);
    at += bytes + 1;
    return part;
  };
  const std::string_view trace = next(kTraceIdBytes);
  const std::string_view span = next(kSpanIdBytes);
  const std::string_view flags = next(kFlagsBytes);
  if (trace[0] != '-' || span[0] != '-' || flags[0] != '-') return {};
  if (!IsHex(version) || version == "ff" || !IsHex(flags.substr(1))) return {};
  if (!IsTraceOrSpanId(trace.substr(1)) || !IsTraceOrSpanId(span.substr(1))) return {};
  // Version 00 ends here; a later version may continue after another '-'.
  if (text.size() > at && (version == "00" || text[at] != '-')) return {};
  return {.trace_id = std::string(trace.substr(1)), .span_id = std::string(span.substr(1))};
}

}  // namespace nearfield::server

// TraceContext: the trace of a caller, as W3C Trace Context defines it.
#pragma once

#include <string>
#include <string_view>

namespace nearfield::server {

struct TraceContext {
  std::string trace_id;  // 32 hexadecimal digits; empty: the caller sent no valid context
  std::string span_id;   // 16 hexadecimal digits: the caller's span
};

// Parses a traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". An invalid one
// counts as absent, as the standard requires.
// Source: W3C Trace Context, level 1, section 3.2, "Traceparent Header".
TraceContext ParseTraceParent(std::string_view text);

}  // namespace nearfield::server

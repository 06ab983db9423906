// Tests of W3C trace contexts.
#include "server/telemetry/trace_context.h"

#include <string>

#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kSpan = "00f067aa0ba902b7";
const std::string kValid = "00-" + kTrace + "-" + kSpan + "-01";

TEST(TraceContextTest, AValidContextHasItsIds) {
  for (const std::string& text : {kValid, "cc-" + kTrace + "-" + kSpan + "-00",
                                  "cc-" + kTrace + "-" + kSpan + "-00-what-the-future-brings"}) {
    const TraceContext context = ParseTraceParent(text);
    EXPECT_EQ(context.trace_id, kTrace) << text;
    EXPECT_EQ(context.span_id, kSpan) << text;
  }
}

// Any other byte at any place makes it invalid, except another hexadecimal digit.
TEST(TraceContextTest, AnInvalidContextIsNone) {
  for (size_t i = 0; i < kValid.size(); ++i) {
    for (int c = 0; c < 256; ++c) {
      std::string text = kValid;
      text[i] = static_cast<char>(c);
      const bool hex =
          text[i] != '\0' && std::string("0123456789abcdef").find(text[i]) != std::string::npos;
      if (text == kValid || (kValid[i] != '-' && hex)) continue;
      EXPECT_EQ(ParseTraceParent(text).trace_id, "") << text;
    }
    EXPECT_EQ(ParseTraceParent(kValid.substr(0, i)).trace_id, "") << i;
  }
  for (const std::string& text :
       {"ff-" + kTrace + "-" + kSpan + "-01", "00-" + std::string(32, '0') + "-" + kSpan + "-01",
        "00-" + kTrace + "-" + std::string(16, '0') + "-01", kValid + "-", kValid + "x",
        "cc-" + kTrace + "-" + kSpan + "-01x"}) {
    EXPECT_EQ(ParseTraceParent(text).trace_id, "") << text;
  }
}

}  // namespace
}  // namespace nearfield::server

#include "server/convert/text.h"

#include <cstddef>
#include <cstdint>

#include "server/attributes/schema.h"

namespace nearfield::server {
namespace {

struct Lead {
  int bytes;           // of the whole sequence; 0: not a lead byte
  uint8_t second_min;  // range of the first continuation byte (RFC 3629)
  uint8_t second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xc2 && byte <= 0xdf) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Lead lead = LeadOf(static_cast<uint8_t>(text[i]));
    if (lead.bytes == 0 || text.size() - i < static_cast<size_t>(lead.bytes)) return false;
    for (int j = 1; j < lead.bytes; ++j) {
      const auto byte = static_cast<uint8_t>(text[i + static_cast<size_t>(j)]);
      const uint8_t min = j == 1 ? lead.second_min : 0x80;
      const uint8_t max = j == 1 ? lead.second_max : 0xbf;
      if (byte < min || byte > max) return false;
    }
    i += static_cast<size_t>(lead.bytes);
  }
  return true;
}

std::string Quote(std::string_view text) { return QuoteText(text); }

}  // namespace nearfield::server

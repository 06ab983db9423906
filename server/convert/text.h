// Checks and quoting of text that came from a client.
#ifndef NEARFIELD_SERVER_CONVERT_TEXT_H_
#define NEARFIELD_SERVER_CONVERT_TEXT_H_

#include <string>
#include <string_view>

namespace nearfield::server {

// Well-formed UTF-8 (RFC 3629: no surrogates, nothing overlong, nothing above U+10FFFF).
bool IsUtf8(std::string_view text);

// For a message: in quotes, escaped, cut to a readable length.
std::string Quote(std::string_view text);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONVERT_TEXT_H_

// Checks and quotes text that came from a client.
#pragma once

#include <string>
#include <string_view>

namespace nearfield::server {

// Returns true for well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms, nothing above
// U+10FFFF).
bool IsUtf8(std::string_view text);

// Returns `text` for a message: quoted, escaped and cut to a readable length.
std::string Quote(std::string_view text);

}  // namespace nearfield::server

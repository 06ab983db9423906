// The head of a request as Boost.Beast reads it.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <string>

#include "server/http/exchange.h"

namespace nearfield::server {

using HttpParser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;

inline std::string TextOf(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Returns the address as gRPC writes it: "ipv4:127.0.0.1:51234", "ipv6:%5B::1%5D:51234".
std::string PeerText(const boost::asio::ip::tcp::endpoint& peer);

// Requires: the head was read.
RequestHead RequestHeadOf(const HttpParser& parser, const std::string& peer);

}  // namespace nearfield::server

// ApiClient: one connection to the HTTP port, which stays open between requests.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace nearfield::server {

struct ApiAnswer {
  int status = 0;  // 0: the connection ended without a reply
  std::string body;
  bool is_whole = false;  // false: the connection ended in the middle of the reply
  boost::beast::http::fields headers;

  nlohmann::json Json() const {
    const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << status << ": " << body;
    return json;
  }
  // Returns the messages of a reply of lines.
  std::vector<nlohmann::json> Lines() const {
    std::vector<nlohmann::json> lines;
    for (size_t at = 0; at < body.size();) {
      const size_t end = body.find('\n', at);
      EXPECT_NE(end, std::string::npos);
      if (end == std::string::npos) break;
      lines.push_back(nlohmann::json::parse(body.substr(at, end - at)));
      at = end + 1;
    }
    return lines;
  }
  std::string Header(const char* name) const { return std::string(headers[name]); }
};

class ApiClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // `receive_bytes`: size of the receive buffer; 0: the system's.
  explicit ApiClient(int port, int receive_bytes = 0) {
    boost::system::error_code error;
    socket_.open(boost::asio::ip::tcp::v4(), error);
    if (receive_bytes > 0) {
      socket_.set_option(boost::asio::socket_base::receive_buffer_size(receive_bytes), error);
    }
    socket_.connect(
        {boost::asio::ip::make_address_v4("127.0.0.1"), static_cast<unsigned short>(port)}, error);
    EXPECT_FALSE(error) << error.message();
  }

  // Sends a request and reads the reply. An empty body is not sent.
  ApiAnswer Call(const std::string& verb, const std::string& target, const std::string& body = "",
                 const Headers& headers = {}) {
    namespace http = boost::beast::http;
    http::request<http::string_body> request;
    request.method_string(verb);
    request.target(target);
    request.set("Host", "127.0.0.1");
    if (!body.empty()) {
      request.set("Content-Type", "application/json");
      request.body() = body;
      request.prepare_payload();
    }
    for (const auto& [name, value] : headers) request.set(name, value);
    boost::system::error_code error;
    http::write(socket_, request, error);
    return Read();
  }
  ApiAnswer Post(const std::string& target, const std::string& body, const Headers& headers = {}) {
    return Call("POST", target, body, headers);
  }
  ApiAnswer Get(const std::string& target, const Headers& headers = {}) {
    return Call("GET", target, "", headers);
  }

  void Write(const std::string& text) {
    boost::system::error_code error;
    boost::asio::write(socket_, boost::asio::buffer(text), error);
  }
  // Waits until the server has begun to reply.
  void AwaitReply() {
    boost::system::error_code error;
    socket_.wait(boost::asio::ip::tcp::socket::wait_read, error);
  }
  ApiAnswer Read() {
    namespace http = boost::beast::http;
    http::response_parser<http::string_body> parser;
    parser.body_limit(UINT64_MAX);
    boost::system::error_code error;
    http::read(socket_, buffer_, parser, error);
    ApiAnswer answer;
    answer.is_whole = !error;
    if (!parser.is_header_done()) return answer;
    answer.status = static_cast<int>(parser.get().result_int());
    answer.body = parser.get().body();
    answer.headers = parser.get().base();
    return answer;
  }
  void Close() { socket_.close(); }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_{io_};
  boost::beast::flat_buffer buffer_;
};

}  // namespace nearfield::server

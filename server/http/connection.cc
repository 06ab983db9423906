#include "server/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/error_reply.h"
#include "server/http/request_head.h"

namespace nearfield::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using std::chrono::milliseconds;
using Strand = asio::strand<asio::io_context::executor_type>;
using PlainStream = asio::basic_stream_socket<tcp, Strand>;
using TlsStream = asio::ssl::stream<PlainStream>;
using Error = boost::system::error_code;

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

// Replies may contain text of clients, which no browser may take for a program or keep.
constexpr char kSecurityHeaders[] =
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

template <typename Stream>
class Connection final : public Exchange, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  // `tls`: of a TlsStream, which uses it.
  template <typename... StreamArguments>
  Connection(const ConnectionBase* base, std::shared_ptr<asio::ssl::context> tls,
             StreamArguments&&... arguments)
      : base_(base),
        tls_(std::move(tls)),
        stream_(std::forward<StreamArguments>(arguments)...),
        timer_(stream_.get_executor()),
        call_timer_(stream_.get_executor()) {}

  void Start() {
    Error error;
    peer_ = PeerText(socket().remote_endpoint(error));
    if (error) return Close();
    socket().set_option(tcp::no_delay(true), error);
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      SetTimer(kHttpHeadMs);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const Error& failed) {
                                failed ? self->Close() : self->AwaitRequest();
                              });
    } else {
      AwaitRequest();
    }
  }

  const RequestHead& head() const override { return head_; }
  void Post(std::function<void()> step) override {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this(), step = std::move(step)] { step(); });
  }

  void ReadBody(char* to, size_t size, std::function<void(std::optional<size_t>)> done) override {
    if (parser_->is_done() || is_closed_) {
      const bool left = is_closed_;
      return Post(
          [done = std::move(done), left] { done(left ? std::nullopt : std::optional<size_t>(0)); });
    }
    is_reading_ = true;
    if (std::exchange(awaits_continue_, false)) {
      asio::async_write(stream_, asio::buffer(kContinue, sizeof(kContinue) - 1),
                        [self = this->shared_from_this(), to, size, done = std::move(done)](
                            const Error& /*shows at the read*/, size_t /*bytes*/) {
                          self->ReadPart(to, size, done);
                        });
      return;
    }
    ReadPart(to, size, std::move(done));
  }

  void Watch(std::function<void()> left) override {
    left_ = std::move(left);
    if (is_closed_) return Post([this] { TellLeft(); });
    WatchSocket();
  }

  void StartTimer(milliseconds time, std::function<void()> late) override {
    call_timer_.expires_after(time);
    call_timer_.async_wait([self = this->shared_from_this(), late = std::move(late),
                            set = ++call_timer_count_](const Error& stopped) {
      if (!stopped && set == self->call_timer_count_) late();
    });
  }
  void StopTimer() override {
    ++call_timer_count_;
    call_timer_.cancel();
  }

  void AddHeaders(std::string headers) override { added_headers_ = std::move(headers); }
  void Reply(const ReplyHead& head, std::string body, OnSent sent) override {
    DecideKeepAlive();
    lead_ = absl::StrCat(HeadText(head), "Content-Length: ", body.size(), "\r\n\r\n");
    body_ = std::move(body);
    Write("", AfterLine::kEnd, std::move(sent));
  }

  void SendLine(const ReplyHead& head, std::string line, AfterLine after, OnSent sent) override {
    lead_.clear();
    if (!std::exchange(has_lines_, true)) {
      DecideKeepAlive();
      lead_ = absl::StrCat(HeadText(head), "Transfer-Encoding: chunked\r\n\r\n");
    }
    const bool has_line = !line.empty();
    if (has_line) absl::StrAppend(&lead_, absl::Hex(line.size()), "\r\n");
    body_ = std::move(line);
    Write(after == AfterLine::kEnd ? (has_line ? "\r\n0\r\n\r\n" : "0\r\n\r\n")
                                   : (has_line ? "\r\n" : ""),
          after, std::move(sent));
  }

  void Close() override {
    if (std::exchange(is_closed_, true)) return;
    timer_.cancel();
    Error ignored;
    socket().shutdown(tcp::socket::shutdown_both, ignored);
    socket().close(ignored);
    TellLeft();
  }

 private:
  enum class State : uint8_t { kIdle, kHead, kCall, kLinger };

  PlainStream& socket() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void TellLeft() {
    if (left_ != nullptr) std::exchange(left_, nullptr)();
  }

  // Closes the connection after this time, unless the timer is set again before.
  void SetTimer(int64_t ms) {
    timer_.expires_after(milliseconds(ms));
    timer_.async_wait(
        [self = this->shared_from_this(), set = ++timer_count_](const Error& stopped) {
          if (!stopped && set == self->timer_count_) self->Close();
        });
  }
  void ClearTimer() {
    ++timer_count_;
    timer_.cancel();
  }

  void AwaitRequest() {
    if (is_closed_) return;
    state_ = State::kIdle;
    has_lines_ = false;
    added_headers_.clear();
    parser_.emplace();
    parser_->header_limit(kHttpHeadBytesMax);
    parser_->body_limit(UINT64_MAX);  // limited by what is read
    if (buffer_.size() > 0) return ReadHead();
    SetTimer(base_->settings->connection_idle_ms.value());
    if (base_->ends.load()) return Close();
    WatchSocket();
  }

  // Reads what the client sends next, or notices that it leaves. One read is enough for a client
  // that sends its next request before it has the reply.
  void WatchSocket() {
    if (is_reading_ || is_closed_) return;
    if (state_ == State::kCall && (!parser_->is_done() || buffer_.size() > 0)) return;
    is_reading_ = true;
    stream_.async_read_some(buffer_.prepare(kReadBytes),
                            [self = this->shared_from_this()](const Error& error, size_t bytes) {
                              self->OnRead(error, bytes);
                            });
  }
  void OnRead(const Error& error, size_t bytes) {
    is_reading_ = false;
    if (error) return Close();
    buffer_.commit(bytes);
    if (state_ == State::kIdle) return ReadHead();
    if (state_ == State::kLinger) buffer_.clear();
    WatchSocket();
  }

  void ReadHead() {
    state_ = State::kHead;
    is_reading_ = true;
    SetTimer(kHttpHeadMs);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](
                                const Error& error, size_t /*bytes*/) { self->OnHead(error); });
  }
  void OnHead(const Error& error) {
    is_reading_ = false;
    ClearTimer();
    if (is_closed_) return;
    state_ = State::kCall;
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return Refuse(
          431, absl::StrCat("the head has more than ", kHttpHeadBytesMax, " bytes, the limit"));
    }
    const Error left = http::error::end_of_stream;
    if (error) {
      const bool malformed = error.category() == left.category() && error != left &&
                             error != http::error::partial_message;
      return malformed ? Refuse(400, error.message()) : Close();
    }
    head_ = RequestHeadOf(*parser_, peer_);
    awaits_continue_ =
        head_.has_body && absl::EqualsIgnoreCase(TextOf(parser_->get()["Expect"]), "100-continue");
    if (parser_->get().count("Host") > 1) return Refuse(400, "Host: given more than once");
    base_->handle(this->shared_from_this());
  }

  // Answers a request that cannot be read any further.
  void Refuse(int status, const std::string& problem) {
    is_broken_ = true;
    Reply({.status = status}, ErrorJson(absl::InvalidArgumentError(problem), std::nullopt) + "\n",
          [](bool /*ok*/) {});
  }

  void ReadPart(char* to, size_t size, std::function<void(std::optional<size_t>)> done) {
    auto& body = parser_->get().body();
    body.data = to;
    body.size = size;
    body.more = true;
    http::async_read_some(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this(), to, size, done = std::move(done)](
            const Error& error, size_t /*bytes*/) { self->OnPart(error, to, size, done); });
  }
  void OnPart(const Error& error, char* to, size_t size,
              const std::function<void(std::optional<size_t>)>& done) {
    is_reading_ = false;
    const size_t bytes = size - parser_->get().body().size;
    if (state_ == State::kLinger) {
      buffer_.clear();
      WatchSocket();
      return done(std::nullopt);
    }
    if (is_closed_ || (error && error != http::error::need_buffer)) {
      Close();
      return done(std::nullopt);
    }
    if (bytes == 0 && !parser_->is_done()) {  // the mark of a chunk
      is_reading_ = true;
      return ReadPart(to, size, done);
    }
    if (parser_->is_done()) WatchSocket();
    done(bytes);
  }

  // The connection can be used again if the whole request was read.
  void DecideKeepAlive() {
    const bool is_old = std::chrono::steady_clock::now() - begin_ >=
                        milliseconds(base_->settings->connection_age_ms.value());
    keeps_ = !is_broken_ && !is_old && parser_->is_done() && parser_->get().keep_alive() &&
             !base_->ends.load();
  }

  std::string HeadText(const ReplyHead& head) const {
    const beast::string_view reason =
        http::obsolete_reason(http::int_to_status(static_cast<unsigned>(head.status)));
    return absl::StrCat("HTTP/1.1 ", head.status, " ", TextOf(reason),
                        "\r\nContent-Type: ", head.content_type, "\r\n", kSecurityHeaders,
                        keeps_ ? "" : "Connection: close\r\n", added_headers_, head.more);
  }

  // Sends `lead_`, `body_` and `end`.
  void Write(const char* end, AfterLine after, OnSent sent) {
    if (is_closed_) {
      return Post([sent = std::move(sent)] { sent(false); });
    }
    SetTimer(base_->settings->reply_unread_ms.value());
    const std::array<asio::const_buffer, 3> parts = {
        asio::buffer(lead_), asio::buffer(body_), asio::buffer(end, std::string_view(end).size())};
    asio::async_write(
        stream_, parts,
        [self = this->shared_from_this(), after, sent = std::move(sent)](
            const Error& error, size_t /*bytes*/) { self->OnWritten(error, after, sent); });
  }
  void OnWritten(const Error& error, AfterLine after, const OnSent& sent) {
    ClearTimer();
    std::string().swap(body_);
    if (error) Close();
    const bool ends = after != AfterLine::kMore || is_closed_;
    if (ends) {
      StopTimer();
      left_ = nullptr;
    }
    sent(!is_closed_);
    if (!ends || is_closed_) return;
    keeps_&& after == AfterLine::kEnd ? AwaitRequest() : Linger();
  }

  // Reads and drops what the client still sends: a socket that is closed with unread bytes resets
  // the connection, and the client may lose the reply.
  void Linger() {
    state_ = State::kLinger;
    Error ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    SetTimer(kHttpLingerMs);
    if (!is_reading_) buffer_.clear();
    WatchSocket();
  }

  const ConnectionBase* const base_;
  const std::shared_ptr<asio::ssl::context> tls_;
  Stream stream_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::string peer_;
  State state_ = State::kIdle;
  bool is_closed_ = false;
  bool is_broken_ = false;        // the next request cannot be found
  bool is_reading_ = false;       // a read of the stream is in progress
  bool awaits_continue_ = false;  // the client sends the body after kContinue
  bool keeps_ = false;            // the connection stays open after this reply
  bool has_lines_ = false;        // a line of the reply was sent
  beast::flat_buffer buffer_{kHttpHeadBytesMax + kReadBytes};
  std::optional<HttpParser> parser_;
  RequestHead head_;
  std::function<void()> left_;
  std::string added_headers_;
  std::string lead_;
  std::string body_;
  asio::steady_timer timer_;  // limits of the transport
  uint64_t timer_count_ = 0;
  asio::steady_timer call_timer_;  // of the call
  uint64_t call_timer_count_ = 0;
};

// Returns the protocol of a socket, IPv4 or IPv6.
tcp ProtocolOf(int fd) {
  int domain = AF_INET;
  socklen_t size = sizeof(domain);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_INET6 ? tcp::v6() : tcp::v4();
}

}  // namespace

void BeginConnection(const ConnectionBase* base, int fd,
                     const std::shared_ptr<asio::ssl::context>& tls) {
  PlainStream socket(asio::make_strand(*base->io));
  Error error;
  socket.assign(ProtocolOf(fd), fd, error);
  if (error) {
    close(fd);
    return;
  }
  const auto start = [](const auto& connection) {
    connection->Post([connection] { connection->Start(); });
  };
  if (tls != nullptr) {
    start(std::make_shared<Connection<TlsStream>>(base, tls, std::move(socket), *tls));
  } else {
    start(std::make_shared<Connection<PlainStream>>(base, nullptr, std::move(socket)));
  }
}

}  // namespace nearfield::server

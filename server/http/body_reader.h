// BodyReader: the body of a request, read after its memory is reserved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/exchange.h"
#include "server/scheduler/memory_ledger.h"

namespace nearfield::server {

// Text of a body, and the reservation of its memory.
struct BodyText {
  ByteAccount::Hold hold;
  std::string text;
};

// Used on the strand of the exchange. Lives until the function of the last read was called.
class BodyReader {
 public:
  struct Limits {
    ByteAccount* account = nullptr;
    std::string caller;
    int64_t bytes_max = 0;  // of a body, or of a line
  };
  BodyReader(Exchange* exchange, Limits limits) : exchange_(exchange), limits_(std::move(limits)) {}

  // Null: the body is over. Errors: ResourceExhausted (above bytes_max, or the account has no
  // room), Cancelled (the client left).
  using Done = std::function<void(absl::StatusOr<std::shared_ptr<BodyText>>)>;
  // Reads the whole body. Requires: the client sent its length.
  void ReadAll(Done done);
  // Reads the next line that is not blank.
  void ReadLine(Done done);

 private:
  // Makes room for more bytes after those that were read. Errors: ResourceExhausted.
  absl::Status MakeRoom();
  void ReadMore();
  // Takes the next line off the buffer; null: it has no whole one.
  absl::StatusOr<std::shared_ptr<BodyText>> TakeLine();
  void Continue();
  void End(absl::StatusOr<std::shared_ptr<BodyText>> result);

  Exchange* const exchange_;
  const Limits limits_;
  Done done_;
  bool is_whole_ = false;  // ReadAll
  bool is_over_ = false;   // the end of the body was read
  ByteAccount::Hold hold_;
  std::string buffer_;
  // Offsets in the buffer: of the next line, of what was not searched for its end, and of the end.
  size_t begin_ = 0;
  size_t scanned_ = 0;
  size_t filled_ = 0;
};

}  // namespace nearfield::server

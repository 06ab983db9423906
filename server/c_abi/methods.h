// FindMethod: what the C ABI calls by name: a method of the service with serialized messages.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/c_abi/folder.h"
#include "server/rpc/call_context.h"

namespace nearfield::server {

// Serialized bytes, borrowed from the caller; null data: none.
struct Borrowed {
  const void* data = nullptr;
  size_t size = 0;
};

struct Method {
  // A unary method: blocks until the call has ended; sets `response` if the status is OK. Empty: a
  // method with streams.
  std::function<CallEnd(Folder* folder, Borrowed request, CallFacts facts, std::string* response)>
      call;
  // A method with streams: makes the stream, then starts its call.
  std::function<std::shared_ptr<Stream>(Folder* folder, CallFacts facts)> make_stream;
  std::function<void(Folder* folder, Borrowed request, Stream* stream)> start;
  bool takes_request = false;  // `start` takes the only request
};

// Returns the method with this path, such as "/nearfield.v1.Retrieval/Search", or null.
const Method* FindMethod(std::string_view path);

}  // namespace nearfield::server

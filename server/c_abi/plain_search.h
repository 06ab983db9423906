// PlainSearch: the search of nf_search, from numbers to numbers.
#pragma once

#include <string>

#include "server/c_abi/folder.h"
#include "server/c_abi/nearfield.h"
#include "server/rpc/call_context.h"

namespace nearfield::server {

// Makes the call Search with the request that `search` describes: admission, limits, epochs, audit
// and counters are its own. Fills the answers of `search` and `result`; or, if the ids are texts,
// `message` with the serialized response. Returns the end of the call.
CallEnd PlainSearch(Folder* folder, const nf_plain_search& search, CallFacts facts,
                    nf_plain_result* result, std::string* message);

}  // namespace nearfield::server

// Takes arbitrary bytes as a corpus, its history and a query. The engine's answer must equal the
// oracle's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// libFuzzer's entry: aborts, with the difference on stderr, if the engine's answer is not the
// oracle's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace nearfield::fuzz {

// Describes the difference between the engine's and the oracle's answer to this input; empty if
// they are equal.
std::string SearchDifference(const uint8_t* data, size_t size);

}  // namespace nearfield::fuzz

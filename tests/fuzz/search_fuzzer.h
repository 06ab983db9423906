// Any bytes as a corpus, its history and a query: the engine must answer as the oracle does.
#ifndef NEARFIELD_TESTS_FUZZ_SEARCH_FUZZER_H_
#define NEARFIELD_TESTS_FUZZ_SEARCH_FUZZER_H_

#include <cstddef>
#include <cstdint>
#include <string>

// libFuzzer's entry: aborts, with the difference on stderr, where the engine's answer is not the
// oracle's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace nearfield::fuzz {

// What is wrong with the engine's answer to this input; empty where it is the oracle's.
std::string SearchDifference(const uint8_t* data, size_t size);

}  // namespace nearfield::fuzz

#endif  // NEARFIELD_TESTS_FUZZ_SEARCH_FUZZER_H_

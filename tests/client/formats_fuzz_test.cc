// A bounded run of the fuzz target on valid files with random mutations. The same seed gives the
// same inputs.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/client/prelude.h"
#include "tests/client/test_files.h"
#include "tests/testing/seed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace nearfield::client {
namespace {

constexpr int kRounds = testing::RandomRounds(4000);

void Feed(uint8_t reader, const std::string& bytes) {
  const std::string input = static_cast<char>(reader) + bytes;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Applies a few edits of the kinds that break parsers: bit flips, deletions, insertions of bytes
// with a meaning, copies of a part, and large numbers.
std::string Mutated(std::string bytes, std::mt19937& random) {
  using std::literals::operator""sv;  // one of the bytes is NUL
  static constexpr std::string_view kTelling =
      "[]{}(),:\"'\\ \n\0-+.eE0123456789<>|FTnotandrZ`=!\xff\x80\xef"sv;
  for (uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
    const size_t at = bytes.empty() ? 0 : random() % bytes.size();
    switch (random() % 6) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        break;
      case 1: bytes.resize(at); break;
      case 2: bytes.insert(at, 1, kTelling[random() % kTelling.size()]); break;
      case 3: bytes.insert(at, bytes.substr(random() % (bytes.size() + 1), random() % 20)); break;
      case 4:
        bytes.insert(
            at, std::to_string(random() % 2 == 0 ? ~uint64_t{0} : uint64_t{1} << (random() % 64)));
        break;
      default:
        for (size_t i = at; i < bytes.size() && i < at + 4; ++i)
          bytes[i] = static_cast<char>(random());
    }
  }
  return bytes;
}

struct Seed {
  uint8_t reader;
  std::string bytes;
};

std::vector<Seed> Seeds() {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  return {{0, Npy(NpyHeaderText("<f4", "(2, 3)"), Bytes(values))},
          {0, Npy(NpyHeaderText("<f2", "(4, 3)"), Bytes(values), 2)},
          {1, Npy(NpyHeaderText("<u2", "(4, 3)"), Bytes(values), 3)},
          {2, Fbin(2, 3, values)},
          {3, Fvecs({{1, 2, 3}, {4, 5, 6}})},
          {4, Npy(NpyHeaderText("<u8", "(3,)"), Bytes(std::vector<uint64_t>{1, 2, 3}))},
          {4, "1\n22\n333\n"},
          {4, "\"a\"\n\"b\\u00e9\"\r\n\"\"\n"},
          {5, R"({"id": 7, "vector": [0.25, -1e-3], "payload": {"a": [true, null], "b": "x\ny"}})"},
          {5, "[[1, 2.5e10], [3, 4]]\n"},
          {6, "[1, 2]\n{\"vector\": [3]}\n"},
          {7, "1,2.5,true,\"d\"\"e\",2024-05-17,\"[\"\"a\"\"]\",\"[1,2]\",7\r\n"},
          {7,
           "\xef\xbb\xbfid,vector,payload,n,ks\n7,\"[1, "
           "2.5e10]\",\"a\nb\",,\"[\"\"a\"\"]\"\n\n8,[3],,1,\n"},
          {7, "2024-05-17T09:30:00.25Z"}};
}

TEST(FormatsFuzz, MutatedFilesAreReadOrRefusedButNeverMisread) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  for (const Seed& seed : Seeds()) {
    Feed(seed.reader, seed.bytes);
    for (int round = 0; round < kRounds; ++round) Feed(seed.reader, Mutated(seed.bytes, random));
  }
}

TEST(FormatsFuzz, ShortInputsOfEveryKind) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  for (int round = 0; round < testing::RandomRounds(20000); ++round) {
    std::string bytes(random() % 16, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    Feed(static_cast<uint8_t>(random()), bytes);
  }
}

}  // namespace
}  // namespace nearfield::client

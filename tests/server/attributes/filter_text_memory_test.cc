// Tests FilterTextMemoryMax against the memory that parsing and checking a text takes: counts every
// allocation.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "server/attributes/filter.h"
#include "server/attributes/filter_text.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_printer.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace {

int64_t held_bytes = 0;
int64_t held_count = 0;
int64_t peak_bytes = 0;

void* Allocate(size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  held_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  ++held_count;
  peak_bytes = std::max(peak_bytes, held_bytes);
  return memory;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  held_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  --held_count;
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { Free(memory); }
void operator delete[](void* memory, size_t /*size*/) noexcept { Free(memory); }

namespace nearfield::server {
namespace {

struct Taken {
  int64_t peak_bytes = 0;
  int64_t held_bytes = 0;      // by an accepted filter
  int64_t held_count = 0;      // its allocations
  int64_t reported_bytes = 0;  // Filter::bytes()
};

Taken Measure(const std::string& text, const AttributeSchema& schema,
              const std::vector<FilterArgument>& arguments = {}) {
  const int64_t before = held_bytes;
  const int64_t count_before = held_count;
  peak_bytes = before;
  Taken taken;
  auto tree = ParseFilterText(text, arguments, IdType::kUint64, schema, {});
  if (tree.ok()) {
    const Filter filter(*std::move(tree), schema);
    taken.peak_bytes = peak_bytes - before;
    tree = absl::CancelledError("");
    taken.held_bytes = held_bytes - before;
    taken.held_count = held_count - count_before;
    taken.reported_bytes = filter.bytes();
    return taken;
  }
  taken.peak_bytes = peak_bytes - before;
  return taken;
}

void ExpectWithinBound(const std::string& text, const AttributeSchema& schema,
                       const std::vector<FilterArgument>& arguments = {},
                       const ArgumentSize& argument = {}) {
  const Taken taken = Measure(text, schema, arguments);
  EXPECT_LE(taken.peak_bytes, FilterTextMemoryMax(text, argument, {}))
      << text.size() << " bytes: " << text.substr(0, 100);
}

// Returns `bytes` of different numbers, between the texts.
std::string Numbers(const std::string& before, const std::string& after, size_t bytes) {
  std::string text;
  for (int64_t number = 0; text.size() < bytes; ++number) {
    text += before + std::to_string(number) + after;
  }
  return text;
}

std::string Repeated(const std::string& part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

TEST(FilterTextMemory, NoTextTakesMoreThanTheBound) {
  const AttributeSchema schema =
      *AttributeSchema::Create({{.name = "n"},
                                {.name = "k", .type = AttributeType::kKeyword},
                                {.name = "ks", .type = AttributeType::kKeyword, .is_list = true}},
                               {});
  for (const size_t bytes :
       {size_t{0}, size_t{100}, size_t{500}, size_t{1000}, size_t{1700}, size_t{8000}, size_t{8190},
        size_t{12000}, size_t{30000}, size_t{65000}}) {
    ExpectWithinBound(Repeated("n<1 or ", bytes) + "n<1", schema);
    ExpectWithinBound(Repeated("not not not not not n<1 or ", bytes) + "n<1", schema);
    ExpectWithinBound(Repeated("not not n<1 and ", bytes) + "n<1", schema);
    ExpectWithinBound(Repeated("not(not(n<1 and n<2 or n<3)or n<4)and ", bytes) + "n<1", schema);
    ExpectWithinBound("n in(" + Repeated("1,", bytes) + "1)", schema);
    ExpectWithinBound("n in(" + Numbers("", ",", bytes) + "1)", schema);
    ExpectWithinBound("k in(" + Numbers("'", "',", bytes) + "'')", schema);
    ExpectWithinBound("id in(" + Numbers("", ",", bytes) + "1)", schema);
    ExpectWithinBound("k in(" + Repeated("'',", bytes) + "'')", schema);
    ExpectWithinBound("k in(" + Repeated("'0123456789abcdef',", bytes) + "'')", schema);
    ExpectWithinBound("id in(" + Repeated("1,", bytes) + "1)", schema);
    ExpectWithinBound("k=='" + Repeated("\\u00e9\"", bytes) + "'", schema);
    ExpectWithinBound("k=='" + std::string(bytes, 'x') + "'", schema);
    ExpectWithinBound(Repeated("n in(1)or ks all('')or ", bytes) + "n<1", schema);
    ExpectWithinBound(Repeated("not(not(not n in(1,2,3,4,5,6,7,8)))or ", bytes) + "n<1", schema);
    ExpectWithinBound(std::string(bytes, '('), schema);
    ExpectWithinBound("`" + std::string(bytes, 'x') + "`", schema);
    ExpectWithinBound(std::string(bytes, '7') + "x", schema);
  }
  for (const int64_t values : {1, 10, 100, 1000, 4096}) {
    const FilterArgument numbers = Integers(std::vector<int64_t>(static_cast<size_t>(values), 7));
    const FilterArgument keywords = Keywords(std::vector<std::string>(
        static_cast<size_t>(values), std::string(static_cast<size_t>(16000 / values), 'x')));
    for (const size_t bytes : {size_t{0}, size_t{50}, size_t{1500}}) {
      const ArgumentSize of_numbers = {.values = values, .bytes = values};
      const ArgumentSize of_keywords = {.values = values, .bytes = 16000};
      ExpectWithinBound(Repeated("n in $1 or ", bytes) + "n in $1", schema, {numbers}, of_numbers);
      ExpectWithinBound(Repeated("k in $1 or ", bytes) + "k in $1", schema, {keywords},
                        of_keywords);
      ExpectWithinBound(Repeated("id in $1 or ", bytes) + "id in $1", schema, {numbers},
                        of_numbers);
    }
  }
  // Conditions with as many values as all of them may have together.
  for (int64_t values = 1; values <= 4096; values *= 2) {
    const std::string in = "n in(" + Repeated("1,", 2 * static_cast<size_t>(values) - 2) + "1)or ";
    ExpectWithinBound(Repeated(in, 16384) + "n<1", schema);
    ExpectWithinBound(Repeated("not(" + in + "n<2)and ", 15000) + "n<1", schema);
  }
}

TEST(FilterTextMemory, RandomTextsKeepTheBoundAndFiltersReportTheirBytes) {
  testing::Random random(testing::TestSeed());
  for (int round = 0; round < 1000; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const FilterTree tree = RandomFilter(random, specs, 4, 20);
    if (!FitsAsText(tree)) continue;
    const std::string text = TextOf(tree);
    const Taken taken = Measure(text, schema);
    ASSERT_LE(taken.peak_bytes, FilterTextMemoryMax(text, {}, {})) << text;
    // malloc rounds each allocation up by less than 24 bytes.
    ASSERT_LE(taken.held_bytes, taken.reported_bytes + 24 * taken.held_count) << text;
  }
}

}  // namespace
}  // namespace nearfield::server

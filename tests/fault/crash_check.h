// Compares a store with the model of what was acknowledged.
#ifndef NEARFIELD_TESTS_FAULT_CRASH_CHECK_H_
#define NEARFIELD_TESTS_FAULT_CRASH_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/store.h"
#include "tests/fault/crash_model.h"

namespace nearfield::fault {

struct Findings {
  int64_t lost = 0;   // acknowledged rows, or whatever else was acknowledged, that are not there
  int64_t half = 0;   // commits of which only a part is there
  int64_t wrong = 0;  // rows with other bytes, rows that must not be there, refusals
  std::string first;  // what was found first, in words

  bool none() const { return lost + half + wrong == 0; }
  void Add(int64_t* count, int64_t by, const std::string& what) {
    *count += by;
    if (first.empty()) first = what;
  }
};

// Everything a store says it holds, as a model. Errors: what the store said.
absl::StatusOr<Model> Read(const store::Store& store, const Model& expected);

// Compares with `acknowledged`. Any of the operations in flight, which were begun and never
// acknowledged, may be there as a whole, in any order that the model allows.
// Returns the findings; `*happened` the operations that are there, in such an order.
Findings Compare(const Model& found, const Model& acknowledged,
                 const std::vector<Operation>& in_flight, std::vector<Operation>* happened);

}  // namespace nearfield::fault

#endif  // NEARFIELD_TESTS_FAULT_CRASH_CHECK_H_

// Compares a store with the model of what was acknowledged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/store.h"
#include "tests/fault/crash_model.h"

namespace nearfield::fault {

struct Findings {
  int64_t lost = 0;   // acknowledged rows and other acknowledged changes that are missing
  int64_t half = 0;   // commits that are present only in part
  int64_t wrong = 0;  // rows with other bytes, unexpected rows, refusals
  std::string first;  // the first finding, in words

  bool none() const { return lost + half + wrong == 0; }
  void Add(int64_t* count, int64_t by, const std::string& what) {
    *count += by;
    if (first.empty()) first = what;
  }
};

// Returns the content of a store as a model. Errors: those of the store.
absl::StatusOr<Model> Read(const store::Store& store, const Model& expected);

// Compares with `acknowledged`. Any operation in flight (begun and never acknowledged) may be
// present as a whole, in any order that the model allows. Returns the findings; sets `*happened` to
// the operations that are present, in such an order.
Findings Compare(const Model& found, const Model& acknowledged,
                 const std::vector<Operation>& in_flight, std::vector<Operation>* happened);

}  // namespace nearfield::fault

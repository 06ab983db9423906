// RowModel: a collection as a map. It defines the correct content and answers after any changes.
#ifndef NEARFIELD_TESTS_SERVER_ROW_MODEL_H_
#define NEARFIELD_TESTS_SERVER_ROW_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/engine.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/schema.h"
#include "tests/server/attributes/attribute_rows.h"

namespace nearfield::server {

// A copy of the model is the state of one epoch.
struct RowModel {
  struct Row {
    std::vector<float> values;
    std::string payload;
    PlainRow attributes;
  };

  uint64_t epoch = 0;
  std::map<uint64_t, Row> rows;

  std::vector<uint64_t> Passing(const FilterTree& filter,
                                const std::vector<AttributeSpec>& specs) const;
  std::vector<uint64_t> AllIds() const;
};

struct ModelQuery {
  std::vector<float> vector;  // empty: use the row with the id
  std::optional<uint64_t> row_id;
  int32_t k = 1;
  int64_t skip = 0;
  std::optional<float> score_threshold;
};

// Returns the oracle's answer over the rows with these ids.
Neighbors ModelAnswer(const CollectionSpec& spec, const RowModel& model,
                      absl::Span<const uint64_t> ids, const ModelQuery& query);

}  // namespace nearfield::server

#endif  // NEARFIELD_TESTS_SERVER_ROW_MODEL_H_

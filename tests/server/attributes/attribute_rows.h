// Rows with attributes as plain values, and a slow reference filter that is obviously correct.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/columns.h"
#include "server/attributes/evaluate.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/row_reader.h"
#include "tests/testing/random.h"
#include "tests/testing/row_model.h"

namespace nearfield::server {

using PlainValue = std::variant<int64_t, double, bool, std::string>;

// The values of one attribute: absent if the row has none; one value, or those of a list.
using PlainAttribute = std::optional<std::vector<PlainValue>>;

struct PlainRow {
  std::vector<PlainAttribute> attributes;  // in the schema's order
};

std::vector<PlainRow> RandomRows(testing::Random& random, const std::vector<AttributeSpec>& specs,
                                 int64_t rows_count);

// Returns the rows as a block.
AttributeBlock BlockOf(const AttributeSchema& schema, absl::Span<const PlainRow> rows);

// Expects that the blocks have the same values, to the bit.
void ExpectSameBits(const AttributeBlock& a, const AttributeBlock& b);

// Returns all attributes of the reader's rows.
AttributeBlock ReadAll(const RowReader& rows);

// Returns true if the row with this id passes. Evaluates every value, as the contract defines it.
bool Passes(const FilterTree& filter, const std::vector<AttributeSpec>& specs, const PlainRow& row,
            uint64_t id);

// Returns the ordinals of the rows that pass. Row i has ordinal and id i.
std::vector<uint32_t> PassingRows(const FilterTree& filter, const std::vector<AttributeSpec>& specs,
                                  absl::Span<const PlainRow> rows);

// The expected content of a collection of the server. Its ids are numbers.
using RowModel = testing::RowModel<PlainRow>;

// Returns the ids of the rows that pass, ascending.
std::vector<Id> PassingIds(const FilterTree& filter, const std::vector<AttributeSpec>& specs,
                           const RowModel& model);

// Returns columns that hold the rows, in uploads of these sizes. The last upload takes the rest.
std::unique_ptr<AttributeColumns> ColumnsOf(const AttributeSchema& schema,
                                            absl::Span<const PlainRow> rows,
                                            absl::Span<const int64_t> upload_sizes);

// Resolves ids for rows 0 .. rows_count - 1 whose ordinal is their id.
EvaluateOptions IdsAreOrdinals(int64_t rows_count);

}  // namespace nearfield::server

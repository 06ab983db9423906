#include "tests/server/attributes/attribute_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/server/attributes/filter_maker.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using testing::Random;

PlainValue ValueAt(const ValueColumn& values, int64_t index) {
  switch (values.type()) {
    case AttributeType::kKeyword: return std::string(values.keyword(index));
    case AttributeType::kDouble: return values.number(index);
    case AttributeType::kBool: return values.bits(index) == 1;
    default: return values.bits(index);
  }
}

void Append(const PlainValue& value, ValueColumn* values) {
  switch (values->type()) {
    case AttributeType::kKeyword: return values->AppendKeyword(std::get<std::string>(value));
    case AttributeType::kDouble: return values->AppendDouble(std::get<double>(value));
    case AttributeType::kBool: return values->AppendBool(std::get<bool>(value));
    default: return values->AppendInteger(std::get<int64_t>(value));
  }
}

bool Holds(const PlainValue& left, Comparison comparison, const PlainValue& right) {
  switch (comparison) {
    case Comparison::kEqual: return left == right;
    case Comparison::kNotEqual: return left != right;
    case Comparison::kLess: return left < right;
    case Comparison::kLessEqual: return left <= right;
    case Comparison::kGreater: return left > right;
    case Comparison::kGreaterEqual: return left >= right;
  }
  return false;
}

struct RowCheck {
  const FilterTree& filter;
  const std::vector<AttributeSpec>& specs;
  const PlainRow& row;
  uint64_t id;

  const PlainAttribute& attribute(const std::string& name) const {
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].name == name) return row.attributes[i];
    }
    static const PlainAttribute* const missing = new PlainAttribute();
    return *missing;
  }

  // Returns how many of the condition's values the row has.
  int64_t Met(const Condition& asked) const {
    const PlainAttribute& values = attribute(asked.attribute);
    int64_t met = 0;
    for (int64_t i = 0; values.has_value() && i < asked.values.size(); ++i) {
      const PlainValue wanted = ValueAt(asked.values, i);
      met += std::find(values->begin(), values->end(), wanted) != values->end() ? 1 : 0;
    }
    return met;
  }

  bool Passes(int32_t place) const {
    const Condition& asked = filter.conditions[static_cast<size_t>(place)];
    const auto passes = [&](int32_t child) { return Passes(child); };
    switch (asked.kind) {
      case ConditionKind::kAnd:
        return std::all_of(asked.children.begin(), asked.children.end(), passes);
      case ConditionKind::kOr:
        return std::any_of(asked.children.begin(), asked.children.end(), passes);
      case ConditionKind::kNot: return !Passes(asked.children[0]);
      case ConditionKind::kComparison: {
        const PlainAttribute& values = attribute(asked.attribute);
        return values.has_value() &&
               Holds(values->at(0), asked.comparison, ValueAt(asked.values, 0));
      }
      case ConditionKind::kIn:
      case ConditionKind::kListAny: return Met(asked) > 0;
      case ConditionKind::kListAll: return Met(asked) == asked.values.size();
      case ConditionKind::kExists: return attribute(asked.attribute).has_value();
      case ConditionKind::kHasId: {
        bool named = false;
        for (int64_t i = 0; i < asked.ids.size(); ++i) named = named || asked.ids.number(i) == id;
        return named;
      }
    }
    return false;
  }
};

}  // namespace

std::vector<PlainRow> RandomRows(Random& random, const std::vector<AttributeSpec>& specs,
                                 int64_t rows_count) {
  std::vector<int64_t> missing_in;  // N: the attribute is missing in one row of N; 1: in all
  for (size_t i = 0; i < specs.size(); ++i)
    missing_in.push_back(random.OneOf<int64_t>({1, 2, 3, 10, 1 << 30}));
  std::vector<PlainRow> rows(static_cast<size_t>(rows_count));
  for (PlainRow& row : rows) {
    for (size_t i = 0; i < specs.size(); ++i) {
      PlainAttribute attribute;
      if (!random.OneIn(missing_in[i])) {
        ValueColumn drawn(specs[i].type);
        const int64_t count = specs[i].is_list ? random.Between(0, 5) : 1;
        attribute.emplace();
        for (int64_t value = 0; value < count; ++value) {
          AppendRandomValue(random, &drawn);
          attribute->push_back(ValueAt(drawn, value));
        }
      }
      row.attributes.push_back(std::move(attribute));
    }
  }
  return rows;
}

AttributeBlock BlockOf(const AttributeSchema& schema, absl::Span<const PlainRow> rows) {
  AttributeBlock block = EmptyBlock(schema);
  block.rows_count = static_cast<int64_t>(rows.size());
  for (const PlainRow& row : rows) {
    for (size_t i = 0; i < block.columns.size(); ++i) {
      AttributeColumn& column = block.columns[i];
      const PlainAttribute& attribute = row.attributes[i];
      column.present.push_back(attribute.has_value());
      if (!attribute.has_value()) continue;
      if (schema.at(static_cast<int32_t>(i)).is_list)
        column.list_sizes.push_back(static_cast<uint32_t>(attribute->size()));
      for (const PlainValue& value : *attribute) Append(value, &column.values);
    }
  }
  return block;
}

void ExpectSameBits(const AttributeBlock& a, const AttributeBlock& b) {
  ASSERT_EQ(a.rows_count, b.rows_count);
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (size_t i = 0; i < a.columns.size(); ++i) {
    const ValueColumn& values = a.columns[i].values;
    EXPECT_EQ(a.columns[i].present, b.columns[i].present);
    EXPECT_EQ(a.columns[i].list_sizes, b.columns[i].list_sizes);
    ASSERT_EQ(values.size(), b.columns[i].values.size());
    ASSERT_EQ(values.type(), b.columns[i].values.type());
    for (int64_t value = 0; value < values.size(); ++value) {
      if (values.is_keyword()) {
        EXPECT_EQ(values.keyword(value), b.columns[i].values.keyword(value));
      } else {
        EXPECT_EQ(values.bits(value), b.columns[i].values.bits(value));
      }
    }
  }
}

AttributeBlock ReadAll(const RowReader& rows) {
  AttributeBlock block = {.rows_count = rows.rows_count(), .columns = {}};
  for (int32_t attribute = 0; attribute < rows.schema().size(); ++attribute) {
    block.columns.push_back(rows.Read(attribute, rows.rows_count()));
  }
  return block;
}

bool Passes(const FilterTree& filter, const std::vector<AttributeSpec>& specs, const PlainRow& row,
            uint64_t id) {
  return RowCheck{filter, specs, row, id}.Passes(0);
}

std::vector<uint32_t> PassingRows(const FilterTree& filter, const std::vector<AttributeSpec>& specs,
                                  absl::Span<const PlainRow> rows) {
  std::vector<uint32_t> passing;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (Passes(filter, specs, rows[i], i)) passing.push_back(i);
  }
  return passing;
}

std::vector<Id> PassingIds(const FilterTree& filter, const std::vector<AttributeSpec>& specs,
                           const RowModel& model) {
  std::vector<Id> ids;
  for (const auto& [id, row] : model.rows) {
    if (Passes(filter, specs, row.attributes, std::get<uint64_t>(id))) ids.push_back(id);
  }
  return ids;
}

std::unique_ptr<AttributeColumns> ColumnsOf(const AttributeSchema& schema,
                                            absl::Span<const PlainRow> rows,
                                            absl::Span<const int64_t> upload_sizes) {
  auto columns = std::make_unique<AttributeColumns>(schema);
  size_t begin = 0;
  for (size_t upload = 0; begin < rows.size(); ++upload) {
    const size_t size = upload < upload_sizes.size() ? static_cast<size_t>(upload_sizes[upload])
                                                     : rows.size() - begin;
    AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema));
    EXPECT_OK(builder.Append(BlockOf(schema, rows.subspan(begin, size))));
    auto chunks = builder.Build(static_cast<uint32_t>(begin));
    EXPECT_OK(chunks);
    EXPECT_OK(columns->Add(*std::move(chunks)));
    begin += size;
  }
  return columns;
}

EvaluateOptions IdsAreOrdinals(int64_t rows_count) {
  EvaluateOptions options;
  options.resolve_ids = [rows_count](const IdColumn& ids) -> absl::StatusOr<OrdinalSet> {
    OrdinalSet ordinals;
    for (int64_t i = 0; i < ids.size(); ++i) {
      if (ids.number(i) < static_cast<uint64_t>(rows_count))
        ordinals.Add(static_cast<uint32_t>(ids.number(i)));
    }
    return ordinals;
  };
  return options;
}

}  // namespace nearfield::server

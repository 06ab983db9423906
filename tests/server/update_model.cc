#include "tests/server/update_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using testing::Random;

// Removes the values of undeclared attributes.
void KeepDeclared(const AttributeSchema& schema, AttributeBlock* block) {
  for (int32_t number = 0; number < schema.size(); ++number) {
    if (!schema.at(number).dropped) continue;
    AttributeColumn& column = block->columns[static_cast<size_t>(number)];
    column = EmptyColumn(schema.at(number));
    column.present.assign(static_cast<size_t>(block->rows_count), false);
  }
}

}  // namespace

std::vector<AttributeSpec> Declared::ByNumber() const {
  std::vector<AttributeSpec> specs;
  for (int32_t number = 0; number < schema.size(); ++number) {
    specs.push_back(schema.at(number));
    if (specs.back().dropped) specs.back().name.clear();
  }
  return specs;
}

std::vector<AttributeSpec> Declared::Specs() const {
  std::vector<AttributeSpec> specs;
  for (const int32_t number : schema.declared()) specs.push_back(schema.at(number));
  return specs;
}

std::vector<PlainRow> Declared::DrawRows(Random& random, int64_t rows_count) const {
  std::vector<PlainRow> rows = RandomRows(random, ByNumber(), rows_count);
  for (PlainRow& row : rows) {
    for (int32_t number = 0; number < schema.size(); ++number) {
      if (schema.at(number).dropped) row.attributes[static_cast<size_t>(number)].reset();
    }
  }
  return rows;
}

void Declared::ExpectRows(const RowReader& rows, std::vector<PlainRow> expected) const {
  for (PlainRow& row : expected) row.attributes.resize(static_cast<size_t>(schema.size()));
  AttributeBlock expected_block = BlockOf(schema, expected);
  AttributeBlock block = ReadAll(rows);
  block.columns.resize(static_cast<size_t>(schema.size()));  // the reader may know later ones
  KeepDeclared(schema, &block);
  KeepDeclared(schema, &expected_block);
  ExpectSameBits(block, expected_block);
}

AttributeSchema Declared::Changed(Random& random) const {
  const std::vector<AttributeSpec> specs = Specs();
  if (specs.size() > 1 && random.OneIn(2))
    return *schema.Without(random.OneOf<AttributeSpec>(specs).name);
  AttributeSpec added = random.OneOf<AttributeSpec>(RandomSpecs(random));
  // The name of a dropped attribute, or a new one.
  added.name = absl::StrCat("added_", random.Between(0, 3));
  for (int32_t number = 0; number < schema.size(); ++number) {
    if (schema.at(number).dropped && random.OneIn(2)) added.name = schema.at(number).name;
  }
  absl::StatusOr<AttributeSchema> with = schema.With(added, AttributeLimits());
  if (with.ok()) return *std::move(with);
  return specs.size() > 1 ? *schema.Without(random.OneOf<AttributeSpec>(specs).name) : schema;
}

DrawnUpdate::DrawnUpdate(Random& random, const Declared& declared, const RowModel& model,
                         uint64_t ids_max, std::string token)
    : declared_(declared), token_(std::move(token)) {
  const auto draw_filter = [&] {
    return RandomFilter(random, declared.Specs(), static_cast<int>(random.Between(1, 4)), ids_max);
  };
  int64_t entries = 1;
  if (random.OneIn(4)) {
    choose_ = draw_filter();
  } else {
    entries = random.Between(1, 16);
    std::set<uint64_t> ids;
    while (static_cast<int64_t>(ids.size()) < entries) {
      ids.insert(static_cast<uint64_t>(random.Between(0, static_cast<int64_t>(ids_max))));
    }
    ids_.assign(ids.begin(), ids.end());
    for (size_t i = ids_.size(); i > 1; --i) {
      std::swap(ids_[i - 1], ids_[static_cast<size_t>(random.Bits() % i)]);
    }
    if (random.OneIn(3)) if_filter_ = draw_filter();
  }
  if (random.OneIn(6)) if_epoch_ = model.epoch + static_cast<uint64_t>(random.Between(0, 2));
  values_ = declared.DrawRows(random, entries);
  const auto draw_mask = [&] {
    std::vector<bool> mask;
    const bool all = random.OneIn(2);
    for (int64_t entry = 0; entry < entries; ++entry) mask.push_back(all || random.OneIn(2));
    return mask;
  };
  for (const int32_t number : declared.schema.declared()) {
    if (random.OneIn(3)) changed_[number] = draw_mask();
  }
  if (changed_.empty() || random.OneIn(2)) {
    payload_changed_ = draw_mask();
    for (int64_t entry = 0; entry < entries; ++entry) {
      // Sometimes more than all uploads together.
      const int64_t size = random.OneIn(20) ? 20'000 : random.Between(0, 30);
      payloads_.push_back(std::string(static_cast<size_t>(size), 'u'));
    }
  }
}

RowUpdate DrawnUpdate::Request() const {
  RowUpdate request;
  for (const uint64_t id : ids_) request.ids.AppendNumber(id);
  for (const auto& [number, changed] : changed_) {
    std::vector<PlainRow> rows = values_;
    for (size_t entry = 0; entry < rows.size(); ++entry) {
      if (!changed[entry]) rows[entry].attributes[static_cast<size_t>(number)].reset();
    }
    AttributeBlock block = BlockOf(declared_.schema, rows);
    request.attributes.push_back({.attribute = number,
                                  .changed = changed,
                                  .column = std::move(block.columns[static_cast<size_t>(number)])});
  }
  for (size_t entry = 0; entry < payloads_.size(); ++entry) {
    request.payloads.push_back(payload_changed_[entry] ? &payloads_[entry] : nullptr);
  }
  if (choose_.has_value()) request.choose.emplace(*choose_, declared_.schema);
  if (if_filter_.has_value()) request.if_filter.emplace(*if_filter_, declared_.schema);
  request.if_epoch = if_epoch_;
  request.token = token_;
  request.encode_reply = [](const UpdateReply& reply) { return absl::StrCat("at ", reply.epoch); };
  request.dead = [] { return absl::OkStatus(); };
  return request;
}

void DrawnUpdate::ApplyTo(size_t entry, RowModel::Row* row) const {
  std::vector<PlainAttribute>& attributes = row->attributes.attributes;
  attributes.resize(static_cast<size_t>(declared_.schema.size()));
  for (const auto& [number, changed] : changed_) {
    const auto place = static_cast<size_t>(number);
    if (changed[entry]) attributes[place] = values_[entry].attributes[place];
  }
  if (!payloads_.empty() && payload_changed_[entry]) row->payload = payloads_[entry];
}

std::optional<UpdateReply> DrawnUpdate::Apply(RowModel* model) const {
  if (if_epoch_.has_value() && *if_epoch_ != model->epoch) return std::nullopt;
  UpdateReply reply;
  const std::vector<AttributeSpec> specs = declared_.ByNumber();
  for (auto& [id, row] : model->rows) row.attributes.attributes.resize(specs.size());
  if (choose_.has_value()) {
    for (const Id& id : PassingIds(*choose_, specs, *model)) {
      ApplyTo(0, &model->rows.at(id));
      ++reply.rows_updated;
    }
  }
  for (size_t entry = 0; entry < ids_.size(); ++entry) {
    const auto row = model->rows.find(ids_[entry]);
    if (row == model->rows.end()) {
      reply.missing.AppendNumber(ids_[entry]);
    } else if (if_filter_.has_value() &&
               !Passes(*if_filter_, specs, row->second.attributes, ids_[entry])) {
      reply.refused.AppendNumber(ids_[entry]);
    } else {
      ApplyTo(entry, &row->second);
      ++reply.rows_updated;
    }
  }
  if (reply.rows_updated > 0) ++model->epoch;
  reply.epoch = model->epoch;
  return reply;
}

void ExpectReply(const UpdateReply& reply, const UpdateReply& expected) {
  EXPECT_EQ(reply.epoch, expected.epoch);
  EXPECT_EQ(reply.rows_updated, expected.rows_updated);
  for (const auto& [got, wanted] : {std::pair(&reply.missing, &expected.missing),
                                    std::pair(&reply.refused, &expected.refused)}) {
    ASSERT_EQ(got->size(), wanted->size());
    for (int64_t i = 0; i < got->size(); ++i) EXPECT_EQ(got->at(i), wanted->at(i));
  }
}

}  // namespace nearfield::server

// Random updates of rows and of declarations, and their correct effect on a model of the rows.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/schema.h"
#include "server/collections/update_queue.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/testing/random.h"

namespace nearfield::server {

// The attributes that a collection declares at one epoch.
struct Declared {
  AttributeSchema schema;

  // Returns all attributes by number, those that were dropped without a name: no filter finds them.
  std::vector<AttributeSpec> ByNumber() const;
  // Returns the declared ones.
  std::vector<AttributeSpec> Specs() const;
  // Returns rows with an entry for each attribute, without values of dropped ones.
  std::vector<PlainRow> DrawRows(testing::Random& random, int64_t rows_count) const;
  // Expects that the rows have the values of `expected` in the declared attributes. An attribute
  // that a row of the model does not know has no value.
  void ExpectRows(const RowReader& rows, std::vector<PlainRow> expected) const;
  // Adds an attribute or drops one. Returns the change as the server is asked for it.
  AttributeSchema Changed(testing::Random& random) const;
};

// An update, and what the server must reply.
class DrawnUpdate {
 public:
  DrawnUpdate(testing::Random& random, const Declared& declared, const RowModel& model,
              uint64_t ids_max, std::string token);

  // Returns the request. Valid while this exists.
  RowUpdate Request() const;
  // Applies the update to the model. Returns the reply; nullopt if if_epoch refuses it.
  std::optional<UpdateReply> Apply(RowModel* model) const;

 private:
  // Changes the row as entry `entry` says.
  void ApplyTo(size_t entry, RowModel::Row* row) const;

  Declared declared_;
  std::vector<uint64_t> ids_;
  std::optional<FilterTree> choose_;
  std::optional<FilterTree> if_filter_;
  std::optional<uint64_t> if_epoch_;
  std::string token_;
  std::vector<PlainRow> values_;                  // by entry
  std::map<int32_t, std::vector<bool>> changed_;  // the attributes that change, by number
  std::deque<std::string> payloads_;              // by entry; empty: payloads stay
  std::vector<bool> payload_changed_;
};

// Expects that the reply of the server is that of the model.
void ExpectReply(const UpdateReply& reply, const UpdateReply& expected);

}  // namespace nearfield::server

// RowUpdate: new attributes and payloads of rows that stay where they are. Their vectors and scores
// do not change, nor do the answers of searches without filters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// New values of one attribute. Updates by id have an entry for each id; updates by filter have one
// entry, which is that of all rows that pass.
struct AttributeUpdate {
  AttributeColumn column;  // a row without a value in it loses the value that it has
  // For each entry, true if the row changes; the other rows keep their values, and have none in
  // `column`. Empty: all rows change.
  std::vector<bool> changed;
};

struct RowUpdate {
  std::vector<AttributeUpdate> attributes;  // each attribute at most once; the others stay
  // Entries as above; an empty payload removes the one that a row has. Empty: payloads stay.
  std::vector<std::string> payloads;
  std::vector<bool> payloads_changed;  // as AttributeUpdate::changed; rows that keep theirs: ""
  // For updates by id: a row changes only if it passes at the epoch before. With `version == 7`, an
  // update is a compare and set.
  std::optional<Filter> if_filter;
  // The call changes something only if this is the epoch before it. Name its incarnation, too.
  std::optional<uint64_t> if_epoch;
  std::optional<uint64_t> incarnation;
  // 1 .. 256 bytes, chosen by the caller. Another call with the same token and collection changes
  // no row, and returns the first answer. Needs a server with a data directory. Empty: none.
  std::string token;
};

struct UpdateAnswer {
  uint64_t epoch = 0;        // the first epoch that shows the new values
  uint64_t incarnation = 0;  // of the epoch
  uint64_t rows_updated = 0;
  IdColumn missing;  // ids that name no row, in the order of the request
  IdColumn refused;  // ids whose row does not pass if_filter, in that order
};

}  // namespace nearfield::client

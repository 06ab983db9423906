// The collection that an upload with --create makes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/formats/row_source.h"
#include "nearfield/client/client.h"

namespace nearfield::client {

// The options of the command that declare the collection; absent: not given.
struct TargetOptions {
  bool create = false;
  bool if_missing = false;
  std::optional<Metric> metric;
  std::optional<ScanChoice> scan;
  std::optional<RowPlacement> rows;
  std::vector<AttributeSpec> attributes;
  std::string embedding_model;
};

// Errors: InvalidArgument (options that need --create).
absl::Status CheckTargetOptions(const TargetOptions& options);

// Checks that the files fit a collection. Errors: InvalidArgument (names the differing field).
absl::Status CheckAgainst(const CollectionInfo& info, const RowSource::Shape& shape);

// Creates the collection; nullopt if it exists and `may_exist`. Requires: options.create.
// Errors: those of CreateCollection; InvalidArgument (it exists with another declaration; names the
// differing field).
absl::StatusOr<std::optional<CollectionInfo>> MakeTarget(Client& client, const std::string& name,
                                                         const TargetOptions& options,
                                                         const RowSource::Shape& shape,
                                                         bool may_exist);

// Drops the collection that a failed upload created, if it has no row and no open upload of another
// client, and reports what happened to it.
void DropTarget(const GlobalOptions& global, Client& client, const CollectionInfo& created);

}  // namespace nearfield::client

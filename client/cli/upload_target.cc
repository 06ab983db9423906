#include "client/cli/upload_target.h"

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

std::string DeclaredText(const std::vector<AttributeSpec>& attributes) {
  if (attributes.empty()) return "none";
  return Joined(attributes, ", ", [](const AttributeSpec& spec) { return ToString(spec); });
}

// Compares one field of the declarations: OK, or InvalidArgument with both values.
absl::Status Same(const CollectionSpec& found, std::string_view field, std::string_view there,
                  std::string_view here) {
  if (there == here) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("collection ", found.name, " exists with ", field, " ",
                                        there, ", this upload declares ", here));
}

absl::Status CheckSame(const CollectionSpec& found, const CollectionSpec& declared,
                       const TargetOptions& options) {
  NF_RETURN_IF_ERROR(Same(found, "metric", Name(found.metric), Name(declared.metric)));
  NF_RETURN_IF_ERROR(Same(found, "ids", Name(found.id_type), Name(declared.id_type)));
  NF_RETURN_IF_ERROR(
      Same(found, "attributes", DeclaredText(found.attributes), DeclaredText(declared.attributes)));
  if (options.scan) NF_RETURN_IF_ERROR(Same(found, "scan", Name(found.scan), Name(declared.scan)));
  if (options.rows) NF_RETURN_IF_ERROR(Same(found, "rows", Name(found.rows), Name(declared.rows)));
  if (declared.embedding_model.empty()) return absl::OkStatus();
  return Same(found, "embedding model", found.embedding_model, declared.embedding_model);
}

}  // namespace

absl::Status CheckTargetOptions(const TargetOptions& options) {
  if (options.create && !options.metric) {
    return absl::InvalidArgumentError("--create needs --metric dot, cosine or l2");
  }
  if (options.create) return absl::OkStatus();
  if (options.metric) {
    return absl::InvalidArgumentError("--metric is fixed when a collection is made: add --create");
  }
  if (options.scan || options.rows) {
    return absl::InvalidArgumentError(
        "--scan and --rows are fixed when a collection is made: add --create");
  }
  if (!options.attributes.empty() || !options.embedding_model.empty()) {
    return absl::InvalidArgumentError(
        "--attribute and --embedding-model declare what a new collection has: add --create; for "
        "one that exists: nearfield attribute add");
  }
  if (options.if_missing) {
    return absl::InvalidArgumentError("--if-missing says when to create: add --create");
  }
  return absl::OkStatus();
}

absl::Status CheckAgainst(const CollectionInfo& info, const RowSource::Shape& shape) {
  const std::string name = Cat("collection ", info.spec.name);
  if (shape.dim != info.spec.dim) {
    return absl::InvalidArgumentError(
        Cat("the file's vectors have dim ", shape.dim, ", ", name, " has dim ", info.spec.dim));
  }
  if (shape.dtype != info.spec.dtype) {
    return absl::InvalidArgumentError(
        Cat("the file holds ", Name(shape.dtype), ", ", name, " stores ", Name(info.spec.dtype),
            "; rows are stored as they come: convert the file, or make a collection with --dtype ",
            Name(shape.dtype)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<CollectionInfo>> MakeTarget(Client& client, const std::string& name,
                                                         const TargetOptions& options,
                                                         const RowSource::Shape& shape,
                                                         bool may_exist) {
  CollectionSpec spec{.name = name,
                      .dim = shape.dim,
                      .metric = *options.metric,
                      .dtype = shape.dtype,
                      .id_type = shape.id_type,
                      .attributes = options.attributes,
                      .embedding_model = options.embedding_model};
  spec.scan = options.scan.value_or(spec.scan);
  spec.rows = options.rows.value_or(spec.rows);
  absl::StatusOr<CollectionInfo> created = client.CreateCollection(spec);
  if (created.ok()) return *std::move(created);
  if (!absl::IsAlreadyExists(created.status()) || !may_exist) return created.status();
  NF_ASSIGN_OR_RETURN(const CollectionInfo found, client.GetCollection(name));
  NF_RETURN_IF_ERROR(CheckAgainst(found, shape));
  NF_RETURN_IF_ERROR(CheckSame(found.spec, spec, options));
  return std::nullopt;
}

namespace {

// Drops the collection if it is empty. Waits a short time for the end of open uploads: the server
// may not have noticed yet that this one has ended.
absl::Status DropIfEmpty(Client& client, const CollectionInfo& created) {
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kWait(50);
  absl::Status dropped;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(kWait);
    dropped = client.DropCollectionIfEmpty(created.spec.name, created.incarnation);
    if (!absl::IsFailedPrecondition(dropped)) return dropped;
    const absl::StatusOr<CollectionInfo> found = client.GetCollection(created.spec.name);
    if (!found.ok() || found->incarnation != created.incarnation || found->rows_count > 0) break;
  }
  return dropped;
}

}  // namespace

void DropTarget(const GlobalOptions& global, Client& client, const CollectionInfo& created) {
  const std::string name = Cat("collection ", Printable(created.spec.name));
  const absl::Status dropped = DropIfEmpty(client, created);
  if (absl::IsNotFound(dropped)) return;
  if (dropped.ok()) {
    PrintError(Cat(name, ", which this upload created, is dropped again"));
    return;
  }
  if (absl::IsFailedPrecondition(dropped)) {
    PrintError(Cat(
        name, ", which this upload created, stays: ", Printable(std::string(dropped.message()))));
    return;
  }
  ReportError(global, dropped);
  PrintError(Cat(name,
                 " was created by this upload, and may be empty: repeat the command with "
                 "--if-missing, or drop it with: nearfield collections drop ",
                 created.spec.name));
}

}  // namespace nearfield::client

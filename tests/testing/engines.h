// Engines and collections for tests that go through the public interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/engine.h"
#include "tests/testing/corpora.h"

namespace nearfield::testing {

// Returns OK if this machine can run the backend on `devices` devices; otherwise the reason, with
// which tests skip.
absl::Status Usable(BackendKind kind, int32_t devices = 1);

// Returns the engine of `kind` over `devices` devices that all tests of this process share. The
// first call creates it, because an engine reserves its memory when it is created. Several devices
// share all but the smallest commits, a few rows at a time.
absl::StatusOr<Engine*> SharedEngine(BackendKind kind, int32_t devices = 1);

const char* Name(BackendKind kind);

// Returns the payload that UploadRows gives to the row with id `ids[index]`: a function of the id
// alone, sometimes empty.
std::string PayloadOf(const IdColumn& ids, int64_t index);

// Uploads the rows of `corpus` at `indices`, in that order, as one commit, in blocks of
// `block_rows`.
absl::StatusOr<CommitResult> UploadRows(Collection& collection, const Corpus& corpus,
                                        absl::Span<const int64_t> indices,
                                        int64_t block_rows = 1000);

// Creates a collection with all rows of `corpus` in one commit (no commit for an empty corpus).
absl::StatusOr<std::shared_ptr<Collection>> MakeCollection(Engine& engine, const Corpus& corpus);

// Creates a collection with the same rows in one commit for each element of `parts`.
absl::StatusOr<std::shared_ptr<Collection>> MakeCollection(
    Engine& engine, const Corpus& corpus, absl::Span<const std::vector<int64_t>> parts);

}  // namespace nearfield::testing

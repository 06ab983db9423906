// UpdateQueue: the updates of one collection. Those that wait at the same time share one commit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/id_column.h"
#include "server/attributes/filter.h"
#include "server/attributes/row_changes.h"

namespace nearfield::server {

struct NamedCollection;

// Bounds of one update: rows that a filter chooses, and bytes of the values of all its rows.
inline constexpr int64_t kUpdateRowsMax = 1'000'000;
inline constexpr int64_t kUpdateBytesMax = int64_t{256} << 20;

// Returns the SHA-256 of a request, to remember with its token: 32 bytes.
std::string DigestOfRequest(std::string_view request);

struct UpdateReply {
  uint64_t epoch = 0;  // the first epoch that shows the changes; the current one if there are none
  int64_t rows_updated = 0;
  IdColumn missing;  // ids that name no row, in the order of the request
  IdColumn refused;  // ids whose row does not pass if_filter, in that order
  // Not empty: the token is that of an earlier update, and these are the bytes of its reply.
  std::string first_reply;
};

// One update: of the rows with some ids, or of all rows that pass a filter.
struct RowUpdate {
  IdColumn ids;  // each once; unused with `choose`
  std::optional<Filter> choose;
  std::vector<AttributeChange> attributes;  // an entry for each id; with `choose` one entry
  // New payloads, null where a payload stays: one for each id, with `choose` one; none: all stay.
  std::vector<const std::string*> payloads;
  std::optional<Filter> if_filter;
  std::optional<uint64_t> if_epoch;
  std::string token;  // empty: none
  // Returns the bytes to remember with the token. Required with a token.
  std::function<std::string(const UpdateReply&)> encode_reply;
  // Returns an error if no caller waits for the reply any more.
  std::function<absl::Status()> dead;
  std::shared_ptr<const void> request;  // holds the payloads
};

// Thread-safe.
class UpdateQueue {
 public:
  struct Waiting {
    RowUpdate update;
    absl::StatusOr<UpdateReply> result = absl::UnknownError("not run");
    bool done = false;
  };
  using Place = std::shared_ptr<Waiting>;

  // Adds an update to those that wait.
  Place Add(RowUpdate update);

  // Takes back an update that nothing will run any more.
  void Remove(const Place& place);

  // Runs the updates that wait, oldest first, until this one has its result. Errors: those of
  // ingest.proto, Update.
  absl::StatusOr<UpdateReply> Run(const NamedCollection& named, const Place& place);

 private:
  // Takes the oldest updates, as many as can share a commit: none reads what another one changes.
  std::vector<Place> TakeGroup();

  Mutex run_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // one commit at a time
  Mutex mutex_;
  std::deque<Place> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

// Client: a connection to a nearfield server, with one method for each RPC.
//
//   auto client = nearfield::client::Client::Connect({.address = "127.0.0.1:50051"});
//   auto answer = client->Search("packages", query, {.k = 10, .with_payload = true});
//
// Every call returns the server's status: code and message as the server sent them, and its request
// id (RequestIdOf). proto/nearfield/v1 defines the meaning of each code for each call. Ids and
// names that are not UTF-8 are refused before anything is sent: InvalidArgument. No call throws.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/facets.h"
#include "nearfield/client/options.h"
#include "nearfield/client/replies.h"
#include "nearfield/client/scan_pages.h"
#include "nearfield/client/search_pages.h"
#include "nearfield/client/search_stream.h"
#include "nearfield/client/types.h"
#include "nearfield/client/update.h"
#include "nearfield/client/upload.h"

namespace nearfield::client {

// Copies share one connection. Thread safety: all calls may be made concurrently from any number of
// threads.
class Client {
 public:
  // Checks the options; does not wait for the server. The first call opens the connection, and
  // later calls open it again if it is lost. Without ca_file the connection is plaintext: only
  // for a server on this machine. Proxies named in the environment are not used. Errors:
  // InvalidArgument (also: a file cannot be read).
  static absl::StatusOr<Client> Connect(const ClientOptions& options = {});

  // Returns the k best rows for each query, exactly; see "THE RESULT CONTRACT" in retrieval.proto.
  // Views in `queries` are borrowed for the call.
  absl::StatusOr<SearchAnswer> Search(std::string_view collection, std::span<const Query> queries,
                                      const SearchOptions& options = {});
  absl::StatusOr<SearchAnswer> Search(std::string_view collection, std::span<const float> query,
                                      const SearchOptions& options = {});

  // Opens a stream for many searches. The deadline is that of the whole stream; absent: none.
  absl::StatusOr<SearchStream> OpenSearchStream(std::string_view collection,
                                                const SearchOptions& options = {});

  // Runs one search whose answer may be larger than a message. Its pages, all of one epoch, follow
  // until options.results_max rows were received or no row follows. With a score_threshold, every
  // row that reaches it is returned.
  absl::StatusOr<SearchPages> SearchAll(std::string_view collection, const Query& query,
                                        const SearchAllOptions& options = {});

  // Returns stored rows by id. At most Limits.fetch_ids_max ids.
  absl::StatusOr<FetchAnswer> Fetch(std::string_view collection, const IdColumn& ids,
                                    const FetchOptions& options = {});

  // Returns every row of one epoch in the order of the ids, in pages, until options.rows_max rows
  // were received or no row follows.
  absl::StatusOr<ScanPages> Scan(std::string_view collection, const ScanOptions& options = {});

  absl::StatusOr<CountAnswer> Count(std::string_view collection, const CountOptions& options = {});

  // Counts the rows for each value of some attributes (names, or only "*" for all of them),
  // exactly.
  absl::StatusOr<FacetsAnswer> Facets(std::string_view collection,
                                      std::span<const std::string> attributes,
                                      const FacetsOptions& options = {});

  // Keeps an epoch on the server as for a cursor, so that later reads with at_epoch find it. Repeat
  // the call to keep it longer. Errors: FailedPrecondition (at_epoch is not kept),
  // ResourceExhausted (it cannot be kept).
  absl::StatusOr<PinnedEpoch> PinEpoch(std::string_view collection, const PinOptions& options = {});

  // Deletes rows by id, atomically. Ids that name no row are ignored. If the reply of a try is lost
  // and the call is repeated, rows_deleted is the number that the last try deleted.
  absl::StatusOr<DeleteAnswer> Delete(std::string_view collection, const IdColumn& ids,
                                      const CallOptions& options = {});
  // Deletes the rows that pass the filter, atomically. A repeated try deletes the rows that pass at
  // that time.
  absl::StatusOr<DeleteAnswer> Delete(std::string_view collection, const Filter& filter,
                                      const CallOptions& options = {});

  // Changes attributes and payloads of rows by id, atomically: one epoch. The columns of `update`
  // have an entry for each id; at most Limits.fetch_ids_max ids, each once. The answer names the
  // ids without a row, and those that update.if_filter refuses; the other rows are changed. Tried
  // once, unless it has a token: then a repeated try changes nothing again, and returns the first
  // answer. Errors: InvalidArgument (lengths that do not match; an id or an attribute twice; a
  // value of another type; no change), FailedPrecondition (if_epoch is not the current epoch of
  // that incarnation; a token, but the server has no data directory), ResourceExhausted (nothing
  // changed).
  absl::StatusOr<UpdateAnswer> Update(std::string_view collection, const IdColumn& ids,
                                      const RowUpdate& update, const CallOptions& options = {});
  // Changes all rows that pass the filter, atomically. The columns of `update` have one entry, and
  // it has no if_filter. Tries and errors as above.
  absl::StatusOr<UpdateAnswer> Update(std::string_view collection, const Filter& filter,
                                      const RowUpdate& update, const CallOptions& options = {});

  // Reserves space for the whole upload and opens it. An upload that cannot fit is refused here,
  // before its first row.
  absl::StatusOr<Upload> BeginUpload(const UploadOptions& options);

  // Runs a whole upload and repeats it if the connection is lost. Requires options.token.
  // `write_all` writes all rows from the first one, the same in each try; the client skips those
  // that the server already has. `write_all` returns errors of Upload::Write unchanged; any other
  // error that it returns ends the upload. The retry count starts again at 0 whenever the
  // server has received rows since the last try. The deadline is that of all tries; absent: none.
  absl::StatusOr<UploadResult> UploadWithToken(
      const UploadOptions& options, const std::function<absl::Status(Upload&)>& write_all);

  // Returns the server's state of an upload with a token into the collection. Errors: NotFound.
  absl::StatusOr<UploadState> GetUpload(std::string_view collection, std::string_view token,
                                        const CallOptions& options = {});
  // Returns the open uploads with a token, at most `uploads_max` of them (1 to 10,000; absent:
  // 1,000).
  absl::StatusOr<OpenUploads> ListUploads(std::optional<uint32_t> uploads_max = {},
                                          const CallOptions& options = {});
  // Abandons an upload that was not committed: its rows are removed, its token is free. Returns the
  // number of rows that the server had. Errors: NotFound, FailedPrecondition (committed, or a
  // stream is still sending it).
  absl::StatusOr<uint64_t> DropUpload(std::string_view collection, std::string_view token,
                                      const CallOptions& options = {});

  // Checks an answer with the server's oracle. `claim` is result i of a SearchAnswer, with that
  // answer's `epoch` and the requested `k`. Errors: those of a search, and FailedPrecondition if
  // the collection is no longer at that epoch.
  absl::StatusOr<VerifyAnswer> Verify(std::string_view collection, const Query& query,
                                      const VerifyClaim& claim, const CallOptions& options = {});

  absl::StatusOr<CollectionInfo> CreateCollection(const CollectionSpec& spec,
                                                  const CallOptions& options = {});
  // Returns the number of rows that were dropped.
  absl::StatusOr<uint64_t> DropCollection(std::string_view name, const CallOptions& options = {});
  // As DropCollection, if the collection has no row and no open upload, and if it is of this
  // incarnation (absent: of any). Errors: FailedPrecondition; then nothing was dropped.
  absl::Status DropCollectionIfEmpty(std::string_view name,
                                     std::optional<uint64_t> incarnation = {},
                                     const CallOptions& options = {});
  absl::StatusOr<CollectionInfo> GetCollection(std::string_view name,
                                               const CallOptions& options = {});
  absl::StatusOr<std::vector<CollectionInfo>> ListCollections(const CallOptions& options = {});

  // Declares one more attribute, as one epoch. The rows that exist have no value of it, and uploads
  // that have begun cannot send it. Not retried. Errors: InvalidArgument (its name is taken; its
  // declaration), NotFound.
  absl::StatusOr<AttributeAnswer> AddAttribute(std::string_view collection,
                                               const AttributeSpec& attribute,
                                               const CallOptions& options = {});
  // Drops an attribute and its values, as one epoch. Reads of an earlier epoch still find them. Not
  // retried. Errors: NotFound (the collection or the attribute).
  absl::StatusOr<AttributeAnswer> DropAttribute(std::string_view collection,
                                                std::string_view attribute,
                                                const CallOptions& options = {});

  // Makes `alias` another name of the collection, accepted by every call except DropCollection. If
  // it was an alias of another collection, it moves atomically.
  absl::StatusOr<AliasAnswer> SetAlias(std::string_view alias, std::string_view collection,
                                       const CallOptions& options = {});
  // Returns the name of the collection, which is not dropped.
  absl::StatusOr<std::string> DropAlias(std::string_view alias, const CallOptions& options = {});

  // Copies all collections, as they are at one moment, to the operator's directory of snapshots.
  // Takes time: set a deadline that fits.
  absl::StatusOr<SnapshotInfo> CreateSnapshot(std::string_view name,
                                              const CallOptions& options = {});
  // Deletes a snapshot, durably. Returns what it was. Errors: NotFound, FailedPrecondition (it is
  // being restored).
  absl::StatusOr<SnapshotInfo> DeleteSnapshot(std::string_view name,
                                              const CallOptions& options = {});
  absl::StatusOr<std::vector<SnapshotInfo>> ListSnapshots(const CallOptions& options = {});

  // Releases the memory and the disk space of deleted rows now, without waiting until there are
  // many. Takes time: set a deadline that fits.
  absl::StatusOr<CompactAnswer> Compact(std::string_view collection,
                                        const CallOptions& options = {});

  // Requests the limits from the server once and caches them.
  absl::StatusOr<Limits> GetLimits(const CallOptions& options = {});
  absl::StatusOr<Capacity> GetCapacity(const CallOptions& options = {});
  absl::StatusOr<Counters> GetCounters(const CallOptions& options = {});

  // Returns whether the server serves and how far its start is. Answered in every phase. Not
  // retried.
  absl::StatusOr<ServerState> GetServerState(const CallOptions& options = {});

  // Returns the health (grpc.health.v1) of a service by its full name; empty: of the server. Not
  // retried.
  absl::StatusOr<Health> CheckHealth(std::string_view service = "",
                                     const CallOptions& options = {});
  // Calls `on_change` with the current health and after each change, until it returns false (then
  // returns OK) or the stream ends.
  absl::Status WatchHealth(std::string_view service, const std::function<bool(Health)>& on_change);
  // Blocks until a service is SERVING, or for `wait_max`, also while the server is not running or
  // restarts. Waits for changes of the connection and of the health, and does not poll. Returns the
  // last health: kServing, or another one after `wait_max`. Errors: why the server was not reached
  // when `wait_max` ended; at once a refusal that waiting does not change (InvalidArgument,
  // Unauthenticated, PermissionDenied, Unimplemented).
  absl::StatusOr<Health> AwaitServing(std::string_view service, std::chrono::milliseconds wait_max);

  class Core;  // the connection; internal
  explicit Client(std::shared_ptr<Core> core) : core_(std::move(core)) {}

 private:
  std::shared_ptr<Core> core_;
};

// Returns the server's id of the request that ended with this status; empty if no server answered.
std::string RequestIdOf(const absl::Status& status);

// Returns true if the call failed because no server was reached (and not because a server refused
// it).
bool IsUnreachable(const absl::Status& status);

}  // namespace nearfield::client

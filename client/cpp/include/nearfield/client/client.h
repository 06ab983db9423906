// The client of a nearfield server.
//
//   auto client = nearfield::client::Client::Connect({.address = "127.0.0.1:50051"});
//   auto answer = client->Search("packages", query, {.k = 10, .with_payload = true});
//
// Every call returns the server's status: code and message as the server gave them, and its request
// id (RequestIdOf). What each code means for which call stands in proto/nearfield/v1. Ids and names
// that are not UTF-8 are refused before anything is sent: InvalidArgument. No call throws.
#ifndef NEARFIELD_CLIENT_CLIENT_H_
#define NEARFIELD_CLIENT_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/options.h"
#include "nearfield/client/replies.h"
#include "nearfield/client/search_pages.h"
#include "nearfield/client/search_stream.h"
#include "nearfield/client/types.h"
#include "nearfield/client/upload.h"

namespace nearfield::client {

// Copies share one connection. All calls may be made from any number of threads at once.
class Client {
 public:
  // Checks the options; does not wait for the server. The connection is made by the first call, and
  // again when it is lost. Plaintext: across hosts, TLS ends in a proxy that authenticates.
  // Proxies named in the environment are not used. Errors: InvalidArgument.
  static absl::StatusOr<Client> Connect(const ClientOptions& options = {});

  // The k best rows for each query, exactly; see "THE RESULT CONTRACT" in retrieval.proto. Views in
  // `queries` are borrowed for the call.
  absl::StatusOr<SearchAnswer> Search(std::string_view collection, std::span<const Query> queries,
                                      const SearchOptions& options = {});
  absl::StatusOr<SearchAnswer> Search(std::string_view collection, std::span<const float> query,
                                      const SearchOptions& options = {});

  // Many searches over one stream. The deadline is that of the whole stream; absent: none.
  absl::StatusOr<SearchStream> OpenSearchStream(std::string_view collection,
                                                const SearchOptions& options = {});

  // One search whose answer may be greater than a message: its pages, all of one epoch, until
  // options.results_max rows have come or none follows. With a score_threshold: every row that
  // reaches it.
  absl::StatusOr<SearchPages> SearchAll(std::string_view collection, const Query& query,
                                        const SearchAllOptions& options = {});

  // Stored rows by id. At most Limits.fetch_ids_max ids.
  absl::StatusOr<FetchAnswer> Fetch(std::string_view collection, const IdColumn& ids,
                                    const FetchOptions& options = {});

  absl::StatusOr<CountAnswer> Count(std::string_view collection, const CountOptions& options = {});

  // Deletes rows by id, at once and as a whole. Ids that name no row are ignored. Where a first try
  // was lost on the way and repeated, rows_deleted counts what the last try found.
  absl::StatusOr<DeleteAnswer> Delete(std::string_view collection, const IdColumn& ids,
                                      const CallOptions& options = {});
  // Deletes the rows that pass, at once and as a whole. A repeated try deletes what passes then.
  absl::StatusOr<DeleteAnswer> Delete(std::string_view collection, const Filter& filter,
                                      const CallOptions& options = {});

  // Reserves room for the whole upload and opens it. Refused here, before the first row, where it
  // cannot fit.
  absl::StatusOr<Upload> BeginUpload(const UploadOptions& options);

  // A whole upload, begun again where the connection was lost: options.token is required.
  // `write_all` writes all rows, from the first on, the same in each try; what the server has
  // already is skipped. It returns Upload::Write's errors as they are; any other error of its own
  // ends the upload. Tries are counted anew whenever the server has taken over rows since the last
  // one. The deadline is that of all tries; absent: none.
  absl::StatusOr<UploadResult> UploadWithToken(
      const UploadOptions& options, const std::function<absl::Status(Upload&)>& write_all);

  // What the server knows of an upload with a token. Errors: NotFound.
  absl::StatusOr<UploadState> GetUpload(std::string_view token, const CallOptions& options = {});
  // The open uploads with a token. `uploads_max`: of the list, 1 to 10,000; absent: 1,000.
  absl::StatusOr<OpenUploads> ListUploads(std::optional<uint32_t> uploads_max = {},
                                          const CallOptions& options = {});
  // Gives up an upload that was not committed: its rows go, its token is free. Returns how many
  // rows the server had. Errors: NotFound, FailedPrecondition (committed, or a stream still sends
  // it).
  absl::StatusOr<uint64_t> DropUpload(std::string_view token, const CallOptions& options = {});

  // Lets the server's oracle check an answer. `claim` is result i of a SearchAnswer, `epoch` that
  // answer's epoch, `k` the k asked for. Errors besides the search's: FailedPrecondition where the
  // collection has moved on from that epoch.
  absl::StatusOr<VerifyAnswer> Verify(std::string_view collection, const Query& query,
                                      const VerifyClaim& claim, const CallOptions& options = {});

  absl::StatusOr<CollectionInfo> CreateCollection(const CollectionSpec& spec,
                                                  const CallOptions& options = {});
  // Returns the number of rows that went with it.
  absl::StatusOr<uint64_t> DropCollection(std::string_view name, const CallOptions& options = {});
  absl::StatusOr<CollectionInfo> GetCollection(std::string_view name,
                                               const CallOptions& options = {});
  absl::StatusOr<std::vector<CollectionInfo>> ListCollections(const CallOptions& options = {});

  // Makes `alias` another name of the collection; every call takes it, but for DropCollection.
  // Where it was that of another collection it moves from one moment to the next.
  absl::StatusOr<AliasAnswer> SetAlias(std::string_view alias, std::string_view collection,
                                       const CallOptions& options = {});
  // Returns the name of the collection, which stays.
  absl::StatusOr<std::string> DropAlias(std::string_view alias, const CallOptions& options = {});

  // Copies all collections as they are at one moment to where the server's operator keeps
  // snapshots. Takes time: give a deadline that fits.
  absl::StatusOr<SnapshotInfo> CreateSnapshot(std::string_view name,
                                              const CallOptions& options = {});
  absl::StatusOr<std::vector<SnapshotInfo>> ListSnapshots(const CallOptions& options = {});

  // Gives back the memory and the disk space of deleted rows now, in place of when it is worth it.
  // Takes time: give a deadline that fits.
  absl::StatusOr<CompactAnswer> Compact(std::string_view collection,
                                        const CallOptions& options = {});

  // Asked of the server once and remembered.
  absl::StatusOr<Limits> GetLimits(const CallOptions& options = {});
  absl::StatusOr<Capacity> GetCapacity(const CallOptions& options = {});
  absl::StatusOr<Counters> GetCounters(const CallOptions& options = {});

  // grpc.health.v1: the health of a service by its full name, or of the server where it is empty.
  // Not tried again.
  absl::StatusOr<Health> CheckHealth(std::string_view service = "",
                                     const CallOptions& options = {});
  // Calls `on_change` with the health now and after each change, until it returns false (then OK)
  // or the stream ends.
  absl::Status WatchHealth(std::string_view service, const std::function<bool(Health)>& on_change);

  class Core;  // the connection; of no use to callers
  explicit Client(std::shared_ptr<Core> core) : core_(std::move(core)) {}

 private:
  std::shared_ptr<Core> core_;
};

// The server's id of the request that ended with this status, or empty where no server answered.
std::string RequestIdOf(const absl::Status& status);

// Whether the call failed because no server was reached (as opposed to one that refused).
bool IsUnreachable(const absl::Status& status);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLIENT_H_

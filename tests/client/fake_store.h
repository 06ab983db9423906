// FakeStore: a few collections in memory, so that the client receives consistent replies. Scores
// are plain double sums, not the canonical scores of the server.
#ifndef NEARFIELD_TESTS_CLIENT_FAKE_STORE_H_
#define NEARFIELD_TESTS_CLIENT_FAKE_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/types.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"

namespace nearfield::client {

struct FakeRow {
  Id id;
  std::string vector;  // encoded
  std::string payload;
};

struct FakeCollection {
  v1::CollectionInfo info;
  std::vector<FakeRow> rows;
};

class FakeStore {
 public:
  absl::Status Create(const v1::CreateCollectionRequest& request, v1::CollectionInfo* info);
  absl::Status Drop(const std::string& name, uint64_t* rows_count);
  absl::StatusOr<FakeCollection*> Find(const std::string& name);  // name or alias
  absl::Status SetAlias(const v1::SetAliasRequest& request, v1::SetAliasResponse* response);
  absl::Status DropAlias(const v1::DropAliasRequest& request, v1::DropAliasResponse* response);
  std::map<std::string, FakeCollection>& all() { return collections_; }

  absl::Status Search(const v1::SearchRequest& request, v1::SearchResponse* response);
  absl::Status Fetch(const v1::FetchRequest& request, v1::FetchResponse* response);
  absl::Status Delete(const v1::DeleteRequest& request, v1::DeleteResponse* response);
  // Compares a claim with the store's own search.
  absl::Status Verify(const v1::VerifyRequest& request, v1::VerifyResponse* response);

 private:
  std::map<std::string, FakeCollection> collections_;
  std::map<std::string, std::string> aliases_;  // to names
};

std::vector<Id> IdsOf(const v1::IdList& list);
void AddId(const Id& id, v1::IdList* list);
// Returns the rows of a block. Requires: its columns have the same length.
std::vector<FakeRow> RowsOf(const v1::UploadBlock& block);

}  // namespace nearfield::client

#endif  // NEARFIELD_TESTS_CLIENT_FAKE_STORE_H_

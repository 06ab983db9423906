// The collections of one server, by name: rows in the engine, and durable in the store.
#ifndef NEARFIELD_SERVER_CATALOG_CATALOG_H_
#define NEARFIELD_SERVER_CATALOG_CATALOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/catalog/attributes/schema.h"
#include "server/catalog/collection_attributes.h"
#include "server/store/store.h"

namespace nearfield::server {

inline constexpr int32_t kCollectionNameBytesMax = 63;
inline constexpr int64_t kAliasesMax = 1024;  // of one server

// A collection under its name. Whoever holds it may go on using it after a drop; its memory returns
// with the last holder.
struct NamedCollection {
  std::string name;
  std::shared_ptr<Collection> collection;
  std::unique_ptr<CollectionAttributes> attributes;
  store::Store* store = nullptr;  // null: nothing is kept
  int64_t store_id = 0;
  // Never 0, and never that of another collection, here or in another data directory. The same
  // after a restart where a store keeps it; another one in a directory made from a snapshot.
  uint64_t incarnation = 0;
  // Not OK where the rows could not be loaded: then `collection` is empty, and nothing but a drop
  // is for it.
  absl::Status state;
  std::function<void()> changed;  // called after each commit and deletion
  std::atomic<bool> dropped{false};
};

// Reports whether `incarnation` (absent: any) is the collection's: a request whose epochs are of
// another one must not be taken for one of this. Errors: FailedPrecondition.
absl::Status CheckIncarnation(const NamedCollection& named, std::optional<uint64_t> incarnation);

// OK for [A-Za-z0-9][A-Za-z0-9_.-]{0,62}. Errors: InvalidArgument, naming `field`.
absl::Status ValidateName(std::string_view field, std::string_view name);
inline absl::Status ValidateCollectionName(std::string_view name) {
  return ValidateName("name", name);
}

// Thread-safe.
class Catalog {
 public:
  // What a catalog stands on.
  struct Base {
    Engine* engine = nullptr;             // outlives the catalog
    std::unique_ptr<store::Store> store;  // null: nothing is kept
    std::function<void()> changed = [] {};
    int64_t attribute_memory_bytes = INT64_MAX;
    int64_t filter_cache_bytes = 0;
  };
  Catalog(Base base, int64_t collections_max);

  // Loads all that the store has. A collection that cannot be loaded is listed with its error.
  // `progress`: called now and then. Errors: Unavailable (the device is lost), Cancelled.
  struct LoadProgress {
    const std::string& collection;
    store::LoadProgress of_collection;
  };
  absl::Status Load(const std::function<void(const LoadProgress&)>& progress,
                    const std::function<bool()>& cancelled);

  // Errors: InvalidArgument (name, spec), AlreadyExists (a collection or an alias),
  // ResourceExhausted (collections_max), and those of the engine and the store.
  absl::StatusOr<std::shared_ptr<NamedCollection>> Create(const std::string& name,
                                                          const CollectionSpec& spec,
                                                          AttributeSchema schema = {});

  // By its name or an alias. Errors: NotFound (names the field `collection`, FindAny `name`); its
  // state where it could not be loaded.
  absl::StatusOr<std::shared_ptr<NamedCollection>> Find(const std::string& name) const;
  // The same, whatever its state.
  absl::StatusOr<std::shared_ptr<NamedCollection>> FindAny(const std::string& name) const;

  // Frees the name and its aliases at once and returns what it named. Errors: NotFound,
  // FailedPrecondition (an alias: names its collection), and the store's.
  absl::StatusOr<std::shared_ptr<NamedCollection>> Drop(const std::string& name);

  // Makes `alias` another name of the collection. Where it was that of another one, it is from one
  // moment to the next: every look-up finds the one or the other. Errors: InvalidArgument (alias),
  // NotFound, the collection's state, AlreadyExists (a collection has this name), ResourceExhausted
  // (kAliasesMax), and the store's.
  struct AliasChange {
    std::shared_ptr<NamedCollection> now;
    std::shared_ptr<NamedCollection> before;  // null: the alias is new
  };
  absl::StatusOr<AliasChange> SetAlias(const std::string& alias, const std::string& collection);
  // Returns what it named. Errors: NotFound (also for the name of a collection), the store's.
  absl::StatusOr<std::shared_ptr<NamedCollection>> DropAlias(const std::string& alias);
  // All aliases at one moment.
  using Aliases = std::map<std::string, std::shared_ptr<NamedCollection>>;
  Aliases ListAliases() const;

  // Null where nothing is kept.
  store::Store* store() const { return base_.store.get(); }

  // What is known of an upload with a token. Errors: NotFound, FailedPrecondition (nothing is
  // kept).
  absl::StatusOr<store::UploadFacts> GetUpload(const std::string& token) const;
  // The open uploads with a token, in the order of Store::OpenUploads. Errors:
  // FailedPrecondition (nothing is kept).
  struct ListedUpload {
    store::OpenUpload upload;
    std::string collection;
  };
  absl::StatusOr<std::vector<ListedUpload>> ListUploads() const;
  // Gives up an open upload, and says what it had. Errors: as GetUpload; FailedPrecondition
  // (committed, or in use by a stream).
  absl::StatusOr<store::UploadFacts> DropUpload(const std::string& token) const;

  const AttributeShared& attributes() const { return *attributes_; }

  // Ordered by name.
  std::vector<std::shared_ptr<NamedCollection>> List() const;

 private:
  std::shared_ptr<NamedCollection> Make(const std::string& name,
                                        std::shared_ptr<Collection> collection,
                                        std::unique_ptr<CollectionAttributes> attributes) const;
  // `named` as the one that the store has.
  std::shared_ptr<NamedCollection> Stored(const store::StoredCollection& stored,
                                          std::shared_ptr<NamedCollection> named) const;
  // By its name or an alias; null where there is none.
  std::shared_ptr<NamedCollection> LookUp(const std::string& name) const;
  // With its state, where it cannot be loaded. Errors: Unavailable, Cancelled.
  absl::StatusOr<std::shared_ptr<NamedCollection>> LoadOne(const store::StoredCollection& stored,
                                                           const store::LoadOptions& options) const;

  const Base base_;
  const int64_t collections_max_;
  const std::shared_ptr<AttributeShared> attributes_;
  std::mutex creation_mutex_;  // one change of names at a time; look-ups do not wait for it
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<NamedCollection>> collections_;
  Aliases aliases_;  // of names that no collection has, to those in collections_
};

// Deletes rows, durably where a store keeps them: those with these ids, or those chosen. Errors:
// the engine's and the store's.
absl::StatusOr<DeleteResult> DeleteRows(const NamedCollection& named, const IdColumn& ids);
// Those of the chosen rows that `chosen.at` shows: none of an upload that became visible since.
absl::StatusOr<DeleteResult> DeleteRows(const NamedCollection& named, const ChosenRows& chosen);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_CATALOG_H_

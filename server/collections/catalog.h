// Catalog: the collections of one server by name. The engine holds their rows; the store makes them
// durable.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/engine.h"
#include "server/attributes/schema.h"
#include "server/collections/collection_attributes.h"
#include "server/collections/principal_quotas.h"
#include "server/scheduler/worker_pool.h"
#include "server/store/store.h"

namespace nearfield::server {

inline constexpr int32_t kCollectionNameBytesMax = 63;
inline constexpr int64_t kAliasesMax = 1024;  // for one server

class UpdateQueue;

// A collection with its name. A holder may continue to use it after a drop; its memory is freed
// with the last holder.
struct NamedCollection {
  std::string name;
  std::shared_ptr<Collection> collection;
  std::unique_ptr<CollectionAttributes> attributes;
  std::shared_ptr<UpdateQueue> updates;  // never null
  store::Store* store = nullptr;         // null: nothing is stored
  int64_t store_id = 0;                  // number of this collection in the store
  WorkerPool* segment_writes = nullptr;  // writes blocks of uploads; null: nothing is stored
  std::string owner;                     // the principal that created it; empty: none
  PrincipalQuotas* quotas = nullptr;     // of all owners; null: there are none
  // Identifies the collection among all collections in all data directories; never 0. A store keeps
  // it across restarts. A data directory restored from a snapshot gets another one.
  uint64_t incarnation = 0;
  // Not OK if the rows could not be loaded. Then `collection` is empty, and only a drop is allowed.
  absl::Status load_status;
  std::function<void()> changed;  // called after each commit and deletion
  // A drop holds it, so that no upload begins between the checks of a drop and the drop.
  Mutex uploads_mutex;
  int64_t uploads_open ABSL_GUARDED_BY(uploads_mutex) = 0;  // that a stream is sending
  std::atomic<bool> dropped{false};                         // becomes true with uploads_mutex held
};

using NamedCollectionPtr = std::shared_ptr<NamedCollection>;

// Returns true if the collection was loaded and no data of it was found unreadable since.
bool IsReadable(const NamedCollection& named);

// Returns OK if `incarnation` is absent or that of the collection. Epochs of another incarnation
// must not be used with this collection. Errors: FailedPrecondition.
absl::Status CheckIncarnation(const NamedCollection& named, std::optional<uint64_t> incarnation);

// Checks that `name` matches [A-Za-z0-9][A-Za-z0-9_.-]{0,62}. Errors: InvalidArgument, naming
// `field`.
absl::Status ValidateName(std::string_view field, std::string_view name);
inline absl::Status ValidateCollectionName(std::string_view name) {
  return ValidateName("name", name);
}

// Condition of a drop; the default always holds.
struct DropCondition {
  bool only_if_empty = false;  // no live row, no open upload, and it could be loaded
  std::optional<uint64_t> incarnation;
};

// Thread-safe.
class Catalog {
 public:
  // The objects that a catalog uses.
  struct Base {
    Engine* engine = nullptr;             // outlives the catalog
    std::unique_ptr<store::Store> store;  // null: nothing is stored
    // Threads that write blocks of uploads to the store, each while the engine takes the block.
    WorkerPool::Options segment_writes = {.what = "segment writes"};
    std::function<void()> changed = [] {};
    AttributeShared::Limits attribute_limits;
    PrincipalQuotas* quotas = nullptr;  // outlives the catalog; null: owners have no limits
  };
  Catalog(Base base, int64_t collections_max);

  struct LoadProgress {
    const std::string& collection;  // that is being loaded
    int64_t collections_loaded = 0;
    int64_t collections_count = 0;
    int64_t bytes_read = 0;  // of the files of all collections
    int64_t bytes_total = 0;
  };
  // Loads all collections of the store. A collection that cannot be loaded is listed with its
  // error. `progress` is called at intervals.
  // Errors: Unavailable (device lost), Cancelled.
  absl::Status Load(const std::function<void(const LoadProgress&)>& progress,
                    const std::function<bool()>& cancelled);

  // `owner`: the principal that creates it; empty for none. Errors: InvalidArgument (name, spec),
  // AlreadyExists (a collection or alias has the name), ResourceExhausted (collections_max, the
  // owner's quota), and those of the engine and the store.
  absl::StatusOr<NamedCollectionPtr> Create(const std::string& name, const CollectionSpec& spec,
                                            AttributeSchema schema = {},
                                            const std::string& owner = "");

  // Finds a collection by its name or an alias.
  // Errors: NotFound (names the field `collection`; FindAny names `name`); the collection's
  // load_status if it could not be loaded.
  absl::StatusOr<NamedCollectionPtr> Find(const std::string& name) const;
  // As Find, but also returns a collection that could not be loaded.
  absl::StatusOr<NamedCollectionPtr> FindAny(const std::string& name) const;

  // Frees the name and its aliases immediately and returns the collection.
  // Errors: NotFound, FailedPrecondition (an alias; names its collection; the condition does not
  // hold), and those of the store.
  absl::StatusOr<NamedCollectionPtr> Drop(const std::string& name,
                                          const DropCondition& condition = {});

  struct AliasChange {
    NamedCollectionPtr now;
    NamedCollectionPtr before;  // null: the alias is new
  };
  // Makes `alias` another name of the collection. If it named another collection, the change is
  // atomic: every look-up finds one of the two. `owner`: the principal that creates a new alias;
  // empty for none.
  // Errors: InvalidArgument (alias), NotFound, the collection's load_status, AlreadyExists (a
  // collection has this name), ResourceExhausted (kAliasesMax, the owner's quota), and those of the
  // store.
  absl::StatusOr<AliasChange> SetAlias(const std::string& alias, const std::string& collection,
                                       const std::string& owner = "");
  // Returns the collection that the alias named. Errors: NotFound (also for the name of a
  // collection), and those of the store.
  absl::StatusOr<NamedCollectionPtr> DropAlias(const std::string& alias);
  // Returns a consistent copy of all aliases.
  using Aliases = std::map<std::string, NamedCollectionPtr>;
  Aliases ListAliases() const;

  // Returns null if nothing is stored.
  store::Store* store() const { return base_.store.get(); }

  struct ListedUpload {
    store::OpenUpload upload;
    std::string collection;
  };
  // Returns the open uploads with a token, in the order of Store::OpenUploads. Errors:
  // FailedPrecondition (nothing is stored).
  absl::StatusOr<std::vector<ListedUpload>> ListUploads() const;

  const AttributeShared& attributes() const { return *attributes_; }

  // Ordered by name.
  std::vector<NamedCollectionPtr> List() const;

 private:
  NamedCollectionPtr Make(const std::string& name, std::shared_ptr<Collection> collection,
                          std::unique_ptr<CollectionAttributes> attributes) const;
  // Sets the owner, empty for none, and counts the collection for it.
  void SetOwner(const std::string& owner, const NamedCollectionPtr& named) const;
  // Reserves one collection or alias for the owner. Errors: ResourceExhausted.
  absl::StatusOr<PrincipalQuotas::Hold> Reserve(const std::string& owner, Quota quota) const;
  // An alias, which counts for the principal that created it.
  struct Alias {
    NamedCollectionPtr target;
    PrincipalQuotas::Hold hold;
  };
  // Returns `named` with the id, incarnation and owner of the stored collection.
  NamedCollectionPtr Stored(const store::StoredCollection& stored, NamedCollectionPtr named) const;
  // Checks that the collection has no row and no open upload. Errors: FailedPrecondition.
  absl::Status CheckEmpty(const NamedCollection& named) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(named.uploads_mutex);
  // Finds a collection by its name or an alias; null if there is none.
  NamedCollectionPtr LookUp(const std::string& name) const;
  // Loads one collection. If that fails, returns it empty with its error as state. Errors:
  // Unavailable, Cancelled.
  absl::StatusOr<NamedCollectionPtr> LoadOne(const store::StoredCollection& stored,
                                             const store::LoadOptions& options) const;

  const Base base_;
  const std::unique_ptr<WorkerPool> segment_writes_;  // null: nothing is stored
  const int64_t collections_max_;
  const std::shared_ptr<AttributeShared> attributes_;
  // Serializes changes of names; look-ups do not wait for it.
  Mutex creation_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  std::map<std::string, NamedCollectionPtr> collections_ ABSL_GUARDED_BY(mutex_);
  // Names that no collection has; their targets are in collections_.
  std::map<std::string, Alias> aliases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

#include "server/collections/catalog.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/attributes/schema_encoding.h"
#include "server/collections/load.h"
#include "server/collections/update_queue.h"

namespace nearfield::server {
namespace {

// Returns a client's name for a message: cut and escaped.
std::string Shown(std::string_view name) {
  const absl::string_view cut(name.data(),
                              std::min<size_t>(name.size(), 2 * kCollectionNameBytesMax));
  return absl::StrCat("\"", absl::CHexEscape(cut), cut.size() < name.size() ? "\"..." : "\"");
}

absl::Status NoSuchCollection(const char* field, std::string_view name) {
  return absl::NotFoundError(absl::StrCat(field, ": no collection ", Shown(name)));
}

QuotaAmounts One(Quota quota) {
  QuotaAmounts amounts;
  amounts[quota] = 1;
  return amounts;
}

// Returns what a collection holds of a resource; nullopt if its rows are gone.
std::optional<int64_t> UsageOf(const std::shared_ptr<const Collection>& rows,
                               const std::shared_ptr<const NamedCollection>& named, Quota quota) {
  if (rows == nullptr) return std::nullopt;
  if (quota == Quota::kDeviceBytes) return rows->Stats().device_bytes;
  if (quota == Quota::kHostBytes) return rows->Stats().host_bytes;
  if (named == nullptr) return 0;
  if (quota == Quota::kAttributeBytes) return named->attributes->bytes();
  if (named->dropped.load()) return 0;
  if (quota == Quota::kDiskBytes && named->store != nullptr) {
    return named->store->DiskBytes(named->store_id);
  }
  return quota == Quota::kCollections ? 1 : 0;
}

// Returns a random number that is never 0.
uint64_t RandomNumber() {
  std::random_device source;
  return std::max<uint64_t>(1, uint64_t{source()} << 32 | source());
}

}  // namespace

bool IsReadable(const NamedCollection& named) {
  return named.load_status.ok() &&
         (named.store == nullptr || named.store->ReadFailuresOf(named.store_id).count == 0);
}

absl::Status CheckIncarnation(const NamedCollection& named, std::optional<uint64_t> incarnation) {
  if (incarnation.value_or(named.incarnation) == named.incarnation) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("incarnation: ", *incarnation, ", the collection has ", named.incarnation,
                   ": it was created again or restored, and epochs of the two cannot be compared"));
}

absl::Status ValidateName(std::string_view field, std::string_view name) {
  bool legal = !name.empty() && name.size() <= kCollectionNameBytesMax &&
               absl::ascii_isalnum(static_cast<unsigned char>(name.front()));
  for (const char c : name) {
    legal = legal && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
                      c == '-');
  }
  if (legal) return absl::OkStatus();
  return ArgumentError(
      std::string(field),
      absl::StrCat(Shown(name), " (", name.size(), " bytes) must be 1 .. ", kCollectionNameBytesMax,
                   " of A-Z a-z 0-9 _ . - and begin with a letter or digit"),
      Shown(name), absl::StrCat("1 .. ", kCollectionNameBytesMax, " of A-Z a-z 0-9 _ . -"));
}

Catalog::Catalog(Base base, int64_t collections_max)
    : base_(std::move(base)),
      segment_writes_(base_.store ? std::make_unique<WorkerPool>(base_.segment_writes) : nullptr),
      collections_max_(collections_max),
      attributes_(std::make_shared<AttributeShared>(base_.attribute_limits)) {}

NamedCollectionPtr Catalog::Make(const std::string& name, std::shared_ptr<Collection> collection,
                                 std::unique_ptr<CollectionAttributes> attributes) const {
  auto named = std::make_shared<NamedCollection>();
  named->name = name;
  named->collection = std::move(collection);
  named->attributes = std::move(attributes);
  named->updates = std::make_shared<UpdateQueue>();
  named->store = base_.store.get();
  named->segment_writes = segment_writes_.get();
  named->changed = base_.changed;
  return named;
}

void Catalog::SetOwner(const std::string& owner, const NamedCollectionPtr& named) const {
  named->owner = owner;
  named->quotas = base_.quotas;
  if (owner.empty() || base_.quotas == nullptr) return;
  base_.quotas->Add(owner, [rows = std::weak_ptr<const Collection>(named->collection),
                            weak = std::weak_ptr<const NamedCollection>(named)](Quota quota) {
    return UsageOf(rows.lock(), weak.lock(), quota);
  });
}

NamedCollectionPtr Catalog::Stored(const store::StoredCollection& stored,
                                   NamedCollectionPtr named) const {
  named->store_id = stored.id;
  named->incarnation = base_.store->IncarnationOf(stored.id);
  SetOwner(stored.owner, named);
  return named;
}

absl::StatusOr<NamedCollectionPtr> Catalog::LoadOne(const store::StoredCollection& stored,
                                                    const store::LoadOptions& options) const {
  absl::StatusOr<AttributeSchema> schema = DecodeSchema(stored.attribute_schema);
  absl::Status state = schema.status();
  if (schema.ok()) {
    auto attributes = std::make_unique<CollectionAttributes>(*schema, attributes_);
    auto loaded = LoadCollection(*base_.engine, *base_.store, stored, options, attributes.get());
    state = loaded.status();
    if (absl::IsUnavailable(state) || absl::IsCancelled(state)) return state;
    if (loaded.ok()) {
      return Stored(stored, Make(stored.name, *std::move(loaded), std::move(attributes)));
    }
  }
  // This device may refuse the placement of the rows. Without rows it does not matter.
  CollectionSpec spec = stored.spec;
  spec.rows = RowPlacement::kDevice;
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> empty,
                        base_.engine->CreateCollection(spec, stored.epoch));
  NamedCollectionPtr named =
      Make(stored.name, std::move(empty),
           std::make_unique<CollectionAttributes>(
               schema.ok() ? *std::move(schema) : AttributeSchema(), attributes_));
  named->load_status = std::move(state);
  return Stored(stored, std::move(named));
}

absl::Status Catalog::Load(const std::function<void(const LoadProgress&)>& progress,
                           const std::function<bool()>& cancelled) {
  if (base_.store == nullptr) return absl::OkStatus();
  const std::vector<store::StoredCollection> collections = base_.store->Collections();
  int64_t bytes_total = 0;
  for (const store::StoredCollection& stored : collections) bytes_total += stored.bytes;
  int64_t loaded = 0;
  int64_t bytes_loaded = 0;
  for (const store::StoredCollection& stored : collections) {
    store::LoadOptions options;
    options.cancelled = cancelled;
    options.progress = [&](const store::LoadProgress& now) {
      progress({.collection = stored.name,
                .collections_loaded = loaded,
                .collections_count = static_cast<int64_t>(collections.size()),
                .bytes_read = bytes_loaded + std::min(now.bytes_read, stored.bytes),
                .bytes_total = bytes_total});
    };
    options.progress({});
    ABSL_ASSIGN_OR_RETURN(NamedCollectionPtr named, LoadOne(stored, options));
    const MutexLock lock(mutex_);
    for (const std::string& alias : stored.aliases) {
      aliases_[alias].target = named;
      const auto owner = stored.alias_owners.find(alias);
      if (owner != stored.alias_owners.end() && base_.quotas != nullptr) {
        aliases_[alias].hold = base_.quotas->Note(owner->second, One(Quota::kAliases));
      }
    }
    collections_[stored.name] = std::move(named);
    ++loaded;
    bytes_loaded += stored.bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<PrincipalQuotas::Hold> Catalog::Reserve(const std::string& owner,
                                                       Quota quota) const {
  if (owner.empty() || base_.quotas == nullptr) return PrincipalQuotas::Hold();
  return base_.quotas->Reserve(owner, One(quota));
}

absl::StatusOr<NamedCollectionPtr> Catalog::Create(const std::string& name,
                                                   const CollectionSpec& spec,
                                                   AttributeSchema schema,
                                                   const std::string& owner) {
  ABSL_RETURN_IF_ERROR(ValidateCollectionName(name));
  return CatchOutOfMemory([&]() -> absl::StatusOr<NamedCollectionPtr> {
    const MutexLock creation_lock(creation_mutex_);
    {
      const MutexLock lock(mutex_);
      if (collections_.count(name) > 0) {
        return absl::AlreadyExistsError(
            absl::StrCat("name: a collection ", Shown(name), " exists already"));
      }
      if (const auto alias = aliases_.find(name); alias != aliases_.end()) {
        return absl::AlreadyExistsError(
            absl::StrCat("name: ", Shown(name), " is an alias of the collection ",
                         Shown(alias->second.target->name), " already"));
      }
      if (static_cast<int64_t>(collections_.size()) >= collections_max_) {
        return absl::ResourceExhaustedError(
            absl::StrCat("there are ", collections_.size(),
                         " collections, the limit collections_max is ", collections_max_));
      }
    }
    // Counts the collection until the catalog holds it, which counts it.
    ABSL_ASSIGN_OR_RETURN(const PrincipalQuotas::Hold hold, Reserve(owner, Quota::kCollections));
    ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection,
                          base_.engine->CreateCollection(spec));
    const std::string encoded = EncodeSchema(schema);
    // Allocate everything before the store's commit.
    const NamedCollectionPtr named =
        Make(name, std::move(collection),
             std::make_unique<CollectionAttributes>(std::move(schema), attributes_));
    SetOwner(owner, named);
    std::map<std::string, NamedCollectionPtr> added = {{name, named}};
    if (base_.store == nullptr) {
      named->incarnation = RandomNumber();
    } else {
      ABSL_ASSIGN_OR_RETURN(named->store_id, base_.store->CreateCollection(
                                                 name, spec, encoded, &named->incarnation, owner));
    }
    CHECK_NE(named->incarnation, uint64_t{0});
    const MutexLock lock(mutex_);
    collections_.merge(added);
    CHECK(added.empty());  // no other caller changes names meanwhile
    return named;
  });
}

NamedCollectionPtr Catalog::LookUp(const std::string& name) const {
  const MutexLock lock(mutex_);
  if (const auto it = collections_.find(name); it != collections_.end()) return it->second;
  if (const auto it = aliases_.find(name); it != aliases_.end()) return it->second.target;
  return nullptr;
}

absl::StatusOr<NamedCollectionPtr> Catalog::FindAny(const std::string& name) const {
  NamedCollectionPtr named = LookUp(name);
  if (named == nullptr) return NoSuchCollection("name", name);
  return named;
}

absl::StatusOr<NamedCollectionPtr> Catalog::Find(const std::string& name) const {
  NamedCollectionPtr named = LookUp(name);
  if (named == nullptr) return NoSuchCollection("collection", name);
  if (!named->load_status.ok()) return named->load_status;
  return named;
}

absl::Status Catalog::CheckEmpty(const NamedCollection& named) const {
  const auto refused = [&named](const auto&... why) {
    return absl::FailedPreconditionError(
        absl::StrCat("only_if_empty: the collection ", Shown(named.name), " ", why...));
  };
  if (!named.load_status.ok()) return refused("could not be loaded, and may have rows");
  const int64_t rows = named.collection->Stats().rows_count;
  if (rows > 0) return refused("has ", rows, " rows");
  int64_t uploads = named.uploads_open;
  if (named.store != nullptr) {
    for (const store::OpenUpload& upload : named.store->OpenUploads()) {
      uploads += upload.collection_id == named.store_id ? 1 : 0;
    }
  }
  if (uploads > 0) return refused("has an open upload");
  return absl::OkStatus();
}

absl::StatusOr<NamedCollectionPtr> Catalog::Drop(const std::string& name,
                                                 const DropCondition& condition) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<NamedCollectionPtr> {
    const MutexLock creation_lock(creation_mutex_);
    ABSL_ASSIGN_OR_RETURN(NamedCollectionPtr named, FindAny(name));
    if (named->name != name) {
      return absl::FailedPreconditionError(
          absl::StrCat("name: ", Shown(name), " is an alias of the collection ", Shown(named->name),
                       ": name the collection itself, or drop the alias alone"));
    }
    ABSL_RETURN_IF_ERROR(CheckIncarnation(*named, condition.incarnation));
    {
      const MutexLock uploads_lock(named->uploads_mutex);
      if (condition.only_if_empty) ABSL_RETURN_IF_ERROR(CheckEmpty(*named));
      if (named->store != nullptr) {
        ABSL_RETURN_IF_ERROR(named->store->DropCollection(named->store_id));
      }
      named->dropped.store(true);
    }
    const MutexLock lock(mutex_);
    CHECK_EQ(collections_.erase(name), size_t{1});
    for (auto it = aliases_.begin(); it != aliases_.end();) {
      it = it->second.target == named ? aliases_.erase(it) : std::next(it);
    }
    return named;
  });
}

absl::StatusOr<Catalog::AliasChange> Catalog::SetAlias(const std::string& alias,
                                                       const std::string& collection,
                                                       const std::string& owner) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<AliasChange> {
    ABSL_RETURN_IF_ERROR(ValidateName("alias", alias));
    const MutexLock creation_lock(creation_mutex_);
    AliasChange change;
    ABSL_ASSIGN_OR_RETURN(change.now, Find(collection));
    {
      const MutexLock lock(mutex_);
      if (collections_.count(alias) > 0) {
        return absl::AlreadyExistsError(
            absl::StrCat("alias: a collection ", Shown(alias), " exists already"));
      }
      const auto known = aliases_.find(alias);
      if (known != aliases_.end()) change.before = known->second.target;
      if (known == aliases_.end() && static_cast<int64_t>(aliases_.size()) >= kAliasesMax) {
        return absl::ResourceExhaustedError(
            absl::StrCat("there are ", aliases_.size(), " aliases, the limit is ", kAliasesMax));
      }
    }
    if (change.before == change.now) return change;
    // Allocated before the store's commit.
    std::map<std::string, Alias> added;
    if (change.before == nullptr) {
      Alias& fresh = added[alias];
      fresh.target = change.now;
      ABSL_ASSIGN_OR_RETURN(fresh.hold, Reserve(owner, Quota::kAliases));
    }
    if (change.now->store != nullptr) {
      ABSL_RETURN_IF_ERROR(change.now->store->SetAlias(alias, change.now->store_id, owner));
    }
    const MutexLock lock(mutex_);
    DCHECK(!collections_.contains(alias));
    DCHECK(collections_.contains(change.now->name));
    aliases_.merge(added);
    aliases_.find(alias)->second.target = change.now;
    return change;
  });
}

absl::StatusOr<NamedCollectionPtr> Catalog::DropAlias(const std::string& alias) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<NamedCollectionPtr> {
    const MutexLock creation_lock(creation_mutex_);
    NamedCollectionPtr named;
    {
      const MutexLock lock(mutex_);
      const auto it = aliases_.find(alias);
      if (it == aliases_.end()) {
        return absl::NotFoundError(absl::StrCat("no alias ", Shown(alias)));
      }
      named = it->second.target;
    }
    if (named->store != nullptr) ABSL_RETURN_IF_ERROR(named->store->DropAlias(alias));
    const MutexLock lock(mutex_);
    aliases_.erase(alias);
    return named;
  });
}

Catalog::Aliases Catalog::ListAliases() const {
  const MutexLock lock(mutex_);
  Aliases targets;
  for (const auto& [alias, entry] : aliases_) targets[alias] = entry.target;
  return targets;
}

absl::StatusOr<std::vector<Catalog::ListedUpload>> Catalog::ListUploads() const {
  if (base_.store == nullptr) {
    return absl::FailedPreconditionError(
        "no upload has a token: this server keeps no data directory (data_dir is none)");
  }
  std::vector<ListedUpload> listed;
  std::map<int64_t, std::string> names;
  for (const auto& named : List()) names[named->store_id] = named->name;
  for (store::OpenUpload& upload : base_.store->OpenUploads()) {
    const auto name = names.find(upload.collection_id);
    if (name == names.end()) continue;  // dropped meanwhile
    listed.push_back({.upload = std::move(upload), .collection = name->second});
  }
  return listed;
}

std::vector<NamedCollectionPtr> Catalog::List() const {
  const MutexLock lock(mutex_);
  std::vector<NamedCollectionPtr> all;
  all.reserve(collections_.size());
  for (const auto& [name, named] : collections_) all.push_back(named);
  return all;
}

}  // namespace nearfield::server

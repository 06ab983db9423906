// The collections of one server, by name; in memory.
#ifndef NEARFIELD_SERVER_CATALOG_CATALOG_H_
#define NEARFIELD_SERVER_CATALOG_CATALOG_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"

namespace nearfield::server {

inline constexpr int32_t kCollectionNameBytesMax = 63;

// A collection under its name. Whoever holds it may go on using it after a drop; its memory returns
// with the last holder.
struct NamedCollection {
  NamedCollection(std::string name_in, std::shared_ptr<Collection> collection_in)
      : name(std::move(name_in)), collection(std::move(collection_in)) {}

  const std::string name;
  const std::shared_ptr<Collection> collection;
  std::atomic<bool> dropped{false};
};

// OK for [A-Za-z0-9][A-Za-z0-9_.-]{0,62}. Errors: InvalidArgument.
absl::Status ValidateCollectionName(std::string_view name);

// Thread-safe.
class Catalog {
 public:
  // `engine` outlives the catalog.
  Catalog(Engine* engine, int64_t collections_max);

  // Errors: InvalidArgument (name, spec), AlreadyExists, ResourceExhausted (collections_max), and
  // the engine's.
  absl::StatusOr<std::shared_ptr<NamedCollection>> Create(const std::string& name,
                                                          const CollectionSpec& spec);

  // Errors: NotFound.
  absl::StatusOr<std::shared_ptr<NamedCollection>> Find(const std::string& name) const;

  // Frees the name at once and returns what it named. Errors: NotFound.
  absl::StatusOr<std::shared_ptr<NamedCollection>> Drop(const std::string& name);

  // Ordered by name.
  std::vector<std::shared_ptr<NamedCollection>> List() const;

 private:
  Engine* const engine_;
  const int64_t collections_max_;
  std::mutex creation_mutex_;  // one creation at a time; look-ups do not wait for it
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<NamedCollection>> collections_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_CATALOG_H_

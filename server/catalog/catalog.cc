#include "server/catalog/catalog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

// A client's name in a message: cut and escaped, whatever it holds.
std::string Shown(std::string_view name) {
  const absl::string_view cut(name.data(),
                              std::min<size_t>(name.size(), 2 * kCollectionNameBytesMax));
  return absl::StrCat("\"", absl::CHexEscape(cut), cut.size() < name.size() ? "\"..." : "\"");
}

absl::Status NoSuchCollection(std::string_view name) {
  return absl::NotFoundError(absl::StrCat("no collection ", Shown(name)));
}

}  // namespace

absl::Status ValidateCollectionName(std::string_view name) {
  bool legal = !name.empty() && name.size() <= kCollectionNameBytesMax &&
               absl::ascii_isalnum(static_cast<unsigned char>(name.front()));
  for (const char c : name) {
    legal = legal && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
                      c == '-');
  }
  if (legal) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "name: ", Shown(name), " (", name.size(), " bytes) must be 1 .. ", kCollectionNameBytesMax,
      " of A-Z a-z 0-9 _ . - and begin with a letter or digit"));
}

Catalog::Catalog(Engine* engine, int64_t collections_max)
    : engine_(engine), collections_max_(collections_max) {}

absl::StatusOr<std::shared_ptr<NamedCollection>> Catalog::Create(const std::string& name,
                                                                 const CollectionSpec& spec) {
  ABSL_RETURN_IF_ERROR(ValidateCollectionName(name));
  const std::lock_guard creation_lock(creation_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (collections_.count(name) > 0) {
      return absl::AlreadyExistsError(
          absl::StrCat("name: a collection ", Shown(name), " exists already"));
    }
    if (static_cast<int64_t>(collections_.size()) >= collections_max_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", collections_.size(),
                       " collections, the limit collections_max is ", collections_max_));
    }
  }
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection, engine_->CreateCollection(spec));
  auto named = std::make_shared<NamedCollection>(name, std::move(collection));
  const std::lock_guard lock(mutex_);
  collections_[name] = named;
  return named;
}

absl::StatusOr<std::shared_ptr<NamedCollection>> Catalog::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto it = collections_.find(name);
  if (it == collections_.end()) return NoSuchCollection(name);
  return it->second;
}

absl::StatusOr<std::shared_ptr<NamedCollection>> Catalog::Drop(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto it = collections_.find(name);
  if (it == collections_.end()) return NoSuchCollection(name);
  std::shared_ptr<NamedCollection> named = std::move(it->second);
  collections_.erase(it);
  named->dropped.store(true);
  return named;
}

std::vector<std::shared_ptr<NamedCollection>> Catalog::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<NamedCollection>> all;
  all.reserve(collections_.size());
  for (const auto& [name, named] : collections_) all.push_back(named);
  return all;
}

}  // namespace nearfield::server

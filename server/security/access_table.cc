#include "server/security/access_table.h"

namespace nearfield::server {
namespace {

constexpr auto kSearch = static_cast<uint8_t>(Scope::kSearch);
constexpr auto kRead = static_cast<uint8_t>(Scope::kRead);
constexpr auto kWrite = static_cast<uint8_t>(Scope::kWrite);
constexpr auto kAdmin = static_cast<uint8_t>(Scope::kAdmin);
constexpr auto kCreate = static_cast<uint8_t>(Scope::kCreate);
constexpr uint8_t kAny = kAllScopes;

constexpr auto kNothing = AccessTarget::kNothing;
constexpr auto kCollections = AccessTarget::kCollections;
constexpr auto kHidden = AccessTarget::kHidden;
constexpr auto kFiltered = AccessTarget::kFiltered;
constexpr auto kServer = AccessTarget::kServer;
constexpr bool kChanges = true;

constexpr std::array kTable = {
    MethodAccess{"nearfield.v1.Retrieval.Search", kSearch, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Retrieval.SearchStream", kSearch, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Retrieval.SearchAll", kSearch, kCollections, {"search.collection"}},
    MethodAccess{"nearfield.v1.Retrieval.Fetch", kRead, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Retrieval.Scan", kRead, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Retrieval.Count", kSearch | kRead, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Retrieval.Facets", kSearch | kRead, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Retrieval.PinEpoch", kSearch | kRead, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Retrieval.GetLimits", kAny, kNothing},
    MethodAccess{
        "nearfield.v1.Ingest.Upload", kWrite, kCollections, {"begin.collection"}, false, kChanges},
    MethodAccess{
        "nearfield.v1.Ingest.Delete", kWrite, kCollections, {"collection"}, false, kChanges},
    MethodAccess{
        "nearfield.v1.Ingest.Update", kWrite, kCollections, {"collection"}, false, kChanges},
    MethodAccess{"nearfield.v1.Ingest.GetUpload", kWrite, kHidden, {"collection"}},
    MethodAccess{
        "nearfield.v1.Ingest.DropUpload", kWrite, kHidden, {"collection"}, false, kChanges},
    MethodAccess{"nearfield.v1.Ingest.ListUploads", kWrite, kFiltered},
    MethodAccess{"nearfield.v1.Admin.CreateCollection",
                 kCreate | kAdmin,
                 kCollections,
                 {"name"},
                 false,
                 kChanges},
    MethodAccess{
        "nearfield.v1.Admin.DropCollection", kAdmin, kCollections, {"name"}, false, kChanges},
    MethodAccess{
        "nearfield.v1.Admin.AddAttribute", kAdmin, kCollections, {"collection"}, false, kChanges},
    MethodAccess{
        "nearfield.v1.Admin.DropAttribute", kAdmin, kCollections, {"collection"}, false, kChanges},
    MethodAccess{"nearfield.v1.Admin.GetCollection", kAny, kCollections, {"name"}},
    MethodAccess{"nearfield.v1.Admin.ListCollections", kAny, kFiltered},
    MethodAccess{"nearfield.v1.Admin.GetCapacity", kAdmin, kServer},
    MethodAccess{"nearfield.v1.Admin.GetCounters", kAdmin, kServer},
    MethodAccess{"nearfield.v1.Admin.GetServerState", kAny, kNothing},
    // An oracle's answer to a query: what a search returns.
    MethodAccess{"nearfield.v1.Admin.Verify", kSearch, kCollections, {"collection"}},
    MethodAccess{"nearfield.v1.Admin.SetAlias",
                 kAdmin,
                 kCollections,
                 {"alias", "collection"},
                 false,
                 kChanges},
    MethodAccess{"nearfield.v1.Admin.DropAlias", kAdmin, kCollections, {"alias"}, false, kChanges},
    MethodAccess{"nearfield.v1.Admin.CreateSnapshot", kAdmin, kServer, {}, false, kChanges},
    MethodAccess{"nearfield.v1.Admin.DeleteSnapshot", kAdmin, kServer, {}, false, kChanges},
    MethodAccess{"nearfield.v1.Admin.ListSnapshots", kAdmin, kServer},
    MethodAccess{
        "nearfield.v1.Admin.Compact", kAdmin, kCollections, {"collection"}, false, kChanges},
    // Probes have no key. The state of a collection, which the request names, needs one.
    MethodAccess{"grpc.health.v1.Health.Check", kAny, kFiltered, {}, /*is_open=*/true},
    MethodAccess{"grpc.health.v1.Health.Watch", kAny, kFiltered, {}, /*is_open=*/true},
};

}  // namespace

bool MethodAccess::IsAdministrative() const { return (scopes & ~(kCreate | kAdmin)) == 0; }

std::span<const MethodAccess> AccessTable() { return kTable; }

const MethodAccess* FindAccess(std::string_view method) {
  for (const MethodAccess& entry : kTable) {
    if (entry.name == method) return &entry;
  }
  return nullptr;
}

}  // namespace nearfield::server

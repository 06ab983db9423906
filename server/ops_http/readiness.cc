#include "server/ops_http/readiness.h"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace nearfield::server {
namespace {

constexpr size_t kCollectionsMax = 100;

nlohmann::json LoadingJson(const BootProgress::View& view) {
  const BootProgress::Loading& loading = view.loading;
  nlohmann::json json = {{"collections_loaded", loading.collections_loaded},
                         {"collections_count", loading.collections_count},
                         {"bytes_read", loading.bytes_read},
                         {"bytes_total", loading.bytes_total}};
  if (view.seconds_left.has_value()) json["seconds_left"] = *view.seconds_left;
  return json;
}

// Returns the collections that are not served, or that a restart may fail to load.
nlohmann::json DamagedJson(const Catalog& catalog) {
  nlohmann::json damaged = nlohmann::json::array();
  for (const NamedCollectionPtr& named : catalog.List()) {
    if (IsReadable(*named)) continue;
    const std::string why =
        named->load_status.ok()
            ? "stored rows cannot be read: searches continue, a restart may fail to load it"
            : std::string(named->load_status.message());
    damaged.push_back({{"collection", named->name}, {"reason", why}});
    if (damaged.size() == kCollectionsMax) break;
  }
  return damaged;
}

}  // namespace

bool IsReady(const ServerState& state) {
  return state.phase() == ServerState::Phase::kServing && !state.distrusted();
}

bool IsAlive(const ServerState& state) { return state.phase() != ServerState::Phase::kLost; }

std::string ReadinessJson(ServerState* state, const Certificates* certificates) {
  const ServerState::Phase phase = state->phase();
  const std::string reason = state->WhyNotServing(phase);
  nlohmann::json json = {{"ready", IsReady(*state)},
                         {"phase", NameOf(phase)},
                         {"trusted", !state->distrusted()},
                         {"reason", reason}};
  const BootProgress::View view = state->boot_progress().Get();
  if (phase == ServerState::Phase::kStarting && view.step == BootProgress::Step::kLoading) {
    json["loading"] = LoadingJson(view);
  }
  const Core* const core = state->core();
  if (core != nullptr) json["damaged_collections"] = DamagedJson(core->catalog);
  if (certificates != nullptr) {
    const absl::Status latest = certificates->state().latest;
    if (!latest.ok()) {
      json["certificate"] =
          "the files are not in force, and the certificate before is still in use: " +
          std::string(latest.message());
    }
  }
  // Reasons may quote paths that are not UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace nearfield::server

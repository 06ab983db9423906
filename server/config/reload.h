// Settings that a running server takes over from its changed configuration.
#ifndef NEARFIELD_SERVER_CONFIG_RELOAD_H_
#define NEARFIELD_SERVER_CONFIG_RELOAD_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/settings.h"

namespace nearfield::server {

// Not thread-safe.
class Reloader {
 public:
  // Fills settings anew from file, environment and flags, as at the start.
  using Load = std::function<absl::Status(Settings*)>;
  // A part of the server that can change while it runs: the settings that it is made of, and what
  // puts new values in force.
  struct Part {
    std::vector<std::string> settings;
    std::function<void(const Settings&)> apply;
  };
  struct Outcome {
    std::vector<std::string> changed;       // "name = value", in force now
    std::vector<std::string> need_restart;  // names; the values at the start stay in force
  };

  Reloader(const Settings& at_start, Load load, std::vector<Part> parts);

  // Errors: as `load`. Nothing has changed then.
  absl::StatusOr<Outcome> Reload();

 private:
  const Load load_;
  const std::vector<Part> parts_;
  std::map<std::string, std::string> in_force_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONFIG_RELOAD_H_

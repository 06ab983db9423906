// Settings from file < environment < flag.
#ifndef NEARFIELD_SERVER_CONFIG_LOAD_H_
#define NEARFIELD_SERVER_CONFIG_LOAD_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/settings.h"

namespace nearfield::server {

// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

struct LoadOutcome {
  // What the command line asked for.
  enum class Action { kServe, kPrint, kCheckDataDir, kRestore };
  Action action = Action::kServe;
  // kPrint: for stdout; then exit 0. kRestore: the snapshot's directory.
  std::string text;
};

// Fills `settings`, once. An empty environment variable counts as absent.
// Errors: InvalidArgument (unknown flag or key, bad value, settings that do not fit together),
// NotFound (the file).
absl::StatusOr<LoadOutcome> LoadSettings(int argc, const char* const* argv,
                                         const Environment& environment, Settings* settings);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONFIG_LOAD_H_

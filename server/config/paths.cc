#include "server/config/paths.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace nearfield::server {
namespace {

constexpr size_t kPasswordEntryBytesMax = size_t{16} << 10;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets one
  return value == nullptr ? "" : value;
}

}  // namespace

DataDirOwner ThisUser() {
  DataDirOwner owner = {.is_root = geteuid() == 0,
                        .xdg_data_home = Variable("XDG_DATA_HOME"),
                        .home = Variable("HOME")};
  if (owner.home.empty()) {
    // A reload of the settings runs on a thread of its own, where getpwuid would not be safe.
    std::vector<char> text(kPasswordEntryBytesMax);
    passwd entry = {};
    passwd* found = nullptr;
    getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found);
    if (found != nullptr) owner.home = found->pw_dir;
  }
  return owner;
}

std::string DefaultDataDir(const DataDirOwner& owner) {
  if (owner.is_root) return "/var/lib/nearfield";
  if (absl::StartsWith(owner.xdg_data_home, "/")) return owner.xdg_data_home + "/nearfield";
  return owner.home.empty() ? "" : owner.home + "/.local/share/nearfield";
}

absl::Status ResolvePaths(const DataDirOwner& owner, Settings* settings) {
  settings->data_dir.SetDefault(DefaultDataDir(owner));
  for (TextSetting* path :
       {&settings->data_dir, &settings->snapshot_dir, &settings->audit_dir, &settings->port_file}) {
    if (path->value().empty()) continue;
    if (path == &settings->data_dir && !settings->keeps_data()) continue;
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(path->value(), error);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat(path->name(), " = \"", path->value(),
                       "\": there is no working directory: ", error.message()));
    }
    path->Replace(absolute.string());
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server

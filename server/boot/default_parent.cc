#include "server/boot/default_parent.h"

#include "server/store/file.h"

namespace nearfield::server {

absl::Status MakeDefaultParent(const Settings& settings) {
  if (settings.data_dir.source() != SettingSource::kDefault) return absl::OkStatus();
  return store::MakeParents(settings.data_dir.value());
}

}  // namespace nearfield::server

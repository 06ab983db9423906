// MakeDefaultParent: makes the directories above the default data directory.
#pragma once

#include "absl/status/status.h"
#include "server/config/settings.h"

namespace nearfield::server {

// Makes the directories above the default data directory, such as ~/.local/share, durably. A
// directory that the operator names must have its parent.
absl::Status MakeDefaultParent(const Settings& settings);

}  // namespace nearfield::server

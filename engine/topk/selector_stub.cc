// The selection library in a build without CUDA: Create returns Unimplemented.
#include "absl/status/status.h"
#include "nearfield/engine/select.h"

namespace nearfield::select {

absl::StatusOr<std::unique_ptr<Selector>> Selector::Create(const SelectorOptions& /*options*/) {
  return absl::UnimplementedError("selection on a GPU: built without CUDA");
}

}  // namespace nearfield::select

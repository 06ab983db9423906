// Makes several edits in one file of a data directory or of a snapshot: catalog, its log, a
// segment, the mark, the manifest. A start or a restore must refuse the directory, or serve exactly
// the rows that were committed.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fault/crash_flips.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_folder.h"

namespace nearfield::fault {
namespace {

using fuzz::InputReader;

// Changes, removes or replaces one file, as the input says. Together, a lost log and a lost mark
// are an older directory, which no check can detect.
std::vector<DamagedStore::File> Edited(std::vector<DamagedStore::File> files, InputReader& input) {
  const size_t at = input.Take(1) % files.size();
  switch (input.Take(1) % 16) {
    case 0: files.erase(files.begin() + static_cast<int64_t>(at)); break;
    case 1: files[at].second = files[input.Take(1) % files.size()].second; break;
    case 2: files[at].second = input.TakeBytes(255); break;
    default: input.Edit(&files[at].second);
  }
  return files;
}

void Run(std::string_view bytes) {
  static const fuzz::ScratchFolder folder;
  static const absl::StatusOr<DamagedStore> store = DamagedStore::Make(folder.path());
  Require(store.ok());
  InputReader input(bytes);
  const bool of_snapshot = input.Take(1) % 2 == 0;
  const auto outcome = of_snapshot ? store->Restore(Edited(store->snapshot(), input))
                                   : store->Open(Edited(store->files(), input));
  Require(outcome.ok() && *outcome != DamagedStore::Outcome::kUndetected);
}

}  // namespace
}  // namespace nearfield::fault

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::fault::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}

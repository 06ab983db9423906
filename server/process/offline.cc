#include "server/process/offline.h"

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/file.h"
#include "server/store/store.h"

namespace nearfield::server {
namespace {

ExitCode Failed(std::string_view what, const absl::Status& status) {
  std::fprintf(stderr, "nearfield-server: %s: %s\n", std::string(what).c_str(),
               status.ToString().c_str());
  const bool wrong = absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
                     absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status);
  return wrong ? ExitCode::kConfiguration : ExitCode::kStorage;
}

// Returns one line for each collection.
std::string ListOf(const store::Store& store) {
  std::string text;
  for (const store::StoredCollection& collection : store.Collections()) {
    absl::StrAppend(&text, "collection ", collection.name, ": ", collection.rows_count,
                    " rows at epoch ", collection.epoch, ", ", collection.bytes, " bytes in ",
                    collection.segments_count, " segments");
    for (const std::string& alias : collection.aliases) absl::StrAppend(&text, ", alias ", alias);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string Text(const store::VerifyReport& report) {
  return absl::StrCat("good: ", report.collections, " collections, ", report.segments,
                      " segments, ", report.blocks, " blocks, ", report.rows, " stored rows, ",
                      report.bytes, " bytes, ", report.commits, " links of the chain of commits\n");
}

// Prints the contents of the directory; with `verify`, also checks all of it.
absl::Status Describe(const std::string& dir, bool verify) {
  if (!store::Store::IsIn(dir)) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir, ": no data directory, or one that lost its catalog"));
  }
  absl::Status fatal;
  {
    store::StoreOptions options = {.dir = dir};
    options.on_fatal = [&fatal](const absl::Status& status) { fatal = status; };
    ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                          store::Store::Open(std::move(options)));
    std::fputs(ListOf(*store).c_str(), stdout);
    if (verify) {
      const absl::StatusOr<store::VerifyReport> report = store->Verify();
      if (!report.ok()) return fatal.ok() ? report.status() : fatal;
      std::fprintf(stdout, "%s: %s", dir.c_str(), Text(*report).c_str());
    }
  }
  return fatal;
}

}  // namespace

ExitCode CheckDataDir(const std::string& dir) {
  const absl::Status checked = Describe(dir, /*verify=*/true);
  return checked.ok() ? ExitCode::kClean : Failed("the check failed", checked);
}

ExitCode RestoreDataDir(const std::string& from, const std::string& to) {
  const absl::Status restored = store::Store::Restore(from, to);
  if (!restored.ok()) return Failed("nothing was restored", restored);
  const absl::Status described = Describe(to, /*verify=*/false);  // Restore verified it
  if (!described.ok()) return Failed("what was restored cannot be opened", described);
  std::fprintf(stdout, "%s: restored from %s, every byte checked\n", to.c_str(), from.c_str());
  return ExitCode::kClean;
}

}  // namespace nearfield::server

#include "tests/fault/fault_plan.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace nearfield::fault {
namespace {

std::string Text(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

int64_t Number(const char* name, int64_t otherwise) {
  const std::string text = Text(name);
  return text.empty() ? otherwise : std::strtoll(text.c_str(), nullptr, 10);
}

FaultKind KindOf(const std::string& text) {
  if (text == "kill") return FaultKind::kKill;
  if (text == "power") return FaultKind::kPower;
  if (text == "eio") return FaultKind::kEio;
  if (text == "enospc") return FaultKind::kEnospc;
  if (text == "eio-read") return FaultKind::kEioRead;
  if (text == "emfile") return FaultKind::kEmfile;
  if (text == "enfile") return FaultKind::kEnfile;
  return FaultKind::kCount;
}

const char* NameOf(int error) {
  switch (error) {
    case ENOSPC: return "enospc";
    case EMFILE: return "emfile";
    case ENFILE: return "enfile";
    default: return "eio";
  }
}

// Returns the index in calls_ of the group with which the call is counted.
size_t GroupOf(CallKind call) {
  if (call == CallKind::kRead) return 1;
  return call == CallKind::kOpen ? 2 : 0;
}

size_t GroupOf(FaultKind kind) {
  if (kind == FaultKind::kEioRead) return 1;
  return kind == FaultKind::kEmfile || kind == FaultKind::kEnfile ? 2 : 0;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Calls the kernel directly, so that the library's faults do not affect its own calls.
void Put(const std::string& path, int flags, const std::string& text) {
  const long fd =
      ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (fd < 0) return;
  ::syscall(SYS_write, fd, text.data(), text.size());
  ::syscall(SYS_close, fd);
}

}  // namespace

FaultPlan FaultPlan::FromEnvironment() {
  FaultPlan plan;
  plan.root_ = Text("NEARFIELD_FAULT_ROOT");
  plan.stash_ = Text("NEARFIELD_FAULT_STASH");
  plan.ignore_sync_ = Text("NEARFIELD_FAULT_IGNORE_SYNC");
  plan.log_ = Text("NEARFIELD_FAULT_LOG");
  plan.calls_file_ = Text("NEARFIELD_FAULT_CALLS");
  plan.kind_ = KindOf(Text("NEARFIELD_FAULT_KIND"));
  plan.at_ = Number("NEARFIELD_FAULT_AT", 0);
  plan.times_ = Number("NEARFIELD_FAULT_TIMES", 1);
  plan.random_ = testing::Random(static_cast<uint64_t>(Number("NEARFIELD_FAULT_SEED", 1)));
  return plan;
}

int FaultPlan::error() const {
  switch (kind_) {
    case FaultKind::kEnospc: return ENOSPC;
    case FaultKind::kEmfile: return EMFILE;
    case FaultKind::kEnfile: return ENFILE;
    default: return EIO;
  }
}

bool FaultPlan::Covers(const std::string& path) const {
  return active() && path.compare(0, root_.size(), root_) == 0 &&
         (path.size() == root_.size() || path[root_.size()] == '/');
}

bool FaultPlan::IgnoresSync(const std::string& path, bool is_directory) const {
  if (ignore_sync_ == "directories") return is_directory;
  if (is_directory) return false;
  if (ignore_sync_ == "segments") return EndsWith(path, ".seg");
  return ignore_sync_ == "catalog" && path.find("/catalog.db") != std::string::npos;
}

Step FaultPlan::Next(CallKind call) {
  const int64_t calls = ++calls_[GroupOf(call)];
  if (GroupOf(call) != GroupOf(kind_) || calls < at_ || at_ == 0) return Step::kProceed;
  switch (kind_) {
    case FaultKind::kCount: return Step::kProceed;
    case FaultKind::kKill:
    case FaultKind::kPower:
      if (call == CallKind::kWrite && random_.OneIn(2)) return Step::kDiePartial;
      return random_.OneIn(2) ? Step::kDieBefore : Step::kDieAfter;
    case FaultKind::kEnospc:
      // A full disk fails only calls that need space.
      if (call == CallKind::kRemoveName || call == CallKind::kTruncate || call == CallKind::kSync) {
        return Step::kProceed;
      }
      break;
    case FaultKind::kEio:
    case FaultKind::kEioRead:
    case FaultKind::kEmfile:
    case FaultKind::kEnfile: break;
  }
  if (times_ <= 0) return Step::kProceed;
  --times_;
  return Step::kFail;
}

void FaultPlan::LogFailure(const char* call, const std::string& path) const {
  if (log_.empty()) return;
  Put(log_, O_APPEND, std::string("fault ") + NameOf(error()) + " " + call + " " + path + "\n");
}

void FaultPlan::WriteCalls(int64_t allocations) const {
  if (calls_file_.empty()) return;
  std::string line;
  for (const int64_t calls : calls_) line += std::to_string(calls) + " ";
  Put(calls_file_, O_TRUNC, line + std::to_string(allocations) + "\n");
}

}  // namespace nearfield::fault

#include "server/config/memory_plan.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/physical_memory.h"

namespace nearfield::server {
namespace {

// Code, stacks, gRPC, SQLite and the self-test; with a GPU also the memory that the CUDA driver
// maps. Measured: an idle server has 40 to 70 MiB resident.
constexpr int64_t kProcessBytes = 96 * kMiB;
constexpr int64_t kDriverBytes = 512 * kMiB;
// Limits on the number of threads on which gRPC's callback queue parses messages.
constexpr int64_t kParsingThreadsMin = 2;
constexpr int64_t kParsingThreadsMax = 16;
// Bytes of a connection without a call that transport_bytes_max does not cover.
constexpr int64_t kConnectionBytes = 32 * kKiB;
// Additional bytes with TLS, an estimate: four buffers of 17 KiB for records (OpenSSL's two and the
// two between it and gRPC), gRPC's two of 8 KiB, and the state of the session.
constexpr int64_t kTlsConnectionBytes = 96 * kKiB;
// Bytes of a connection of the HTTP port without a call: the buffer of its head and of what it
// reads, a small reply, and its objects.
constexpr int64_t kHttpConnectionBytes = 112 * kKiB;
// Blocks that an upload holds: the current message, its native form and the next message.
constexpr int64_t kUploadBlocks = 3;
// An allocator holds more than it hands out: 1 / kAllocatorPart of the transient parts.
constexpr int64_t kAllocatorPart = 8;
// 1 / kOthersPart of the memory is left to the rest of the machine.
constexpr int64_t kOthersPart = 16;

// With less memory than this, defaults do not shrink further. The plan is refused if its sum does
// not fit.
constexpr int64_t kScaledMemoryMin = kGiB;

// Shares of what the other parts leave, for settings that are 0: rows, ids and payloads,
// attributes. Each is at most 1 / largest_part of the memory.
struct DataShare {
  int64_t weight;
  int64_t largest_part;
};
constexpr DataShare kRowsShare = {4, 2};
constexpr DataShare kValuesShare = {2, 4};
constexpr DataShare kAttributesShare = {1, 8};

bool RowsInHostMemory(const Settings& settings, const HostMachine& machine) {
  const std::string& backend = settings.backend.value();
  return backend == "cpu" || (backend == "auto" && !machine.has_gpu);
}

// Returns the bytes that the operator assigned to rows and their data. The CPU backend has no
// memory of its own for rows: host.
int64_t GivenBytes(const Settings& settings, bool rows_in_host_memory) {
  return (rows_in_host_memory ? settings.memory_bytes.value() : settings.host_rows_bytes.value()) +
         settings.host_memory_bytes.value() + settings.attribute_memory_bytes.value();
}

// Returns the parts that calls allocate and release.
std::vector<MemoryPart> TransientParts(const Settings& settings, const HostMachine& machine) {
  const int64_t message = settings.request_bytes_max.value();
  const int64_t threads = std::clamp(machine.cores / 2, kParsingThreadsMin, kParsingThreadsMax);
  const int64_t uploads = settings.uploads_max.value();
  const int64_t tls_bytes = settings.tls_cert.value().empty() ? 0 : kTlsConnectionBytes;
  const int64_t connection_bytes = kConnectionBytes + tls_bytes;
  std::vector<MemoryPart> parts = {
      {.name = "replies_bytes_max",
       .bound = "replies that clients have not taken yet",
       .bytes = settings.replies_bytes_max.value()},
      {.name = "requests_bytes_max",
       .bound = "requests that are being worked on",
       .bytes = settings.requests_bytes_max.value()},
      {.name = "transport_bytes_max",
       .bound = "messages that are being received or sent",
       .bytes = settings.transport_bytes_max.value()},
      {.name = "messages being parsed",
       .bound = absl::StrCat("request_bytes_max on ", threads, " threads"),
       .bytes = threads * message},
      {.name = "upload blocks",
       .bound = absl::StrCat(kUploadBlocks, " of request_bytes_max for each of uploads_max"),
       .bytes = kUploadBlocks * uploads * message},
      {.name = "connections",
       .bound = absl::StrCat(connection_bytes, " for each of connections_max"),
       .bytes = connection_bytes * settings.connections_max.value()},
  };
  if (settings.has_http_port()) {
    const int64_t bytes = kHttpConnectionBytes + tls_bytes;
    parts.push_back({.name = "HTTP connections",
                     .bound = absl::StrCat(bytes, " for each of http_connections_max"),
                     .bytes = bytes * settings.http_connections_max.value()});
  }
  int64_t sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  parts.push_back({.name = "allocator",
                   .bound = absl::StrCat("1/", kAllocatorPart, " of the parts above"),
                   .bytes = sum / kAllocatorPart});
  return parts;
}

std::vector<MemoryPart> DataParts(const Settings& settings, const MemoryPlan& plan,
                                  bool rows_here) {
  std::vector<MemoryPart> parts;
  if (rows_here) {
    parts.push_back({.name = "memory_bytes",
                     .bound = "rows, as they are uploaded",
                     .bytes = plan.memory_bytes});
  } else {
    const int64_t given = settings.memory_bytes.value();
    parts.push_back({.name = "memory_bytes",
                     .bound = absl::StrCat("rows are in the memory of each GPU, which the server "
                                           "takes at the start: ",
                                           given > 0 ? absl::StrCat(given) : "85% of what is free"),
                     .is_reserved = true});
    parts.push_back({.name = "host_rows_bytes",
                     .bound = "rows of collections with rows: host",
                     .bytes = settings.host_rows_bytes.value(),
                     .is_reserved = true});
  }
  parts.push_back({.name = "host_memory_bytes",
                   .bound = "ids and payloads of the rows",
                   .bytes = plan.host_memory_bytes});
  parts.push_back({.name = "attribute_memory_bytes",
                   .bound = "attributes of the rows",
                   .bytes = plan.attribute_memory_bytes});
  return parts;
}

// Returns "1536 MiB" or "22 GiB", rounded, for people.
std::string Rounded(int64_t bytes) {
  return bytes < 10 * kGiB ? absl::StrCat((bytes + kMiB / 2) / kMiB, " MiB")
                           : absl::StrCat((bytes + kGiB / 2) / kGiB, " GiB");
}

// Resolves one data setting: its value if it was set, else its share of `left`.
int64_t Resolve(int64_t asked, DataShare share, int64_t left, int64_t weights, int64_t memory) {
  if (asked > 0) return asked;
  if (weights == 0) return 0;
  return std::clamp<int64_t>(left / weights * share.weight, 0, memory / share.largest_part);
}

}  // namespace

HostMachine ThisMachine() {
  std::error_code ignored;
  const auto exists = [&](const char* node) { return std::filesystem::exists(node, ignored); };
  return {.memory_bytes = PhysicalMemoryBytes(),
          .cores = std::max<int64_t>(1, std::thread::hardware_concurrency()),
          .has_gpu = exists("/dev/nvidiactl") || exists("/dev/dxg")};
}

void ScaleDefaults(const HostMachine& machine, Settings* settings) {
  const int64_t given = GivenBytes(*settings, RowsInHostMemory(*settings, machine));
  const int64_t left = machine.memory_bytes - machine.memory_bytes / kOthersPart - given;
  // Scaled to twice what is left: the defaults take less than half of what they are scaled to, so
  // they fit into what is left.
  const int64_t memory =
      std::min(machine.memory_bytes, std::max<int64_t>(2 * left, kScaledMemoryMin));
  const auto scale = [memory](BytesSetting& setting, int64_t part) {
    const int64_t bytes = memory / part;
    setting.LowerDefault(bytes - bytes % (bytes >= kMiB ? kMiB : kKiB));
  };
  scale(settings->request_bytes_max, 256);
  scale(settings->response_bytes_max, 256);
  scale(settings->queue_bytes_max, 64);
  scale(settings->filter_cache_bytes, 64);
  scale(settings->term_memory_bytes, 32);
  scale(settings->replies_bytes_max, 16);
  scale(settings->requests_bytes_max, 32);
  scale(settings->transport_bytes_max, 32);
}

MemoryPlan PlanMemory(const Settings& settings, const HostMachine& machine) {
  const bool rows_here = RowsInHostMemory(settings, machine);
  MemoryPlan plan;
  plan.physical_bytes = machine.memory_bytes;
  std::vector<MemoryPart> fixed = TransientParts(settings, machine);
  fixed.push_back({.name = "filter_cache_bytes",
                   .bound = "results of recently used filters",
                   .bytes = settings.filter_cache_bytes.value()});
  fixed.push_back({.name = "term_memory_bytes",
                   .bound = "numbers of attributes that row terms read",
                   .bytes = settings.term_memory_bytes.value()});
  fixed.push_back({.name = "process",
                   .bound = rows_here ? "the program itself, an estimate"
                                      : "the program itself and the GPU's driver, an estimate",
                   .bytes = kProcessBytes + (rows_here ? 0 : kDriverBytes),
                   .is_reserved = true});
  int64_t left =
      machine.memory_bytes - machine.memory_bytes / kOthersPart - GivenBytes(settings, rows_here);
  for (const MemoryPart& part : fixed) left -= part.bytes;
  left = std::max<int64_t>(left, 0);
  int64_t weights = 0;
  if (rows_here && settings.memory_bytes.value() == 0) weights += kRowsShare.weight;
  if (settings.host_memory_bytes.value() == 0) weights += kValuesShare.weight;
  if (settings.attribute_memory_bytes.value() == 0) weights += kAttributesShare.weight;
  const auto resolve = [&](const BytesSetting& setting, DataShare share) {
    return Resolve(setting.value(), share, left, weights, machine.memory_bytes);
  };
  plan.memory_bytes = rows_here ? resolve(settings.memory_bytes, kRowsShare) : 0;
  plan.host_memory_bytes = resolve(settings.host_memory_bytes, kValuesShare);
  plan.attribute_memory_bytes = resolve(settings.attribute_memory_bytes, kAttributesShare);
  plan.starved = weights > 0 && left / weights < kMiB;
  plan.parts = DataParts(settings, plan, rows_here);
  plan.parts.insert(plan.parts.end(), fixed.begin(), fixed.end());
  for (const MemoryPart& part : plan.parts) {
    plan.total_bytes += part.bytes;
    if (part.is_reserved) plan.reserved_bytes += part.bytes;
  }
  return plan;
}

std::string MemoryPlan::Text() const {
  std::string text = "# Memory of this machine or container that the server takes, in bytes.\n";
  const auto append = [&](bool is_reserved, int64_t sum) {
    for (const MemoryPart& part : parts) {
      if (part.is_reserved != is_reserved) continue;
      absl::StrAppend(&text, "#   ", part.name, ": ", part.bytes, " (", part.bound, ")\n");
    }
    absl::StrAppend(&text, "#   sum: ", sum, ", ", Rounded(sum), "\n");
  };
  text += "# Taken when it starts, and held until it ends:\n";
  append(true, reserved_bytes);
  text +=
      "# Limits: an empty, idle server takes none of this; each grows with its use, at most to\n";
  append(false, total_bytes - reserved_bytes);
  absl::StrAppend(&text, "# memory sum: ", total_bytes, " of ", physical_bytes,
                  ", if every limit is reached at the same time: ", Rounded(total_bytes), " of ",
                  Rounded(physical_bytes), "\n");
  return text;
}

absl::Status CheckFits(const MemoryPlan& plan) {
  if (plan.total_bytes <= plan.physical_bytes && !plan.starved) return absl::OkStatus();
  std::string parts;
  for (const MemoryPart& part : plan.parts) {
    if (part.bytes == 0) continue;
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", part.name, " ", part.bytes);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "memory: the settings may take ", plan.total_bytes, " bytes, this process may use ",
      plan.physical_bytes, plan.starved ? ", which leaves nothing for data" : "", ": lower one of ",
      parts));
}

}  // namespace nearfield::server

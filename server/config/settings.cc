#include "server/config/settings.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace nearfield::server {
namespace {

constexpr char kUnix[] = "unix:";
constexpr size_t kUnixPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

// Returns the part before the port.
std::string HostOf(const std::string& listen) { return listen.substr(0, listen.rfind(':')); }

// Checks the form only. Bind reports a host that does not resolve.
bool IsAddress(const std::string& listen) {
  if (absl::StartsWith(listen, kUnix)) return listen.size() > sizeof(kUnix) - 1;
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = HostOf(listen);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  // Without brackets, it is ambiguous which colon precedes the port.
  if (!bracketed && host.find_first_of(":[]") != std::string::npos) return false;
  const std::string port = listen.substr(colon + 1);
  uint32_t number = 0;
  return port.find_first_not_of("0123456789") == std::string::npos &&
         absl::SimpleAtoi(port, &number) && number <= 65535;
}

// Returns true if `path` is `dir` or inside it. Compares the names only.
bool Holds(const std::string& dir, const std::string& path) {
  const auto relative = std::filesystem::path(path).lexically_normal().lexically_relative(
      std::filesystem::path(dir).lexically_normal());
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

absl::Status Settings::Validate() const {
  if (!IsAddress(listen.value())) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen = \"", listen.value(),
                     "\": must be HOST:PORT with a port of 0 .. 65535, or unix:PATH; an IPv6 "
                     "address stands in brackets, as in [::1]:50051"));
  }
  if (absl::StartsWith(listen.value(), kUnix) &&
      listen.value().size() - (sizeof(kUnix) - 1) > kUnixPathBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("listen = \"", listen.value(), "\": a path of ",
                                                   listen.value().size() - (sizeof(kUnix) - 1),
                                                   " bytes, a socket's path has at most ",
                                                   kUnixPathBytesMax));
  }
  if (absl::StartsWith(listen.value(), kUnix) && !port_file.value().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("port_file = \"", port_file.value(),
                                                   "\": listen = \"", listen.value(),
                                                   "\" has no port to write"));
  }
  if (data_dir.value().empty()) {
    return absl::InvalidArgumentError(
        "data_dir = \"\": must be a directory, or none for collections that live in memory alone");
  }
  if (!snapshot_dir.value().empty() && keeps_data() &&
      Holds(data_dir.value(), snapshot_dir.value())) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot_dir = \"", snapshot_dir.value(),
                                                   "\": lies in data_dir = \"", data_dir.value(),
                                                   "\", which belongs to the store alone"));
  }
  if (queries_max.value() > batch_max.value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries_max = ", queries_max.value(),
                     ": must be at most batch_max = ", batch_max.value()));
  }
  if (payload_bytes_max.value() > upload_block_bytes_max() / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload_bytes_max = ", payload_bytes_max.Text(),
                     ": must be at most half of request_bytes_max = ", request_bytes_max.Text()));
  }
  if (payload_bytes_max.value() > response_bytes_max.value() / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload_bytes_max = ", payload_bytes_max.Text(),
                     ": must be at most half of response_bytes_max = ", response_bytes_max.Text()));
  }
  if (queue_bytes_max.value() < request_bytes_max.value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue_bytes_max = ", queue_bytes_max.Text(),
                     ": must be at least request_bytes_max = ", request_bytes_max.Text()));
  }
  if (replies_bytes_max.value() / kReplyCopies < response_bytes_max.value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("replies_bytes_max = ", replies_bytes_max.Text(),
                     ": must be at least twice response_bytes_max = ", response_bytes_max.Text()));
  }
  for (const BytesSetting* each : {&requests_bytes_max, &transport_bytes_max}) {
    if (each->value() >= request_bytes_max.value()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(each->name(), " = ", each->Text(),
                     ": must be at least request_bytes_max = ", request_bytes_max.Text()));
  }
  return absl::OkStatus();
}

EngineOptions Settings::ToEngineOptions() const {
  EngineOptions options;
  options.backend = backend.value() == "cpu"   ? BackendChoice::kCpu
                    : backend.value() == "gpu" ? BackendChoice::kGpu
                                               : BackendChoice::kAuto;
  options.device = static_cast<int32_t>(device.value());
  options.memory_bytes = memory_bytes.value();
  options.host_memory_bytes = host_memory_bytes.value();
  options.host_rows_bytes = host_rows_bytes.value();
  options.threads = static_cast<int32_t>(threads.value());
  options.k_max = static_cast<int32_t>(k_max.value());
  options.batch_max = static_cast<int32_t>(batch_max.value());
  return options;
}

std::string Settings::AuditDir() const {
  if (!audit_dir.value().empty()) return audit_dir.value();
  return keeps_data() ? data_dir.value() + "/audit" : "";
}

std::string Settings::Effective() const {
  std::string text;
  for (const SettingBase* setting : all()) {
    const std::string source(SettingSourceName(setting->source()));
    absl::StrAppend(&text, setting->name(), " = \"", setting->Text(), "\"  # ", source, "\n");
  }
  return text;
}

bool IsLoopback(const std::string& listen) {
  if (absl::StartsWith(listen, kUnix)) return true;
  const std::string host = HostOf(listen);
  if (host == "localhost" || host == "[::1]") return true;
  // Require a literal address: "127.example.org" may be any host.
  in_addr address{};
  return absl::StartsWith(host, "127.") && inet_pton(AF_INET, host.c_str(), &address) == 1;
}

}  // namespace nearfield::server

#include "server/config/settings.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"

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

// Returns InvalidArgument: 'NAME = "VALUE": WHAT'.
absl::Status Refused(const TextSetting& setting, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(setting.name(), " = \"", setting.value(), "\": ", what));
}

// Returns OK if the setting is in its relation to `limit`: `holds`. Else InvalidArgument.
absl::Status Check(bool holds, const SettingBase& setting, const char* relation,
                   const SettingBase& limit) {
  if (holds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(setting.name(), " = ", setting.Text(),
                                                 ": must be ", relation, " ", limit.name(), " = ",
                                                 limit.Text()));
}

// Returns different CUDA ordinals, {kAllDevices} for "all", or nothing if the text is neither.
std::optional<std::vector<int32_t>> ParseGpus(absl::string_view text) {
  constexpr int32_t kOrdinalMax = 255;
  if (text == "all") return std::vector<int32_t>{kAllDevices};
  std::vector<int32_t> ordinals;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int32_t ordinal = 0;
    if (!absl::SimpleAtoi(part, &ordinal) || ordinal < 0 || ordinal > kOrdinalMax ||
        std::find(ordinals.begin(), ordinals.end(), ordinal) != ordinals.end()) {
      return std::nullopt;
    }
    ordinals.push_back(ordinal);
  }
  if (ordinals.size() > size_t{kDevicesMax}) return std::nullopt;
  return ordinals;
}

}  // namespace

absl::Status Settings::Validate() const {
  const bool is_unix = absl::StartsWith(listen.value(), kUnix);
  if (!IsAddress(listen.value())) {
    return Refused(listen,
                   "must be HOST:PORT with a port of 0 .. 65535, or unix:PATH; an IPv6 address "
                   "stands in brackets, as in [::1]:50051");
  }
  const size_t path_bytes = is_unix ? listen.value().size() - (sizeof(kUnix) - 1) : 0;
  if (path_bytes > kUnixPathBytesMax) {
    return Refused(listen, absl::StrCat("a path of ", path_bytes,
                                        " bytes, a socket's path has at most ", kUnixPathBytesMax));
  }
  if (is_unix && !port_file.value().empty()) {
    return Refused(port_file,
                   absl::StrCat("listen = \"", listen.value(), "\" has no port to write"));
  }
  if (tls_cert.value().empty() != tls_key.value().empty()) {
    const bool has_key = tls_cert.value().empty();
    return Refused(has_key ? tls_key : tls_cert,
                   absl::StrCat("needs ", has_key ? tls_cert.name() : tls_key.name(), " as well"));
  }
  if (!tls_client_ca.value().empty() && tls_cert.value().empty()) {
    return Refused(tls_client_ca, "needs tls_cert and tls_key as well");
  }
  if (has_ops_port() &&
      (!IsAddress(ops_listen.value()) || absl::StartsWith(ops_listen.value(), kUnix))) {
    return Refused(ops_listen, "must be HOST:PORT with a port of 0 .. 65535, or none");
  }
  if (has_http_port() &&
      (!IsAddress(http_listen.value()) || absl::StartsWith(http_listen.value(), kUnix))) {
    return Refused(http_listen, "must be HOST:PORT with a port of 0 .. 65535, or none");
  }
  if (!devices.value().empty()) {
    if (!ParseGpus(devices.value())) {
      return Refused(devices, absl::StrCat("must be all, or up to ", kDevicesMax,
                                           " different numbers of 0 .. 255, as in 0,2"));
    }
    if (device.source() != SettingSource::kDefault) {
      return Refused(devices, absl::StrCat("device = ", device.value(), " is set too"));
    }
  }
  if (data_dir.value().empty()) {
    return Refused(data_dir,
                   "must be a directory, or none for collections that are in memory only");
  }
  if (!snapshot_dir.value().empty() && keeps_data() &&
      Holds(data_dir.value(), snapshot_dir.value())) {
    return Refused(snapshot_dir, absl::StrCat("lies in data_dir = \"", data_dir.value(),
                                              "\", which belongs to the store alone"));
  }
  const int64_t request = request_bytes_max.value();
  const int64_t response = response_bytes_max.value();
  const int64_t payload = payload_bytes_max.value();
  ABSL_RETURN_IF_ERROR(
      Check(queries_max.value() <= batch_max.value(), queries_max, "at most", batch_max));
  ABSL_RETURN_IF_ERROR(Check(payload <= upload_block_bytes_max() / 2, payload_bytes_max,
                             "at most half of", request_bytes_max));
  ABSL_RETURN_IF_ERROR(
      Check(payload <= response / 2, payload_bytes_max, "at most half of", response_bytes_max));
  ABSL_RETURN_IF_ERROR(
      Check(queue_bytes_max.value() >= request, queue_bytes_max, "at least", request_bytes_max));
  ABSL_RETURN_IF_ERROR(Check(replies_bytes_max.value() / kReplyCopies >= response,
                             replies_bytes_max, "at least twice", response_bytes_max));
  for (const BytesSetting* each : {&requests_bytes_max, &transport_bytes_max}) {
    ABSL_RETURN_IF_ERROR(Check(each->value() >= request, *each, "at least", request_bytes_max));
  }
  return absl::OkStatus();
}

bool Settings::has_http_port() const { return http_listen.value() != "none"; }

const TextSetting* Settings::BeyondLoopback() const {
  if (!IsLoopback(listen.value())) return &listen;
  return has_http_port() && !IsLoopback(http_listen.value()) ? &http_listen : nullptr;
}

bool Settings::IsExposed() const {
  return BeyondLoopback() != nullptr && (tls_cert.value().empty() || key_file.value().empty());
}

absl::Status Settings::CheckExposure() const {
  if (!IsExposed() || allow_insecure.value()) return absl::OkStatus();
  return Refused(
      *BeyondLoopback(),
      absl::StrCat("is beyond loopback, and ", tls_cert.value().empty() ? "tls_cert" : "key_file",
                   " is empty: give tls_cert, tls_key and key_file, or listen "
                   "on 127.0.0.1, or set allow_insecure if trusted callers "
                   "alone can reach the port"));
}

std::vector<int32_t> Settings::Gpus() const {
  if (devices.value().empty()) return {static_cast<int32_t>(device.value())};
  return *ParseGpus(devices.value());
}

EngineOptions Settings::ToEngineOptions() const {
  EngineOptions options;
  options.backend = backend.value() == "cpu"   ? BackendChoice::kCpu
                    : backend.value() == "gpu" ? BackendChoice::kGpu
                                               : BackendChoice::kAuto;
  options.devices = Gpus();
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

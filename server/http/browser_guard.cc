#include "server/http/browser_guard.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/config/settings.h"
#include "server/convert/text.h"

namespace nearfield::server {

absl::Status CheckHost(const BrowserHeaders& headers) {
  const std::string& host = headers.host;
  // With a port, as in a setting: "localhost" is "localhost:80".
  const bool has_port = host.find(':', host.rfind(']') + 1) != std::string::npos;
  const std::string address = has_port ? host : host + ":80";
  if (host.empty() || (IsLoopback(address) && !absl::StartsWith(address, "unix:"))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("Host = ", Quote(host), ", must be localhost or an address of loopback"));
}

absl::Status CheckOrigin(const BrowserHeaders& headers, const std::string& scheme) {
  const std::string& site = headers.fetch_site;
  if (!site.empty() && site != "same-origin" && site != "none") {
    return absl::PermissionDeniedError(
        absl::StrCat("Sec-Fetch-Site = ", Quote(site), ", must be same-origin"));
  }
  const std::string own = absl::StrCat(scheme, "://", headers.host);
  if (headers.origin.empty() || headers.origin == own) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("Origin = ", Quote(headers.origin), ", must be ", Quote(own)));
}

}  // namespace nearfield::server

#include "server/http/browser_guard.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/config/settings.h"
#include "server/convert/text.h"

namespace nearfield::server {

absl::Status CheckHost(const BrowserHeaders& headers) {
  const std::string& host = headers.host;
  // With a port, as in a setting: "localhost" is "localhost:80".
  const std::string address = HostOf(host) == host ? host + ":80" : host;
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

bool IsFromOwnPage(const BrowserHeaders& headers, int page_port) {
  if (page_port == 0 || headers.host.empty() || !CheckHost(headers).ok()) return false;
  std::string page = absl::StrCat("http://", HostOf(headers.host));
  if (page_port != 80) absl::StrAppend(&page, ":", page_port);
  return headers.origin == page;
}

std::string HostOf(const std::string& address) {
  return address.substr(0, address.find(':', address.rfind(']') + 1));
}

}  // namespace nearfield::server

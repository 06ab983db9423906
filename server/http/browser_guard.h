// Checks of an HTTP request against pages of other sites that a visitor's browser shows.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace nearfield::server {

// Headers of a request; empty if absent.
struct BrowserHeaders {
  std::string host;
  std::string origin;      // of the page whose script sent the request
  std::string fetch_site;  // Sec-Fetch-Site: how that page is related to this server
};

// Checks that a request to a port on loopback names this machine. Against DNS rebinding: a site
// whose name an attacker lets point to 127.0.0.1 is of the same origin for its visitor's browser,
// but sends its own name. Probes may send none. Errors: PermissionDenied.
absl::Status CheckHost(const BrowserHeaders& headers);

// Refuses requests that a page of another site lets a browser send. Such a page could not read the
// reply, but cause the work. `scheme`: of this server, "http" or "https". Errors: PermissionDenied.
absl::Status CheckOrigin(const BrowserHeaders& headers, const std::string& scheme);

// Returns true if the page of the operations port sent the request: it was loaded from `page_port`
// of the same host, which is loopback. Beyond loopback the page has no TLS, so its script may be
// that of another. `page_port`: 0: there is no page.
bool IsFromOwnPage(const BrowserHeaders& headers, int page_port);

// Returns the host of "HOST:PORT" or "[IPV6]:PORT", with the brackets.
std::string HostOf(const std::string& address);

}  // namespace nearfield::server

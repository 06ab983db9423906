#include "server/ops_http/first_steps.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/browser_guard.h"

namespace nearfield::server {
namespace {

struct CredentialFile {
  const char* argument;  // of nearfield.connect
  const char* flag;      // of the command
  const char* name;
  const char* content;
};
constexpr CredentialFile kAuthorities = {"ca", "--ca", "ca.pem",
                                         "the authorities of the server's certificate"};
constexpr CredentialFile kClientCert = {"client_cert", "--client-cert", "client.pem",
                                        "your certificate"};
constexpr CredentialFile kClientKey = {"client_key", "--client-key", "client.key",
                                       "its private key"};
constexpr CredentialFile kApiKey = {"token_file", "--token-file", "key.txt",
                                    "an API key with the scopes create, write and search"};

std::vector<CredentialFile> FilesFor(const ServerAddress& server) {
  std::vector<CredentialFile> files;
  if (!server.settings->tls_cert.value().empty()) files.push_back(kAuthorities);
  if (!server.settings->tls_client_ca.value().empty()) {
    files.insert(files.end(), {kClientCert, kClientKey});
  }
  if (server.needs_key) files.push_back(kApiKey);
  return files;
}

// Returns true for what may stand in code without quotes: the text comes from a client.
bool IsPlain(const std::string& host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char each) {
    return absl::ascii_isalnum(static_cast<unsigned char>(each)) ||
           absl::StrContains(".-:[]", each);
  });
}

std::string AddressOf(const ServerAddress& server, const std::string& host) {
  const std::string& listen = server.settings->listen.value();
  if (absl::StartsWith(listen, "unix:")) return listen;
  std::string own = HostOf(listen);
  if (own == "0.0.0.0" || own == "[::]") own = IsPlain(HostOf(host)) ? HostOf(host) : "127.0.0.1";
  return absl::StrCat(own, ":", server.port);
}

// A string of JSON is one of Python.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string ShellQuoted(const std::string& text) {
  return IsPlain(text) ? text : absl::StrCat("'", text, "'");
}

nlohmann::json SearchJson(const ServerAddress& server, const std::string& host) {
  const Settings& settings = *server.settings;
  const auto off = [](const std::string& why) { return nlohmann::json{{"note", "off: " + why}}; };
  if (!settings.has_http_port()) {
    return off(
        "this page searches on the HTTP port, and the server has none (http_listen = none); start "
        "it with --http-listen 127.0.0.1:50052");
  }
  if (server.http_port == 0) {
    return off(absl::StrCat(
        "this page searches on the HTTP port, and http_listen = ", settings.http_listen.value(),
        " is in use; start the server with another address"));
  }
  if (!settings.tls_client_ca.value().empty()) {
    return off(
        "the server asks for a client certificate (tls_client_ca), which browsers do not send for "
        "a page of another port");
  }
  if (host.empty() || !CheckHost({.host = host, .origin = {}, .fetch_site = {}}).ok()) {
    return off(absl::StrCat(
        "this page is not on loopback and has no TLS; open a tunnel to it and to port ",
        server.http_port, ", then http://localhost with the port of this page"));
  }
  const char* const scheme = settings.tls_cert.value().empty() ? "http" : "https";
  return {{"url", absl::StrCat(scheme, "://", HostOf(host), ":", server.http_port)},
          {"needs_key", server.needs_key},
          {"note", server.needs_key
                       ? "needs an API key with the scope search; the page keeps it in memory only"
                       : ""}};
}

}  // namespace

std::string FirstStepsJson(const ServerAddress& server, const std::string& host) {
  const std::string address = AddressOf(server, host);
  std::string connect = Quoted(address);
  std::string shell = absl::StrCat("nearfield --address ", ShellQuoted(address));
  std::vector<std::string> contents;
  for (const CredentialFile& file : FilesFor(server)) {
    absl::StrAppend(&connect, ", ", file.argument, "=", Quoted(file.name));
    absl::StrAppend(&shell, " ", file.flag, " ", file.name);
    contents.push_back(absl::StrCat(file.name, ": ", file.content));
  }
  const std::string python = absl::StrCat(
      "import nearfield\n"
      "colors = nearfield.connect(",
      connect,
      ").create_collection("
      "\"colors\", 3, metric=\"l2\", id_type=\"string\")\n"
      "colors.upload([[255, 0, 0], [255, 165, 0], [0, 0, 255]], "
      "ids=[\"red\", \"orange\", \"blue\"])\n"
      "print(colors.search([250, 90, 20], k=2).ids)\n");
  const nlohmann::json json = {{"address", address},
                               {"python", python},
                               {"shell", shell + " demo"},
                               {"files", contents},
                               {"search", SearchJson(server, host)}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace nearfield::server

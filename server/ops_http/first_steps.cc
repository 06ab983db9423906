#include "server/ops_http/first_steps.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

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

// Returns the host of "HOST:PORT" or "[IPV6]:PORT", with the brackets.
std::string HostOf(const std::string& address) {
  const size_t colon = address.find(':', address.rfind(']') + 1);
  return address.substr(0, colon);
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
  const nlohmann::json json = {
      {"address", address}, {"python", python}, {"shell", shell + " demo"}, {"files", contents}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace nearfield::server

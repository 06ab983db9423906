// nearfield keys create | limit | list | revoke: work on a key file, without a server.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/output_file.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/keys/key_file.h"

namespace nearfield::client {
namespace {

struct KeyArguments {
  std::string path;
  std::string id;  // revoke
  // create
  ApiKey key;
  std::vector<std::string> scopes;
  std::string expires;             // empty: never
  std::optional<std::string> out;  // absent: the key is printed
  // limit: nullopt: it stays; 0: the server's default
  std::array<std::optional<uint64_t>, kQuotaKinds.size()> limits;
};
using KeyArgumentsPtr = std::shared_ptr<KeyArguments>;

Microseconds Now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

std::string TimeOr(const std::optional<Microseconds>& time, const char* absent) {
  return time ? TimestampText(*time) : absent;
}

JsonObject KeyJson(const ApiKey& key) {
  JsonObject json;
  json.Add("id", key.id).Add("principal", key.principal).Add("scopes", ScopesText(key.scopes));
  json.Add("collections", key.collections);
  if (key.created) json.Add("created", TimestampText(*key.created));
  if (key.expires) json.Add("expires", TimestampText(*key.expires));
  return json.Add("expired", key.IsExpired(Now()));
}

void AddLimits(const QuotaAmounts& limits, JsonObject* json) {
  for (const QuotaKind& kind : kQuotaKinds) {
    if (limits[kind.quota] > 0) json->Add(kind.name, limits[kind.quota]);
  }
}

// Returns "device_bytes=1,000 collections=3".
std::string LimitsText(const QuotaAmounts& limits) {
  std::string text;
  for (const QuotaKind& kind : kQuotaKinds) {
    if (limits[kind.quota] == 0) continue;
    text += Cat(text.empty() ? "" : " ", kind.name, "=",
                Grouped(static_cast<uint64_t>(limits[kind.quota])));
  }
  return text;
}

absl::StatusOr<ApiKey> KeyFrom(const KeyArguments& arguments) {
  ApiKey key = arguments.key;
  for (const std::string& given : arguments.scopes) {
    for (const auto& [scope, name] : kScopeNames) {
      if (given == name) {
        key.scopes = static_cast<uint8_t>(key.scopes | static_cast<uint8_t>(scope));
      }
    }
  }
  key.created = Now();
  if (!arguments.expires.empty()) {
    const auto expires = ParseTimestamp(arguments.expires);
    if (!expires.ok()) {
      return absl::InvalidArgumentError(
          Cat("--expires: ", arguments.expires, " ", expires.status().message()));
    }
    key.expires = *expires;
    if (key.IsExpired(Now())) {
      return absl::InvalidArgumentError(Cat("--expires: ", arguments.expires, " has passed"));
    }
  }
  NF_RETURN_IF_ERROR(CheckKey(key));
  return key;
}

// Adds a key to the key file; calls `before` when nothing else can refuse it.
absl::Status AddKey(const std::string& path, const ApiKey& key,
                    const std::function<absl::Status()>& before) {
  return ChangeKeyFile(path, [&](KeyFile* file) {
    if (file->keys.size() >= kKeysMax) {
      return absl::InvalidArgumentError(
          Cat(path, ": there are ", kKeysMax, " keys, which is the limit"));
    }
    file->keys.push_back(key);
    return before();
  });
}

// Writes the key to a file that only its owner can read. The file has the key before the server's
// file does, so that every key in force has a holder.
absl::Status AddKeyWithFile(const std::string& path, const ApiKey& key, const std::string& text,
                            const std::string& out) {
  std::error_code ignored;
  if (std::filesystem::weakly_canonical(out, ignored) ==
      std::filesystem::weakly_canonical(path, ignored)) {
    return absl::InvalidArgumentError(
        Cat("--out: ", out, ": is the key file; the key needs another file"));
  }
  const auto of_out = [](const absl::Status& status) {
    return status.ok() ? status : absl::InvalidArgumentError(Cat("--out: ", status.message()));
  };
  auto secret = OutputFile::Create(out, {.mode = 0600, .replaces = false});
  NF_RETURN_IF_ERROR(of_out(secret.status()));
  NF_RETURN_IF_ERROR(of_out(secret->Write(Cat(text, "\n"))));
  NF_RETURN_IF_ERROR(of_out(secret->Sync()));
  bool is_published = false;
  absl::Status added = AddKey(path, key, [&] {
    const absl::Status published = secret->Publish();
    is_published = published.ok();
    return of_out(published);
  });
  if (!added.ok() && is_published) std::filesystem::remove(out, ignored);
  return added;
}

absl::StatusOr<int> CreateKey(const GlobalOptions& global, const KeyArguments& arguments) {
  NF_ASSIGN_OR_RETURN(ApiKey key, KeyFrom(arguments));
  NF_ASSIGN_OR_RETURN(const std::string text, DrawSecret(&key));
  if (!arguments.out) {
    NF_RETURN_IF_ERROR(AsBadInput(AddKey(arguments.path, key, [] { return absl::OkStatus(); })));
    if (global.json) {
      Print(KeyJson(key).Add("key", text));
    } else {
      Print(Cat(text, "\n"));  // alone, so that a script can take it
    }
    return kExitOk;
  }
  NF_RETURN_IF_ERROR(AsBadInput(AddKeyWithFile(arguments.path, key, text, *arguments.out)));
  if (global.json) {
    Print(KeyJson(key).Add("file", *arguments.out));
  } else {
    Print(Cat("the key ", key.id, " of ", key.principal, " is in ", *arguments.out, "\n"));
  }
  return kExitOk;
}

absl::StatusOr<int> ListKeys(const GlobalOptions& global, const KeyArguments& arguments) {
  NF_ASSIGN_OR_RETURN(const KeyFile file, AsBadInput(ReadKeyFile(arguments.path)));
  Table table(
      {{"id"}, {"principal"}, {"scopes"}, {"collections"}, {"created"}, {"expires"}, {"limits"}});
  for (const ApiKey& key : file.keys) {
    const auto known = file.limits.find(key.principal);
    const QuotaAmounts limits = known != file.limits.end() ? known->second : QuotaAmounts();
    JsonObject json = KeyJson(key);
    AddLimits(limits, &json);
    if (global.json) Print(json);
    table.Add({key.id, key.principal, ScopesText(key.scopes), key.collections,
               TimeOr(key.created, ""),
               Cat(TimeOr(key.expires, "never"), key.IsExpired(Now()) ? " (expired)" : ""),
               LimitsText(limits)});
  }
  if (!global.json) Print(table.ToString());
  return kExitOk;
}

absl::StatusOr<int> RevokeKey(const GlobalOptions& global, const KeyArguments& arguments) {
  bool found = false;
  NF_RETURN_IF_ERROR(AsBadInput(ChangeKeyFile(arguments.path, [&](KeyFile* file) {
    found =
        std::erase_if(file->keys, [&](const ApiKey& key) { return key.id == arguments.id; }) > 0;
    return absl::OkStatus();
  })));
  if (!found) {
    PrintError(Cat(arguments.path, ": no key ", arguments.id));
    return kExitNegative;
  }
  if (global.json) {
    Print(JsonObject().Add("id", arguments.id).Add("revoked", true));
  } else {
    Print(Cat("revoked ", arguments.id, "\n"));
  }
  return kExitOk;
}

// Errors: NotFound (the principal has neither a key nor a limit that a revoked key left).
absl::Status CheckHolder(const KeyFile& file, const std::string& principal) {
  std::set<std::string> holders;
  for (const ApiKey& key : file.keys) holders.insert(key.principal);
  if (holders.contains(principal) || file.limits.contains(principal)) return absl::OkStatus();
  constexpr size_t kWidthMax = 400;
  const std::string known = Shortened(Joined(holders, ", ", std::identity()), kWidthMax);
  return absl::NotFoundError(Cat("no key of ", principal, "; ",
                                 known.empty() ? "there are no keys" : "principals are ", known));
}

absl::StatusOr<int> LimitPrincipal(const GlobalOptions& global, const KeyArguments& arguments) {
  const std::string& principal = arguments.key.principal;
  NF_RETURN_IF_ERROR(CheckPrincipal(principal));
  if (std::none_of(arguments.limits.begin(), arguments.limits.end(),
                   [](const auto& limit) { return limit.has_value(); })) {
    return absl::InvalidArgumentError("give at least one limit, such as --device-bytes");
  }
  QuotaAmounts limits;
  const absl::Status changed = ChangeKeyFile(arguments.path, [&](KeyFile* file) {
    NF_RETURN_IF_ERROR(CheckHolder(*file, principal));
    limits = file->limits[principal];
    for (size_t i = 0; i < kQuotaKinds.size(); ++i) {
      if (!arguments.limits[i].has_value()) continue;
      limits[kQuotaKinds[i].quota] = static_cast<int64_t>(*arguments.limits[i]);
    }
    file->limits[principal] = limits;
    if (limits == QuotaAmounts()) file->limits.erase(principal);
    return absl::OkStatus();
  });
  if (absl::IsNotFound(changed)) {
    PrintError(Cat(arguments.path, ": ", changed.message()));
    return kExitNegative;
  }
  NF_RETURN_IF_ERROR(AsBadInput(changed));
  if (global.json) {
    JsonObject json;
    json.Add("principal", principal);
    AddLimits(limits, &json);
    Print(json);
  } else if (limits == QuotaAmounts()) {
    Print(Cat(principal, " has no limits of its own\n"));
  } else {
    Print(Cat("limits of ", principal, ": ", LimitsText(limits), "\n"));
  }
  return kExitOk;
}

// Adds an option for each kind of limit: --device-bytes, --collections.
void AddLimitOptions(CLI::App* command, const KeyArgumentsPtr& arguments) {
  for (size_t i = 0; i < kQuotaKinds.size(); ++i) {
    const QuotaKind& kind = kQuotaKinds[i];
    std::string name = Cat("--", kind.name);
    std::replace(name.begin(), name.end(), '_', '-');
    CLI::Option* const option = command->add_option(
        name, arguments->limits[i], Cat("Maximum ", kind.unit, "; 0: the server's default"));
    if (kind.name.ends_with("_bytes")) {
      option->transform(ByteCount(0, INT64_MAX));
    } else {
      option->check(WholeNumber(0, INT64_MAX));
    }
  }
}

void AddFileOption(CLI::App* command, const KeyArgumentsPtr& arguments) {
  command->add_option("--key-file", arguments->path, "The key file of the server")
      ->envname("NEARFIELD_KEY_FILE")
      ->required();
}

void AddCreate(CLI::App* group, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<KeyArguments>();
  CLI::App* create =
      group->add_subcommand("create", "Add a key to the file, and print it or write it to a file");
  create->add_option("principal", arguments->key.principal, "Its holder, who may have several")
      ->required();
  AddFileOption(create, arguments);
  std::vector<std::string> names;
  names.reserve(kScopeNames.size());
  for (const auto& [scope, name] : kScopeNames) names.emplace_back(name);
  create->add_option("--scopes", arguments->scopes, "Its scopes, such as search,read")
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->required();
  create
      ->add_option("--collections", arguments->key.collections,
                   "A collection, the beginning of names and '*', or '*' for all")
      ->capture_default_str();
  create->add_option("--expires", arguments->expires,
                     "The time from which it is refused, such as 2027-01-31 [never]");
  create->add_option("--out", arguments->out,
                     "Write the key to this new file, which only its owner can read, and print "
                     "no secret");
  create->footer(
      "The key file gets the SHA-256 of the key only: the key cannot be shown again.\n"
      "Example:\n"
      "  nearfield keys create pipeline --scopes search,write,create --collections 'docs-*' \\\n"
      "      --out pipeline.token\n"
      "  nearfield --token-file pipeline.token collections list");
  OnChosen(create, action, [&global, arguments] { return CreateKey(global, *arguments); });
}

}  // namespace

void AddKeysCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("keys", "API keys in the key file of a server");
  group->require_subcommand(1);
  group->footer(
      "Works on the file, without a server. A running server reads it again when it gets SIGHUP:\n"
      "  systemctl reload nearfield-server");
  AddCreate(group, global, action);

  auto listed = std::make_shared<KeyArguments>();
  CLI::App* list = group->add_subcommand("list", "All keys of the file");
  AddFileOption(list, listed);
  OnChosen(list, action, [&global, listed] { return ListKeys(global, *listed); });

  auto limited = std::make_shared<KeyArguments>();
  CLI::App* limit = group->add_subcommand("limit", "Limit what a principal may hold");
  limit->add_option("principal", limited->key.principal, "Its name in the keys")->required();
  AddFileOption(limit, limited);
  AddLimitOptions(limit, limited);
  limit->footer(
      "Limits that are not given stay. The server's settings principal_... are the defaults.\n"
      "Example:\n"
      "  nearfield keys limit pipeline --device-bytes 20GiB --disk-bytes 100GiB --collections 10");
  OnChosen(limit, action, [&global, limited] { return LimitPrincipal(global, *limited); });

  auto revoked = std::make_shared<KeyArguments>();
  CLI::App* revoke = group->add_subcommand("revoke", "Remove a key from the file");
  revoke->add_option("id", revoked->id, "Its id, as keys list prints it")->required();
  AddFileOption(revoke, revoked);
  OnChosen(revoke, action, [&global, revoked] { return RevokeKey(global, *revoked); });
}

}  // namespace nearfield::client

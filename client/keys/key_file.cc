#include "client/keys/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/keys/regular_file.h"

namespace nearfield {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

absl::Status BadField(const std::string& place, std::string_view field,
                      const std::string& problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": ", absl::string_view(field.data(), field.size()), ": ", problem));
}

absl::Status FailedOn(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", what, ": ", std::generic_category().message(errno)));
}

absl::Status ReadTime(const Json& value, std::optional<Microseconds>* time) {
  const absl::StatusOr<Microseconds> parsed = ParseTimestamp(value.get<std::string>());
  if (!parsed.ok()) return parsed.status();
  *time = *parsed;
  return absl::OkStatus();
}

bool ReadHash(const std::string& text, Sha256* hash) {
  const std::string bytes = text.size() == 2 * hash->size() &&
                                    text.find_first_not_of("0123456789abcdef") == std::string::npos
                                ? absl::HexStringToBytes(text)
                                : "";
  if (bytes.size() != hash->size()) return false;
  std::copy(bytes.begin(), bytes.end(), hash->begin());
  return true;
}

absl::Status ReadScopes(const Json& value, uint8_t* scopes) {
  if (!value.is_array()) return absl::InvalidArgumentError("must be an array");
  for (const Json& each : value) {
    const auto named = std::find_if(kScopeNames.begin(), kScopeNames.end(), [&](const auto& known) {
      return each.is_string() && each.get<std::string>() == known.second;
    });
    if (named == kScopeNames.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("each must be one of ", ScopesText(kAllScopes)));
    }
    *scopes = static_cast<uint8_t>(*scopes | static_cast<uint8_t>(named->first));
  }
  return absl::OkStatus();
}

// Sets one field of a key. Errors: InvalidArgument (without the name of the field).
absl::Status SetField(const std::string& name, const Json& value, ApiKey* key) {
  if (name == "scopes") return ReadScopes(value, &key->scopes);
  if (!value.is_string()) return absl::InvalidArgumentError("must be a string");
  const auto& text = value.get_ref<const std::string&>();
  if (name == "expires") return ReadTime(value, &key->expires);
  if (name == "created") return ReadTime(value, &key->created);
  if (name == "id") {
    key->id = text;
  } else if (name == "principal") {
    key->principal = text;
  } else if (name == "collections") {
    key->collections = text;
  } else if (name != "sha256") {
    return absl::InvalidArgumentError("is no field of a key");
  } else if (!ReadHash(text, &key->hash)) {
    return absl::InvalidArgumentError("must be 64 lower-case hexadecimal digits");
  }
  return absl::OkStatus();
}

absl::StatusOr<ApiKey> ReadKey(const std::string& place, const Json& entry) {
  if (!entry.is_object()) return absl::InvalidArgumentError(place + ": must be an object");
  ApiKey key;
  for (const char* const field : {"id", "principal", "sha256", "scopes", "collections"}) {
    if (!entry.contains(field)) return BadField(place, field, "absent");
  }
  for (const auto& [name, value] : entry.items()) {
    const absl::Status set = SetField(name, value, &key);
    if (!set.ok()) return BadField(place, name, std::string(set.message()));
  }
  // The form of an id is that in the text of a key.
  const std::string text = absl::StrCat("nf_", key.id, "_", std::string(64, '0'));
  if (IdIn(text) != key.id || key.id.empty()) {
    return BadField(place, "id", "must be 16 lower-case hexadecimal digits");
  }
  const absl::Status checked = CheckKey(key);
  if (!checked.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", checked.message()));
  }
  return key;
}

// Reads one limit of a principal. Errors: InvalidArgument (names the field).
absl::Status ReadLimit(const std::string& place, const std::string& field, const Json& value,
                       QuotaAmounts* limits) {
  const auto kind = std::find_if(kQuotaKinds.begin(), kQuotaKinds.end(),
                                 [&field](const QuotaKind& each) { return each.name == field; });
  if (kind == kQuotaKinds.end()) return BadField(place, field, "is no limit of a principal");
  if (!value.is_number_integer() || value < 1 || value > INT64_MAX) {
    return BadField(place, field, absl::StrCat("must be an integer of 1 .. ", INT64_MAX));
  }
  (*limits)[kind->quota] = value.get<int64_t>();
  return absl::OkStatus();
}

// Reads the limits of principals. Errors: InvalidArgument (names the principal and the field).
absl::Status ReadPrincipals(const Json& principals, std::map<std::string, QuotaAmounts>* limits) {
  if (!principals.is_object()) return BadField("file", "principals", "must be an object");
  if (principals.size() > kKeysMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("principals: ", principals.size(), ", the limit is ", kKeysMax));
  }
  for (const auto& [name, entry] : principals.items()) {
    absl::Status checked = CheckPrincipal(name);
    if (!checked.ok()) return checked;
    const std::string place = absl::StrCat("principals[\"", name, "\"]");
    if (!entry.is_object()) return absl::InvalidArgumentError(place + ": must be an object");
    for (const auto& [field, value] : entry.items()) {
      checked = ReadLimit(place, field, value, &(*limits)[name]);
      if (!checked.ok()) return checked;
    }
  }
  return absl::OkStatus();
}

// Writes the text to `fd`, durably.
bool WriteAll(int fd, const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = write(fd, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    written += static_cast<size_t>(count);
  }
  return fsync(fd) == 0;
}

// Gives `fd` the mode and the owner of the file at `path`, if there is one.
bool KeepOwner(int fd, const std::string& path) {
  struct stat before = {};
  if (stat(path.c_str(), &before) != 0) return true;
  struct stat now = {};
  if (fchmod(fd, before.st_mode & 07777) != 0 || fstat(fd, &now) != 0) return false;
  if (now.st_uid == before.st_uid && now.st_gid == before.st_gid) return true;
  return fchown(fd, before.st_uid, before.st_gid) == 0;
}

void SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int fd = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

// Returns the path of the file that `path` names, also through symbolic links: a rename would
// replace the link, and leave the file as it was. Errors: InvalidArgument (a link to nothing).
absl::StatusOr<std::string> TargetOf(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    if (!error) return target.string();
  } else if (std::filesystem::is_symlink(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a symbolic link to a file that does not exist"));
  }
  return path;
}

// Implements ChangeKeyFile between the creation of the new file and its rename.
absl::Status WriteChanged(int fd, const std::string& path,
                          const std::function<absl::Status(KeyFile*)>& change) {
  absl::StatusOr<KeyFile> file = ReadKeyFile(path);
  if (absl::IsNotFound(file.status())) file = KeyFile();
  if (!file.ok()) return file.status();
  absl::Status usable = change(&*file);
  if (!usable.ok()) return usable;
  const std::string text = KeyFileText(*file);
  usable = ParseKeyFile(text).status();
  if (!usable.ok()) return usable;
  if (!KeepOwner(fd, path)) return FailedOn(path, "its mode and owner cannot be kept");
  return WriteAll(fd, text) ? absl::OkStatus() : FailedOn(path, "cannot be written");
}

}  // namespace

absl::StatusOr<KeyFile> ParseKeyFile(const std::string& text) {
  if (text.size() > kKeyFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(text.size(), " bytes, the limit is ", kKeyFileBytesMax));
  }
  // The parser would take it for the end of the text.
  if (text.find('\0') != std::string::npos) return absl::InvalidArgumentError("has a NUL byte");
  const Json file = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  for (const auto& [name, value] : file.items()) {
    if (name != "format" && name != "keys" && name != "principals") {
      return BadField("file", name, "is no field of it");
    }
  }
  if (!file.contains("format") || file["format"] != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat("format: must be ", kFormat));
  }
  if (!file.contains("keys") || !file["keys"].is_array()) {
    return absl::InvalidArgumentError("keys: must be an array");
  }
  if (file["keys"].size() > kKeysMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys: ", file["keys"].size(), ", the limit is ", kKeysMax));
  }
  KeyFile read;
  if (file.contains("principals")) {
    const absl::Status principals = ReadPrincipals(file["principals"], &read.limits);
    if (!principals.ok()) return principals;
  }
  std::set<std::string> ids;
  for (const Json& entry : file["keys"]) {
    const std::string place = absl::StrCat("keys[", read.keys.size(), "]");
    absl::StatusOr<ApiKey> key = ReadKey(place, entry);
    if (!key.ok()) return key.status();
    if (!ids.insert(key->id).second) return BadField(place, "id", "is that of an earlier key");
    read.keys.push_back(*std::move(key));
  }
  return read;
}

std::string KeyFileText(const KeyFile& from) {
  nlohmann::ordered_json file;
  file["format"] = kFormat;
  for (const auto& [principal, limits] : from.limits) {
    for (const QuotaKind& kind : kQuotaKinds) {
      if (limits[kind.quota] == 0) continue;
      file["principals"][principal][std::string(kind.name)] = limits[kind.quota];
    }
  }
  file["keys"] = nlohmann::ordered_json::array();
  for (const ApiKey& key : from.keys) {
    nlohmann::ordered_json entry;
    entry["id"] = key.id;
    entry["principal"] = key.principal;
    entry["sha256"] = absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(key.hash.data()), key.hash.size()));
    entry["scopes"] = nlohmann::ordered_json::array();
    for (const auto& [scope, name] : kScopeNames) {
      if (key.HasAny(static_cast<uint8_t>(scope))) entry["scopes"].push_back(std::string(name));
    }
    entry["collections"] = key.collections;
    if (key.created.has_value()) entry["created"] = TimestampText(*key.created);
    if (key.expires.has_value()) entry["expires"] = TimestampText(*key.expires);
    file["keys"].push_back(std::move(entry));
  }
  return file.dump(2) + "\n";
}

absl::StatusOr<KeyFile> ReadKeyFile(const std::string& path) {
  absl::StatusOr<RegularFile> file = ReadRegularFile(path, kKeyFileBytesMax);
  if (!file.ok()) return file.status();
  if ((file->mode & S_IWOTH) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": every user of this machine may write it, and so make keys: run chmod "
                     "o-w on it"));
  }
  absl::StatusOr<KeyFile> read = ParseKeyFile(file->text);
  if (read.ok()) return read;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", read.status().message()));
}

absl::Status ChangeKeyFile(const std::string& given,
                           const std::function<absl::Status(KeyFile*)>& change) {
  absl::StatusOr<std::string> target = TargetOf(given);
  if (!target.ok()) return target.status();
  const std::string& path = *target;
  const std::string beside = path + ".new";
  // The new file is also the lock between two commands.
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) {
    return absl::FailedPreconditionError(absl::StrCat(
        beside, ": exists; another command changes the keys, or was interrupted: then remove it"));
  }
  if (fd < 0) return FailedOn(beside, "cannot be created");
  absl::Status written = WriteChanged(fd, path, change);
  if (close(fd) != 0 && written.ok()) written = FailedOn(beside, "cannot be written");
  if (written.ok() && std::rename(beside.c_str(), path.c_str()) != 0) {
    written = FailedOn(path, "cannot be replaced");
  }
  if (!written.ok()) {
    std::remove(beside.c_str());
    return written;
  }
  SyncFolderOf(path);
  return absl::OkStatus();
}

}  // namespace nearfield

// Tests of API keys, of the file of them, and of the checks of certificate files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/keys/key_file.h"
#include "server/security/access_control.h"
#include "server/security/certificates.h"
#include "tests/server/prelude.h"
#include "tests/server/test_certificates.h"

namespace nearfield::server {
namespace {

using std::chrono::seconds;

std::string NewFolder() {
  std::string dir = ::testing::TempDir() + "/security_XXXXXX";
  EXPECT_NE(mkdtemp(dir.data()), nullptr);
  return dir;
}

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct DrawnKey {
  ApiKey key;
  std::string text;
};
DrawnKey Draw(ApiKey key = {.scopes = 1}) {
  key.principal = "someone";
  std::string text = DrawSecret(&key).value();
  return {.key = key, .text = text};
}

TEST(ApiKeyTest, OnlyItsOwnTextMatchesItsHash) {
  const DrawnKey drawn = Draw();
  EXPECT_THAT(drawn.text, MatchesRegex("nf_[0-9a-f]{16}_[0-9a-f]{64}"));
  EXPECT_EQ(IdIn(drawn.text), drawn.key.id);
  EXPECT_TRUE(HashMatches(drawn.text, drawn.key.hash));
  EXPECT_FALSE(HashMatches(Draw().text, drawn.key.hash));
  for (size_t i = 0; i < drawn.text.size(); ++i) {
    std::string other = drawn.text;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_FALSE(HashMatches(other, drawn.key.hash)) << i;
    const std::string cut = drawn.text.substr(0, i);
    EXPECT_EQ(IdIn(cut), "") << i;
    EXPECT_FALSE(HashMatches(cut, drawn.key.hash)) << i;
  }
  EXPECT_EQ(IdIn(drawn.text + "0"), "");
}

// The pattern against a second statement of its rule, for all names of up to three letters.
TEST(ApiKeyTest, APatternIsANameOrTheBeginningOfNames) {
  std::vector<std::string> names = {""};
  for (size_t i = 0; i < names.size() && names[i].size() < 3; ++i) {
    for (const char c : {'a', 'b', '*'}) names.push_back(names[i] + c);
  }
  for (const std::string& name : names) {
    for (const std::string& stem : names) {
      if (stem.find('*') != std::string::npos) continue;
      EXPECT_EQ((ApiKey{.collections = stem}.Covers(name)), name == stem);
      EXPECT_EQ((ApiKey{.collections = stem + "*"}.Covers(name)),
                name.compare(0, stem.size(), stem) == 0);
    }
  }
}

TEST(KeyFileTest, WhatIsWrittenIsReadAgain) {
  KeyFile file;
  for (const QuotaKind& kind : kQuotaKinds) {
    file.limits["all"][kind.quota] = static_cast<int64_t>(kind.quota) + 1;
    file.limits[std::string(kind.name)][kind.quota] = INT64_MAX;
  }
  for (uint8_t scopes = 1; scopes <= kAllScopes; ++scopes) {
    ApiKey key = Draw({.scopes = scopes, .collections = scopes % 2 == 0 ? "*" : "docs-*"}).key;
    if (scopes % 3 == 0) key.expires = Microseconds(seconds(1'800'000'000 + scopes));
    if (scopes % 5 == 0) key.created = Microseconds(seconds(1'700'000'000 + scopes));
    file.keys.push_back(key);
  }
  EXPECT_THAT(ParseKeyFile(KeyFileText(file)), IsOkAndHolds(file));
}

TEST(KeyFileTest, ABadFileIsRefusedWithThePlace) {
  QuotaAmounts limits;
  limits[Quota::kDeviceBytes] = 1048576;
  const std::string good = KeyFileText({.keys = {Draw().key}, .limits = {{"big", limits}}});
  const auto with = [&](const std::string& old, const std::string& changed) {
    std::string text = good;
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return ParseKeyFile(text.replace(at, old.size(), changed)).status();
  };
  EXPECT_OK(ParseKeyFile(good));
  EXPECT_THAT(with("{", ""), FailsWith(kInvalidArgument, "is not a JSON object"));
  EXPECT_THAT(with("\"format\": 1", "\"format\": 2"), FailsWith(kInvalidArgument, "format"));
  EXPECT_THAT(with("\"keys\"", "\"kyes\""), FailsWith(kInvalidArgument, "kyes"));
  EXPECT_THAT(with("\"principal\"", "\"owner\""),
              FailsWith(kInvalidArgument, "keys[0]: principal"));
  EXPECT_THAT(with("someone", "some one"), FailsWith(kInvalidArgument, "keys[0]: principal"));
  EXPECT_THAT(with("\"search\"", "\"seek\""), FailsWith(kInvalidArgument, "keys[0]: scopes"));
  EXPECT_THAT(with("\"search\"", ""), FailsWith(kInvalidArgument, "keys[0]: scopes"));
  EXPECT_THAT(with("\"*\"", "\"a*b\""), FailsWith(kInvalidArgument, "keys[0]: collections"));
  EXPECT_THAT(with("\"*\"", "\"\""), FailsWith(kInvalidArgument, "keys[0]: collections"));
  EXPECT_THAT(with("\"*\"", "\"*\", \"expires\": \"soon\""),
              FailsWith(kInvalidArgument, "keys[0]: expires"));
  EXPECT_THAT(with("\"*\"", "\"*\", \"secret\": \"x\""),
              FailsWith(kInvalidArgument, "keys[0]: secret"));
  EXPECT_THAT(with("\"sha256\": \"", "\"sha256\": \"x"),
              FailsWith(kInvalidArgument, "keys[0]: sha256"));
  EXPECT_THAT(with("\"id\": \"", "\"id\": \"x"), FailsWith(kInvalidArgument, "keys[0]: id"));
  EXPECT_THAT(with("1048576", "0"), FailsWith(kInvalidArgument, "[\"big\"]: device_bytes"));
  EXPECT_THAT(with("1048576", "\"1MiB\""), FailsWith(kInvalidArgument, "[\"big\"]: device_bytes"));
  EXPECT_THAT(with("1048576", "1.5"), FailsWith(kInvalidArgument, "[\"big\"]: device_bytes"));
  EXPECT_THAT(with("1048576", "9223372036854775808"), FailsWith(kInvalidArgument, "device_bytes"));
  EXPECT_THAT(with("\"device_bytes\"", "\"rows\""), FailsWith(kInvalidArgument, "[\"big\"]: rows"));
  EXPECT_THAT(with("\"big\"", "\"b g\""), FailsWith(kInvalidArgument, "principal"));
  EXPECT_THAT(with("{\n    \"big\"", "[]"), StatusIs(kInvalidArgument));
  const ApiKey twice = Draw().key;
  EXPECT_THAT(ParseKeyFile(KeyFileText({.keys = {twice, twice}})).status(),
              FailsWith(kInvalidArgument, "keys[1]: id"));
  EXPECT_THAT(ParseKeyFile(std::string(kKeyFileBytesMax + 1, ' ')).status(),
              FailsWith(kInvalidArgument, "the limit is"));
  // Deep nesting takes no stack.
  EXPECT_THAT(ParseKeyFile(std::string(1 << 20, '[')).status(),
              FailsWith(kInvalidArgument, "JSON"));
}

TEST(KeyFileTest, AChangeIsWholeOrNothingAndKeepsTheMode) {
  const std::string path = NewFolder() + "/keys.json";
  const auto add = [](KeyFile* file) {
    file->keys.push_back(Draw().key);
    return absl::OkStatus();
  };
  EXPECT_THAT(ReadKeyFile(path).status(), FailsWith(kNotFound, path.c_str()));
  EXPECT_OK(ChangeKeyFile(path, add));
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_OK(ChangeKeyFile(path, add));
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_THAT(ReadKeyFile(path), IsOkAndHolds(::testing::Field(&KeyFile::keys, SizeIs(2))));

  const std::string before = TextOf(path);
  EXPECT_THAT(ChangeKeyFile(path, [](auto*) { return absl::NotFoundError("no"); }),
              StatusIs(kNotFound));
  const auto spoil = [](KeyFile* file) {
    file->keys.front().principal = "";
    return absl::OkStatus();
  };
  EXPECT_THAT(ChangeKeyFile(path, spoil), StatusIs(kInvalidArgument));
  EXPECT_EQ(TextOf(path), before);
  std::ofstream(path + ".new") << "";
  EXPECT_THAT(ChangeKeyFile(path, add), FailsWith(kFailedPrecondition, "another command"));
  EXPECT_EQ(TextOf(path), before);
}

// Regression: the link was replaced by a file, and a server that reads its target never learned of
// a revoked key.
TEST(KeyFileTest, ASymbolicLinkStaysAndItsTargetIsChanged) {
  const std::string dir = NewFolder();
  const std::string target = dir + "/target.json";
  const std::string link = dir + "/keys.json";
  const auto add = [](KeyFile* file) {
    file->keys.push_back(Draw().key);
    return absl::OkStatus();
  };
  EXPECT_OK(ChangeKeyFile(target, add));
  ASSERT_EQ(symlink("target.json", link.c_str()), 0);
  EXPECT_OK(ChangeKeyFile(link, add));
  struct stat info = {};
  ASSERT_EQ(lstat(link.c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  EXPECT_THAT(ReadKeyFile(target), IsOkAndHolds(::testing::Field(&KeyFile::keys, SizeIs(2))));

  const std::string dangling = dir + "/dangling.json";
  ASSERT_EQ(symlink("none.json", dangling.c_str()), 0);
  EXPECT_THAT(ChangeKeyFile(dangling, add), FailsWith(kInvalidArgument, "does not exist"));
}

// Regression: a FIFO as key file stopped SIGHUP, and SIGTERM with it, for good.
TEST(KeyFileTest, OnlyARegularFileIsRead) {
  const std::string dir = NewFolder();
  ASSERT_EQ(mkfifo((dir + "/fifo").c_str(), 0600), 0);
  EXPECT_THAT(ReadKeyFile(dir + "/fifo").status(),
              FailsWith(kInvalidArgument, "is not a regular file"));
  EXPECT_THAT(ReadKeyFile(dir).status(), FailsWith(kInvalidArgument, "is not a regular file"));
  EXPECT_THAT(ReadKeyFile("/dev/zero").status(),
              FailsWith(kInvalidArgument, "is not a regular file"));
}

// Regression: a container that mounts the file itself read the old keys again after each
// revocation.
TEST(KeyFileTest, AFileThatWasReplacedUnderAMountIsRefused) {
  const std::string path = NewFolder() + "/keys.json";
  const auto add = [](KeyFile* file) {
    file->keys.push_back(Draw().key);
    return absl::OkStatus();
  };
  ASSERT_OK(ChangeKeyFile(path, add));
  // As a mount of the file does, this path names the file, whatever happens to its name.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::string mounted = "/proc/self/fd/" + std::to_string(fd);
  EXPECT_OK(ReadKeyFile(mounted).status());
  ASSERT_OK(ChangeKeyFile(path, add));
  EXPECT_THAT(ReadKeyFile(mounted).status(),
              FailsWith(kInvalidArgument, "was replaced", "mount the folder"));
  close(fd);
}

TEST(KeyFileTest, AFileThatEveryUserMayWriteIsRefused) {
  const std::string path = NewFolder() + "/keys.json";
  std::ofstream(path) << KeyFileText({.keys = {Draw().key}});
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_OK(ReadKeyFile(path).status());
  ASSERT_EQ(chmod(path.c_str(), 0646), 0);
  EXPECT_THAT(ReadKeyFile(path).status(), FailsWith(kInvalidArgument, path.c_str(), "chmod o-w"));
}

// Regression: a NUL byte ended the text, and the keys after it were not read.
TEST(KeyFileTest, ANulByteIsRefused) {
  std::string text = KeyFileText({.keys = {Draw().key}});
  text += '\0';
  EXPECT_THAT(ParseKeyFile(text).status(), FailsWith(kInvalidArgument, "NUL"));
}

TEST(AccessControlTest, AKeyIsValidUntilTheMomentOfItsExpiry) {
  Microseconds now(seconds(100));
  AccessControl control([&now] { return now; });
  EXPECT_THAT(control.Authenticate(""), IsOkAndHolds(nullptr));
  EXPECT_OK(control.CheckStillValid(nullptr));
  const DrawnKey drawn = Draw({.scopes = 1, .expires = Microseconds(seconds(200))});
  control.SetKeys({drawn.key});
  EXPECT_THAT(control.Authenticate(""), StatusIs(kUnauthenticated));
  const auto key = control.Authenticate("Bearer " + drawn.text);
  ASSERT_OK(key.status());
  EXPECT_EQ(**key, drawn.key);
  now = Microseconds(seconds(200)) - std::chrono::microseconds(1);
  EXPECT_OK(control.Authenticate("Bearer " + drawn.text).status());
  EXPECT_OK(control.CheckStillValid(*key));
  now = Microseconds(seconds(200));
  EXPECT_THAT(control.Authenticate("Bearer " + drawn.text).status(),
              FailsWith(kUnauthenticated, "expired at 1970-01-01T00:03:20Z"));
  EXPECT_THAT(control.CheckStillValid(*key), StatusIs(kUnauthenticated));
}

TEST(AccessControlTest, AKeyThatWasChangedIsNotTheSame) {
  AccessControl control;
  const DrawnKey drawn = Draw();
  control.SetKeys({drawn.key});
  const auto key = control.Authenticate("Bearer " + drawn.text);
  ASSERT_OK(key.status());
  control.SetKeys({Draw().key, drawn.key});
  EXPECT_OK(control.CheckStillValid(*key));
  ApiKey narrower = drawn.key;
  narrower.collections = "a";
  control.SetKeys({narrower});
  EXPECT_THAT(control.CheckStillValid(*key), StatusIs(kUnauthenticated));
  control.SetKeys({});
  EXPECT_THAT(control.CheckStillValid(*key), StatusIs(kUnauthenticated));
  EXPECT_THAT(control.Authenticate("Bearer " + drawn.text).status(), StatusIs(kUnauthenticated));
}

TEST(AccessControlTest, TheChangesOfKeysAreNamed) {
  AccessControl control;
  const ApiKey stays = Draw().key;
  const ApiKey goes = Draw().key;
  const auto first = control.SetKeys({stays, goes});
  EXPECT_THAT(first.added, UnorderedElementsAre(stays.id, goes.id));
  EXPECT_THAT(first.removed, IsEmpty());
  const ApiKey comes = Draw().key;
  ApiKey narrower = stays;
  narrower.collections = "a";
  const auto second = control.SetKeys({comes, narrower});
  EXPECT_THAT(second.added, ElementsAre(comes.id));
  EXPECT_THAT(second.removed, ElementsAre(goes.id));
  EXPECT_THAT(second.changed, ElementsAre(stays.id));
  EXPECT_EQ(control.keys_count(), 2u);
}

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() {
    authority_.Write(Path("ca"));
    authority_.Issue(Path("cert"), Path("key"));
    std::ofstream(Path("text")) << "no certificate";
  }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  absl::Status LoadOf(const std::string& certificate, const std::string& key,
                      const std::string& authorities = "") {
    return Certificates({.certificate = Path(certificate),
                         .key = Path(key),
                         .client_authorities = authorities.empty() ? "" : Path(authorities)})
        .Load()
        .status();
  }

  const std::string dir_ = NewFolder();
  const TestAuthority authority_{"authority"};
};

TEST_F(CertificatesTest, OnlyAValidPairIsAccepted) {
  authority_.Issue(Path("cert2"), Path("key2"));
  authority_.Issue(Path("old"), Path("old_key"), {.begin_s = -20, .end_s = -10});
  authority_.Issue(Path("young"), Path("young_key"), {.begin_s = 1000, .end_s = 2000});
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_OK(LoadOf("cert", "key"));
  EXPECT_OK(LoadOf("cert", "key", "ca"));
  const auto refused = [&](const char* cert, const char* key, const char* file, const char* why) {
    EXPECT_THAT(LoadOf(cert, key), FailsWith(kInvalidArgument, Path(file).c_str(), why));
  };
  refused("cert", "key2", "key2", "is not the private key of the certificate");
  refused("text", "key", "text", "has no certificate");
  refused("cert", "cert", "cert", "has no private key");
  refused("old", "old_key", "old", "has expired");
  refused("young", "young_key", "young", "is not valid yet");
  refused("fifo", "key", "fifo", "is not a regular file");
  EXPECT_THAT(LoadOf("cert", "none"), FailsWith(kNotFound, Path("none").c_str()));
  EXPECT_THAT(LoadOf("none", "key"), FailsWith(kNotFound, Path("none").c_str()));
  EXPECT_THAT(LoadOf("cert", "key", "text"), FailsWith(kInvalidArgument, "has no certificate"));
  EXPECT_THAT(LoadOf("cert", "key", "none"), StatusIs(kNotFound));
}

// The files of a pair are replaced one by one. While they do not match, or if the new pair is bad,
// the pair in force stays.
TEST_F(CertificatesTest, APairThatDoesNotMatchLeavesTheOneInForce) {
  Certificates certificates({.certificate = Path("cert"), .key = Path("key")});
  ASSERT_THAT(certificates.Load(), IsOkAndHolds(true));
  EXPECT_THAT(certificates.Load(), IsOkAndHolds(false)) << "nothing changed";
  const auto before = certificates.state().in_force;
  const auto replace = [this](const char* name, const std::string& by) {
    ASSERT_EQ(std::rename(Path(by).c_str(), Path(name).c_str()), 0);
  };
  int64_t failures = 0;
  const auto stays = [&] {
    EXPECT_THAT(certificates.Load().status(), Not(IsOk()));
    EXPECT_EQ(certificates.state().in_force, before);
    EXPECT_EQ(certificates.state().failures_count, ++failures);
    EXPECT_THAT(certificates.state().latest, Not(IsOk()));
  };
  authority_.Issue(Path("new_cert"), Path("new_key"));
  replace("key", "new_key");
  stays();
  replace("cert", "new_cert");
  EXPECT_THAT(certificates.Load(), IsOkAndHolds(true));
  EXPECT_NE(certificates.state().in_force, before);
  EXPECT_OK(certificates.state().latest);
  EXPECT_EQ(certificates.state().in_force->key, TextOf(Path("key")));
}

TEST_F(CertificatesTest, AnExpiredPairLeavesTheOneInForce) {
  Certificates certificates({.certificate = Path("cert"), .key = Path("key")});
  ASSERT_OK(certificates.Load().status());
  const auto before = certificates.state().in_force;
  authority_.Issue(Path("cert"), Path("key"), {.begin_s = -20, .end_s = -10});
  EXPECT_THAT(certificates.Load().status(), FailsWith(kInvalidArgument, "has expired"));
  EXPECT_EQ(certificates.state().in_force, before);
  EXPECT_GT(certificates.state().expires_unix_s, time(nullptr));
}

}  // namespace
}  // namespace nearfield::server

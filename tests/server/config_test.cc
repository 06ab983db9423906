// Tests of settings: precedence, limits, errors.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/config/load.h"
#include "server/config/paths.h"

#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

class ConfigTest : public ::testing::Test {
 protected:
  ~ConfigTest() override { std::remove(path_.c_str()); }

  absl::StatusOr<LoadOutcome> Load(std::vector<std::string> arguments) {
    return LoadInto(std::move(arguments), &settings_);
  }
  absl::StatusOr<LoadOutcome> LoadInto(std::vector<std::string> arguments, Settings* settings) {
    arguments.insert(arguments.begin(), "nearfield-server");
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return LoadSettings(static_cast<int>(argv.size()), argv.data(), environment_, settings,
                        machine_);
  }
  std::string File(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }

  const std::string path_ = ::testing::TempDir() + "/config_test_" + std::to_string(getpid()) +
                            "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            ".toml";
  Environment environment_;
  HostMachine machine_ = {.memory_bytes = 64 * kGiB, .cores = 8};
  Settings settings_;
};

TEST_F(ConfigTest, FileIsWeakerThanEnvironmentIsWeakerThanFlag) {
  const std::string file =
      File("k_max = 1\nqueries_max = 2\ndevice = 3\n# a comment\nlisten = \"127.0.0.1:1\"\n");
  environment_ = {
      {"NEARFIELD_QUERIES_MAX", "20"}, {"NEARFIELD_DEVICE", "30"}, {"NEARFIELD_LISTEN", ""}};
  ASSERT_OK(Load({"--config", file, "--device", "40"}));
  EXPECT_EQ(settings_.k_max.value(), 1);
  EXPECT_EQ(settings_.k_max.source(), SettingSource::kFile);
  EXPECT_EQ(settings_.queries_max.value(), 20);
  EXPECT_EQ(settings_.queries_max.source(), SettingSource::kEnvironment);
  EXPECT_EQ(settings_.device.value(), 40);
  EXPECT_EQ(settings_.device.source(), SettingSource::kFlag);
  EXPECT_EQ(settings_.listen.value(), "127.0.0.1:1") << "an empty variable counts as absent";
  EXPECT_EQ(settings_.threads.source(), SettingSource::kDefault);
}

TEST_F(ConfigTest, TheFileMayBeNamedByTheEnvironment) {
  environment_ = {{"NEARFIELD_CONFIG", File("k_max = 7\n")}};
  ASSERT_OK(Load({}));
  EXPECT_EQ(settings_.k_max.value(), 7);
}

TEST_F(ConfigTest, DefaultsAreLoopbackAndCloseToTheDesign) {
  ASSERT_OK(Load({}));
  EXPECT_TRUE(IsLoopback(settings_.listen.value()));
  EXPECT_EQ(settings_.request_bytes_max.value(), 64 << 20);
  EXPECT_FALSE(settings_.reflection.value());
}

TEST_F(ConfigTest, WhatCheckConfigPrintsIsAFileThatGivesTheSameSettings) {
  ASSERT_OK_AND_ASSIGN(const auto printed,
                       Load({"--check-config", "--memory-bytes", "3GiB", "--reflection",
                             "--port-file", "a # b = c", "--backend=cpu"}));
  EXPECT_EQ(printed.action, LoadOutcome::Action::kPrint);
  EXPECT_THAT(printed.output,
              AllOf(HasSubstr("memory_bytes = \"3GiB\"  # flag"), HasSubstr("# default")));
  Settings again;
  const std::vector<const char*> argv = {"nearfield-server", "--config", path_.c_str()};
  File(printed.output);
  ASSERT_OK(LoadSettings(3, argv.data(), {}, &again));
  for (size_t i = 0; i < again.all().size(); ++i)
    EXPECT_EQ(again.all()[i]->Text(), settings_.all()[i]->Text());
}

TEST_F(ConfigTest, WorkOnADataDirectoryIsAskedForOnTheCommandLine) {
  EXPECT_EQ(Load({})->action, LoadOutcome::Action::kServe);
  EXPECT_EQ(Load({"--check-data-dir"})->action, LoadOutcome::Action::kCheckDataDir);
  ASSERT_OK_AND_ASSIGN(const auto restore,
                       Load({"--restore-from", "/backup/a", "--data-dir", "/data/b"}));
  EXPECT_EQ(restore.action, LoadOutcome::Action::kRestore);
  EXPECT_EQ(restore.snapshot_dir, "/backup/a");
  EXPECT_EQ(settings_.data_dir.value(), "/data/b");
  EXPECT_THAT(Load({"--restore-from", "/backup/a", "--check-data-dir"}),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Load({"--check-data-dir", "--data-dir", "none"}),
              FailsWith(kInvalidArgument, "data_dir"));
}

TEST_F(ConfigTest, SnapshotsDoNotLieInTheDataDirectory) {
  for (const std::string dir : {"/a/data", "/a/data/", "/a/data/s", "/a/./data/x/../s"}) {
    EXPECT_THAT(Load({"--data-dir", "/a/data", "--snapshot-dir", dir}),
                FailsWith(kInvalidArgument, "snapshot_dir"))
        << dir;
  }
  for (const std::string dir : {"/a/data2", "/a/snapshots", "/a", "s"}) {
    EXPECT_OK(Load({"--data-dir", "/a/data", "--snapshot-dir", dir})) << dir;
  }
  EXPECT_OK(Load({"--data-dir", "none", "--snapshot-dir", "none/s"}));
}

TEST_F(ConfigTest, BytesTakeSuffixes) {
  ASSERT_OK(
      Load({"--request-bytes-max", "1MiB", "--payload-bytes-max=2KiB", "--memory-bytes=123"}));
  EXPECT_EQ(settings_.request_bytes_max.value(), 1 << 20);
  EXPECT_EQ(settings_.payload_bytes_max.value(), 2048);
  EXPECT_EQ(settings_.memory_bytes.value(), 123);
}

TEST_F(ConfigTest, EveryBadValueNamesTheSettingTheValueAndTheLimit) {
  for (const auto& [flag, value, limit] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--k-max", "0", "1 .. 4096"},
           {"--k-max", "4097", "1 .. 4096"},
           {"--k-max", "12x", "1 .. 4096"},
           {"--k-max", "99999999999999999999", "1 .. 4096"},
           {"--request-bytes-max", "2GiB", "64KiB"},
           {"--request-bytes-max", "1 MiB", "64KiB"},
           {"--memory-bytes", "9999999999999TiB", "0 .. 16TiB"},
           {"--memory-bytes", "-1", "0 .. "},
           {"--backend", "tpu", "auto|cpu|gpu"},
           {"--reflection=maybe", "", "true"},
           {"--listen", "a\nb", "text"},
           {"--listen", "nonsense", "HOST:PORT"},
           {"--listen", ":1", "HOST:PORT"},
           {"--listen", "127.0.0.1:65536", "0 .. 65535"},
           {"--listen", "unix:", "unix:PATH"},
           {"--listen", "::1:50051", "brackets"},
           {"--listen", "[::1:50051", "brackets"},
           {"--listen", "[]:50051", "brackets"},
           {"--listen", "unix:" + std::string(108, 'x'), "at most 107"},
           {"--port-file", "a\"b", "text"}}) {
    Settings fresh;
    std::vector<const char*> argv = {"nearfield-server", flag.c_str()};
    if (!value.empty()) argv.push_back(value.c_str());
    const auto result = LoadSettings(static_cast<int>(argv.size()), argv.data(), {}, &fresh);
    EXPECT_THAT(result, FailsWith(kInvalidArgument, limit)) << flag << " " << value;
  }
}

TEST_F(ConfigTest, UnknownKeysFlagsAndBadLinesAreErrors) {
  for (const auto& [text, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"\n\nk_maks = 3\n", "line 3: unknown setting 'k_maks'"},
           {"[server]\n", "line 1: '[server]' is not 'name = value'"},
           {"k_max = 3\nk_max = 4\n", "line 2: k_max is given twice"},
           {"k_max =\n", "is not 'name = value'"},
           {"k_max\n", "is not 'name = value'"},
           {"listen = \"a\" b\n", "is not 'name = value'"},
           {"listen = \"a\n", "is not 'name = value'"},
           {"k_max = [3, 4]\n", "k_max = \"[3, 4]\" (from file): must be 1 .. 4096"}}) {
    EXPECT_THAT(Load({"--config", File(text)}), FailsWith(kInvalidArgument, complaint)) << text;
  }
  EXPECT_THAT(Load({"--no-such-flag"}), FailsWith(kInvalidArgument, "no-such-flag"));
  EXPECT_THAT(Load({"stray"}), StatusIs(kInvalidArgument));
  EXPECT_THAT(Load({"--k-max", "1", "--k-max", "2"}), StatusIs(kInvalidArgument));
  EXPECT_THAT(Load({"--config", "/no/such/file"}), FailsWith(kNotFound, "/no/such/file"));
  EXPECT_THAT(Load({"--config", ::testing::TempDir()}), FailsWith(kNotFound, "cannot be read"));
  EXPECT_OK(Load({"--config", File("# " + std::string(10000, 'x') + "\nk_max = 9\n")}));
  EXPECT_EQ(settings_.k_max.value(), 9);
}

TEST_F(ConfigTest, TheOldNameOfASettingIsAnErrorThatNamesThePresentOne) {
  const auto is_renamed = [](const std::string& place) {
    return FailsWith(kInvalidArgument,
                     place + ": setting 'audit_share' is now called 'audit_one_in'");
  };
  EXPECT_THAT(Load({"--audit-share", "5"}), is_renamed("command line"));
  EXPECT_THAT(Load({"--audit-share=5"}), is_renamed("command line"));
  EXPECT_THAT(Load({"--config", File("\naudit_share = 5\n")}), is_renamed("line 2"));
  environment_ = {{"NEARFIELD_AUDIT_SHARE", "5"}};
  EXPECT_THAT(Load({}), is_renamed("environment variable NEARFIELD_AUDIT_SHARE"));
  environment_ = {{"NEARFIELD_AUDIT_SHARE", ""}};
  EXPECT_OK(Load({"--audit-one-in", "5"}));
  EXPECT_EQ(settings_.audit_one_in.value(), 5);
}

TEST_F(ConfigTest, SettingsMustFitTogether) {
  EXPECT_THAT(Load({"--response-bytes-max", "64KiB"}),
              FailsWith(kInvalidArgument, "payload_bytes_max = 64KiB", "response_bytes_max"));
  EXPECT_THAT(Load({"--queries-max", "2000"}), FailsWith(kInvalidArgument, "batch_max"));
  EXPECT_THAT(Load({"--queries-max", "10", "--request-bytes-max", "64KiB"}),
              FailsWith(kInvalidArgument, "payload_bytes_max"));
}

TEST_F(ConfigTest, ASocketHasNoPortToWrite) {
  EXPECT_OK(Load({"--listen", "unix:/tmp/x"}));
  EXPECT_THAT(Load({"--listen", "unix:/tmp/x", "--port-file", "/tmp/port"}),
              FailsWith(kInvalidArgument, "port_file = \"/tmp/port\"", "unix:/tmp/x"));
}

TEST_F(ConfigTest, VariablesThatNameNoSettingAreTold) {
  environment_ = {{"NEARFIELD_K_MAX", "12"},
                  {"NEARFIELD_K_MAKS", "13"},
                  {"NEARFIELD_CONFIG", ""},
                  {"NEARFIELD_ADDRESS", "host:1"}};
  EXPECT_THAT(Load({})->unknown_variables,
              ElementsAre("NEARFIELD_K_MAKS; did you mean NEARFIELD_K_MAX?"));
  EXPECT_EQ(settings_.k_max.value(), 12);
  EXPECT_THAT(Load({"--check-config"})->output,
              HasSubstr("environment variable NEARFIELD_K_MAKS; did you mean NEARFIELD_K_MAX?\n"));
}

TEST_F(ConfigTest, TheProcessHasTheVariablesOfTheServerAlone) {
  ASSERT_EQ(setenv("NEARFIELD_SOME_TEXT", "a=b=c", 1), 0);
  ASSERT_EQ(setenv("NEARBY", "1", 1), 0);
  const Environment environment = ProcessEnvironment();
  EXPECT_EQ(environment.at("NEARFIELD_SOME_TEXT"), "a=b=c");
  EXPECT_EQ(environment.count("NEARBY"), 0u);
}

TEST_F(ConfigTest, TheDefaultDataDirectoryDependsOnTheUserAlone) {
  EXPECT_EQ(DefaultDataDir({.is_root = true, .xdg_data_home = "/x", .home = "/root"}),
            "/var/lib/nearfield");
  EXPECT_EQ(DefaultDataDir({.xdg_data_home = "/x/share", .home = "/home/a"}), "/x/share/nearfield");
  EXPECT_EQ(DefaultDataDir({.home = "/home/a"}), "/home/a/.local/share/nearfield");
  EXPECT_EQ(DefaultDataDir({.xdg_data_home = "share", .home = "/home/a"}),
            "/home/a/.local/share/nearfield")
      << "a relative XDG_DATA_HOME counts as absent";
  ASSERT_OK(Load({}));
  EXPECT_EQ(settings_.data_dir.value(), DefaultDataDir(ThisUser()));
  EXPECT_EQ(settings_.data_dir.source(), SettingSource::kDefault);
  Settings homeless;
  ASSERT_OK(ResolvePaths({}, &homeless));
  EXPECT_THAT(homeless.Validate(), FailsWith(kInvalidArgument, "data_dir = \"\""));
}

TEST_F(ConfigTest, RelativePathsBecomeAbsolute) {
  ASSERT_OK(Load({"--data-dir", "rows", "--snapshot-dir", "../snapshots", "--audit-dir", "/a",
                  "--port-file", "none"}));
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(settings_.data_dir.value(), here + "/rows");
  EXPECT_EQ(settings_.snapshot_dir.value(), here + "/../snapshots");
  EXPECT_EQ(settings_.audit_dir.value(), "/a");
  EXPECT_EQ(settings_.port_file.value(), here + "/none");
}

TEST_F(ConfigTest, AnEmptyDataDirectoryIsRefused) {
  EXPECT_THAT(Load({"--data-dir", ""}), FailsWith(kInvalidArgument, "data_dir = \"\""));
  EXPECT_OK(Load({"--data-dir", "none"}));
  EXPECT_FALSE(settings_.keeps_data());
}

TEST_F(ConfigTest, HelpNamesEverySettingItsVariableAndTheExitCodes) {
  ASSERT_OK_AND_ASSIGN(const auto help, Load({"--help"}));
  EXPECT_EQ(help.action, LoadOutcome::Action::kPrint);
  for (const SettingBase* setting : settings_.all()) {
    EXPECT_THAT(help.output, AllOf(HasSubstr(setting->flag()), HasSubstr(setting->environment())));
  }
  EXPECT_THAT(help.output, HasSubstr("Exit codes:"));
  EXPECT_THAT(Load({"--version"})->output, HasSubstr("nearfield-server "));
}

TEST_F(ConfigTest, AMisspelledNameIsAnsweredWithTheRightOne) {
  EXPECT_THAT(Load({"--lisen", "127.0.0.1:1"}),
              FailsWith(kInvalidArgument, "--lisen: no such option; did you mean --listen?"));
  EXPECT_THAT(Load({"--k-mx=3"}), FailsWith(kInvalidArgument, "did you mean --k-max?"));
  EXPECT_THAT(Load({"serve"}), FailsWith(kInvalidArgument, "serve: an argument too many"));
  EXPECT_THAT(Load({"--config", File("listn = \"x\"\n")}),
              FailsWith(kInvalidArgument, "unknown setting 'listn'; did you mean listen?"));
}

TEST_F(ConfigTest, EverySettingHasItsOwnName) {
  std::set<std::string> names;
  for (const SettingBase* setting : settings_.all())
    EXPECT_TRUE(names.insert(setting->name()).second);
}

TEST_F(ConfigTest, LoopbackIsToldFromTheRest) {
  for (const char* listen : {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/tmp/x"})
    EXPECT_TRUE(IsLoopback(listen));
  for (const char* listen : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1",
                             "127.evil.example:1", "127.0.0.1.example:1", "localhost.example:1"})
    EXPECT_FALSE(IsLoopback(listen));
}

TEST_F(ConfigTest, BeyondLoopbackOnlyWithTlsAndKeysOrTheOverride) {
  for (const char* listen : {"127.0.0.1:1", "unix:/tmp/x", "[::]:1", "10.0.0.1:1"}) {
    for (int given = 0; given < 8; ++given) {
      const bool tls = (given & 1) != 0;
      const bool keys = (given & 2) != 0;
      const bool allowed = (given & 4) != 0;
      std::vector<std::string> flags = {std::string("--listen=") + listen};
      if (tls) flags.insert(flags.end(), {"--tls-cert=c", "--tls-key=k"});
      if (keys) flags.emplace_back("--key-file=f");
      if (allowed) flags.emplace_back("--allow-insecure");
      const bool exposed = !IsLoopback(listen) && !(tls && keys);
      Settings settings;
      const absl::Status status = LoadInto(flags, &settings).status();
      EXPECT_EQ(settings.IsExposed(), exposed) << listen << " " << given;
      EXPECT_EQ(status.ok(), !exposed || allowed) << listen << " " << given << " " << status;
      // A restore listens on nothing.
      flags.insert(flags.end(), {"--check-data-dir", "--data-dir=/tmp/data"});
      Settings offline;
      EXPECT_OK(LoadInto(flags, &offline).status());
    }
  }
  EXPECT_THAT(Load({"--tls-cert=c"}), FailsWith(kInvalidArgument, "tls_cert", "tls_key"));
}

TEST_F(ConfigTest, TheHttpPortIsExposedAsThePortOfGrpc) {
  EXPECT_THAT(Load({"--http-listen=0.0.0.0:1"}),
              FailsWith(kInvalidArgument, "http_listen = \"0.0.0.0:1\"", "tls_cert is empty"));
  for (const char* const wrong : {"unix:/tmp/x", "1", ":1", "h:65536"}) {
    Settings settings;
    EXPECT_THAT(LoadInto({std::string("--http-listen=") + wrong}, &settings),
                FailsWith(kInvalidArgument, "http_listen", "must be HOST:PORT"));
  }
  Settings settings;
  ASSERT_OK(LoadInto({"--http-listen=0.0.0.0:1", "--allow-insecure"}, &settings));
  EXPECT_TRUE(settings.IsExposed());
  EXPECT_EQ(settings.BeyondLoopback(), &settings.http_listen);
}

// Else every user of the machine could make the calls.
TEST_F(ConfigTest, BesideAUnixSocketTheHttpPortIsOffUnlessItIsSet) {
  Settings settings;
  ASSERT_OK(LoadInto({"--listen=unix:/tmp/x"}, &settings));
  EXPECT_FALSE(settings.has_http_port());
  EXPECT_THAT(settings.Effective(), HasSubstr("http_listen = \"none\"  # default"));
  Settings set;
  ASSERT_OK(LoadInto({"--listen=unix:/tmp/x", "--http-listen=127.0.0.1:1"}, &set));
  EXPECT_TRUE(set.has_http_port());
}

TEST_F(ConfigTest, SeveralGpusAreAListOrAll) {
  ASSERT_OK(Load({"--devices=0,2"}));
  EXPECT_THAT(settings_.ToEngineOptions().devices, ElementsAre(0, 2));
  ASSERT_OK(Load({"--devices=all"}));
  EXPECT_THAT(settings_.Gpus(), ElementsAre(kAllDevices));
  for (const std::string list :
       {"0,0", "0,", "-1", "256", "every", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"}) {
    EXPECT_THAT(Load({"--devices", list}),
                FailsWith(kInvalidArgument, "devices = \"" + list + "\"",
                          "all, or up to 16 different numbers of 0 .. 255"));
  }
  EXPECT_THAT(Load({"--devices=0,1", "--device=1"}),
              FailsWith(kInvalidArgument, "devices", "device = 1 is set too"));
}

TEST_F(ConfigTest, EngineOptionsFollowTheSettings) {
  ASSERT_OK(Load({"--backend=gpu", "--device=2", "--memory-bytes=1GiB", "--threads=3",
                  "--batch-max=2048", "--k-max=9"}));
  const EngineOptions options = settings_.ToEngineOptions();
  EXPECT_EQ(options.backend, BackendChoice::kGpu);
  EXPECT_THAT(options.devices, ElementsAre(2));
  EXPECT_EQ(options.memory_bytes, 1 << 30);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.batch_max, 2048);
  EXPECT_EQ(options.k_max, 9);
}

}  // namespace
}  // namespace nearfield::server

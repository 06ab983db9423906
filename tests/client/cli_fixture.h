// CliTest: runs the command as a program against a server in this process.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/prelude.h"
#include "tests/client/test_files.h"
#include "tests/client/test_server.h"

namespace nearfield::client {

using Arguments = std::vector<std::string>;

// Returns all arguments of both.
inline Arguments Plus(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Match an Outcome: success with an output, a failure with an error message, or one with an output.
MATCHER_P(Prints, out, "succeeds with an output") {
  *result_listener << "exit code " << arg.exit_code << ": " << arg.err;
  return arg.exit_code == 0 && ::testing::ExplainMatchResult(out, arg.out, result_listener);
}
MATCHER_P2(Fails, code, err, "fails with a message") {
  *result_listener << "exit code " << arg.exit_code << ": ";
  return arg.exit_code == code && ::testing::ExplainMatchResult(err, arg.err, result_listener);
}
MATCHER_P2(FailsPrinting, code, out, "fails with an output") {
  *result_listener << "exit code " << arg.exit_code << ": " << arg.err;
  return arg.exit_code == code && ::testing::ExplainMatchResult(out, arg.out, result_listener);
}
// Shows an Outcome in a message of gtest.
inline void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << "exit code " << outcome.exit_code << "\n" << outcome.out << outcome.err;
}

inline std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class CliTest : public ::testing::Test {
 protected:
  // Runs `nearfield --address ADDRESS args...`.
  Outcome Run(Arguments args, const std::string& input = "") {
    args.insert(args.begin(), {"--address", server_.address()});
    return RunPlain(args, input);
  }

  Outcome RunPlain(Arguments args, const std::string& input = "") {
    args.insert(args.begin(), "nearfield");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const std::string in = folder_.Write("stdin", input);
    const std::string out = folder_.path() + "/stdout";
    const std::string err = folder_.path() + "/stderr";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, NEARFIELD_BINARY, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    pid_ = pid;
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    pid_ = 0;
    const int exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return {.exit_code = exit_code, .out = ReadAll(out), .err = ReadAll(err)};
  }

  // Sends a signal to the running command, and returns once the command has caught it. A hook of
  // the server calls it.
  void Interrupt(int signal_number) {
    while (pid_ == 0) std::this_thread::yield();
    EXPECT_TRUE(Catches(signal_number));
    EXPECT_EQ(kill(pid_, signal_number), 0);
    while (Catches(signal_number)) std::this_thread::yield();
  }

  // Creates collection "docs" of three rows of dim 2 with string ids a, b, c and payloads.
  void Fill() {
    const std::string rows = folder_.Write(
        "docs.jsonl",
        "{\"id\":\"a\",\"vector\":[1,0],\"payload\":{\"name\":\"one\",\"year\":1999}}\n"
        "{\"id\":\"b\",\"vector\":[0,1],\"payload\":{\"name\":\"two\"}}\n"
        "{\"id\":\"c\",\"vector\":[1,1],\"payload\":\"plain \\u001b[31m text\"}\n");
    const Outcome uploaded = Run({"upload", "docs", rows, "--create", "--metric", "dot"});
    ASSERT_EQ(uploaded.exit_code, 0) << uploaded.err;
    EXPECT_THAT(uploaded.out, HasSubstr("uploaded 3 rows"));
    EXPECT_THAT(uploaded.err, HasSubstr("100%"));
    EXPECT_THAT(uploaded.err,
                Not(HasSubstr("\r")));  // not a terminal: no redrawing
  }

  TestServer server_;
  TempFolder folder_;

 private:
  // Returns whether the running command has a handler of the signal.
  bool Catches(int signal_number) const {
    std::istringstream status(ReadAll("/proc/" + std::to_string(pid_) + "/status"));
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigCgt:")) continue;
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal_number - 1) & 1) != 0;
    }
    return false;
  }

  std::atomic<pid_t> pid_ = 0;  // of the running command
};

}  // namespace nearfield::client

// nearfield health | limits | capacity
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr std::chrono::milliseconds kHealthTimeout{5000};
// Limit on the question why a server is not ready, after a wait.
constexpr std::chrono::milliseconds kStateTimeout{1000};

void AddState(const ServerState& state, JsonObject* json) {
  json->Add("phase", Name(state.phase)).Add("reason", state.reason);
  if (!state.loading) return;
  json->Add("collections_loaded", state.loading->collections_loaded)
      .Add("collections_count", state.loading->collections_count)
      .Add("bytes_read", state.loading->bytes_read)
      .Add("bytes_total", state.loading->bytes_total);
  if (state.loading->seconds_left) json->Add("seconds_left", *state.loading->seconds_left);
}

// Returns "NOT_SERVING: the server is starting". `state`: why the server does not serve; absent:
// not asked, or an older server.
std::string HealthText(Health health, const std::optional<ServerState>& state) {
  if (!state || state->reason.empty()) return std::string(Name(health));
  return Cat(Name(health), ": ", Printable(state->reason));
}

void PrintHealth(const GlobalOptions& global, const std::string& service, Health health,
                 const std::optional<ServerState>& state = std::nullopt) {
  if (global.json) {
    JsonObject json;
    json.Add("service", service).Add("status", Name(health));
    if (state) AddState(*state, &json);
    Print(json);
  } else {
    Print(Cat(HealthText(health, state), "\n"));
  }
  std::fflush(stdout);  // a watching program reads each line as it arrives
}

absl::StatusOr<int> Watch(const GlobalOptions& global, const std::string& service) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  const absl::Status status = client.WatchHealth(service, [&](Health health) {
    PrintHealth(global, service, health);
    return true;
  });
  // A watch ends only if the server or the connection ends. The message for a server that was never
  // reached would mislead.
  PrintError(
      Cat("the watch ended: ", absl::StatusCodeToString(status.code()), ": ", status.message()));
  return kExitNegative;
}

// A probe has two outcomes: anything except SERVING, including an unreachable server, is 1.
absl::StatusOr<int> Check(const GlobalOptions& global, const std::string& service) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  const std::chrono::milliseconds timeout = global.timeout().value_or(kHealthTimeout);
  const auto begin = std::chrono::steady_clock::now();
  const auto health = client.CheckHealth(service, {.deadline = timeout});
  if (!health.ok()) {
    ReportError(global, health.status());
    return kExitNegative;
  }
  if (*health == Health::kServing) {
    PrintHealth(global, service, *health);
    return kExitOk;
  }
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  const auto state = client.GetServerState({.deadline = timeout - spent});  // one limit for both
  PrintHealth(global, service, *health,
              state.ok() ? std::optional<ServerState>(*state) : std::nullopt);
  return kExitNegative;
}

// Waits until the service is SERVING, for at most `wait_s`. The outcomes are those of Check.
absl::StatusOr<int> Wait(const GlobalOptions& global, const std::string& service, double wait_s) {
  if (global.timeout_s) {
    return absl::InvalidArgumentError(
        "--timeout: not with --wait, which limits the whole command: give one of them");
  }
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  const auto health =
      client.AwaitServing(service, std::chrono::milliseconds(static_cast<int64_t>(wait_s * 1000)));
  const std::string late = Cat(global.address, " is not ready after ", wait_s, " s; ");
  if (!health.ok()) {
    if (IsUnreachable(health.status())) PrintError(Cat(late, "the last try failed:"));
    ReportError(global, health.status());
    return kExitNegative;
  }
  if (*health == Health::kServing) {
    PrintHealth(global, service, *health);
    return kExitOk;
  }
  const auto asked = client.GetServerState({.deadline = kStateTimeout});
  const auto state = asked.ok() ? std::optional<ServerState>(*asked) : std::nullopt;
  if (global.json) PrintHealth(global, service, *health, state);
  PrintError(Cat(late, "its last state: ", HealthText(*health, state)));
  return kExitNegative;
}

absl::StatusOr<int> ShowLimits(const GlobalOptions& global) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto limits, client.GetLimits());
  if (global.json) {
    Print(ToJson(limits));
    return kExitOk;
  }
  Table table({"limit", Table::Right("value"), "meaning"});
  for (const LimitRow& row : Describe(limits)) {
    table.Add({row.name, Grouped(row.value), row.meaning});
  }
  Print(table.ToString());
  return kExitOk;
}

std::string UseOf(uint64_t used, uint64_t total) {
  const double share =
      total == 0 ? 0 : 100.0 * static_cast<double>(used) / static_cast<double>(total);
  return Cat(HumanBytes(static_cast<double>(used)), " of ", HumanBytes(static_cast<double>(total)),
             " (", static_cast<int>(share), "%)");
}

absl::StatusOr<int> ShowCapacity(const GlobalOptions& global) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto capacity, client.GetCapacity());
  if (global.json) {
    Print(ToJson(capacity));
    return kExitOk;
  }
  Print(Cat("server   ", Printable(capacity.server_version), "\n",  //
            "backend  ", Name(capacity.backend), "\n",              //
            "device   ", Printable(capacity.device_name), "\n",     //
            "rows     ", UseOf(capacity.device_bytes_used, capacity.device_bytes_total), "\n",
            "host     ", UseOf(capacity.host_bytes_used, capacity.host_bytes_total), "\n"));
  for (const DeviceUse& use : capacity.devices) {
    Print(Cat("rows on ", Printable(use.name), "  ", UseOf(use.bytes_used, use.bytes_total), "\n"));
  }
  if (capacity.host_rows_bytes_total > 0) {
    Print(Cat("rows on the host  ",
              UseOf(capacity.host_rows_bytes_used, capacity.host_rows_bytes_total), "\n"));
  }
  if (capacity.attribute_bytes_total > 0) {
    Print(Cat("attributes  ", UseOf(capacity.attribute_bytes_used, capacity.attribute_bytes_total),
              "\n"));
  }
  for (const PrincipalUse& use : capacity.principals) {
    for (const QuotaUse& quota : use.quotas) {
      if (quota.used == 0 && quota.max == 0) continue;
      const bool is_bytes = quota.name.ends_with("_bytes");
      const auto text = [is_bytes](uint64_t amount) {
        return is_bytes ? HumanBytes(static_cast<double>(amount)) : Grouped(amount);
      };
      const std::string amount = quota.max == 0 ? text(quota.used)
                                 : is_bytes     ? UseOf(quota.used, quota.max)
                                                : Cat(text(quota.used), " of ", text(quota.max));
      Print(Cat("principal ", Printable(use.principal), " ", Printable(quota.name), "  ", amount,
                "\n"));
    }
  }
  return kExitOk;
}

}  // namespace

void AddServerCommands(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto service = std::make_shared<std::string>();
  auto watch = std::make_shared<bool>(false);
  auto wait_s = std::make_shared<std::optional<double>>();
  CLI::App* health = app.add_subcommand("health", "Show whether the server is ready to serve");
  health->add_option("--service", *service,
                     "One service, such as nearfield.v1.Retrieval [the server as a whole]");
  CLI::Option* const watches = health->add_flag(
      "--watch", *watch, "Print the status now and after each change, until stopped");
  health
      ->add_option("--wait", *wait_s,
                   "Wait at most this many seconds until the status is SERVING, also for a server "
                   "that does not run yet")
      ->check(Seconds())
      ->excludes(watches);
  health->footer(
      "Exits with 0 where the status is SERVING, else with 1; the server has 5 s to answer unless "
      "--timeout says otherwise.\n"
      "A server that starts reports how much of its collections it has loaded.\n"
      "After a start: nearfield health --wait 300\n"
      "As a container's probe:\n"
      "  HEALTHCHECK CMD [\"nearfield\", \"health\"]");
  OnChosen(health, action, [&global, service, watch, wait_s] {
    if (*wait_s) return Wait(global, *service, **wait_s);
    return *watch ? Watch(global, *service) : Check(global, *service);
  });
  CLI::App* limits = app.add_subcommand("limits", "The limits of the server");
  OnChosen(limits, action, [&global] { return ShowLimits(global); });
  CLI::App* capacity = app.add_subcommand("capacity", "Memory of the server, used and free");
  OnChosen(capacity, action, [&global] { return ShowCapacity(global); });
}

}  // namespace nearfield::client

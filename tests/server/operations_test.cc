// Tests of the operations port of a server: its figures are those of GetCounters and GetCapacity,
// and its probes distinguish a server that loads or is not trusted from one that must be replaced.
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "server/ops_http/collection_metrics.h"
#include "tests/server/http_client.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class OperationsPortTest : public ServerFixture {
 protected:
  OperationsPortTest() { Set(settings_.ops_listen, "127.0.0.1:0"); }

  HttpAnswer Get(const std::string& path) { return HttpGet(PortOf(server_->ops_address()), path); }
  std::map<std::string, double> Metrics() { return MetricsIn(Get("/metrics").body); }
  nlohmann::json Readiness(int status) {
    const HttpAnswer answer = Get("/readyz");
    EXPECT_EQ(answer.status, status) << answer.body;
    return nlohmann::json::parse(answer.body);
  }
};

TEST_F(OperationsPortTest, FiguresAreThoseOfGetCounters) {
  ServeRows();
  script_->escalations_tighter = 3;
  script_->escalations_canonical = 2;
  for (int i = 0; i < 5; ++i) ASSERT_OK(Search(SearchFor("c", {1, 0})));
  EXPECT_FALSE(Search(SearchFor("absent", {1, 0})).ok());
  const pb::GetCountersResponse counters = CallOk(&Admin::GetCounters);
  const auto metrics = Metrics();
  std::map<std::string, double> calls_by_method;
  for (const pb::CallCounter& calls : counters.calls()) {
    const std::string labels =
        "{method=\"" + calls.method() + "\",status=\"" + calls.status() + "\"}";
    EXPECT_EQ(metrics.at("nearfield_calls_total" + labels), calls.calls_count()) << labels;
    calls_by_method[calls.method()] += static_cast<double>(calls.calls_count());
  }
  EXPECT_EQ(calls_by_method.at("Search"), 6);
  for (const auto& [method, calls] : calls_by_method) {
    const std::string labels = "{method=\"" + method + "\"}";
    EXPECT_EQ(metrics.at("nearfield_call_duration_seconds_count" + labels), calls) << method;
    EXPECT_EQ(
        metrics.at("nearfield_call_duration_seconds_bucket{method=\"" + method + "\",le=\"+Inf\"}"),
        calls);
  }
  // Only the five searches that reached the engine.
  EXPECT_EQ(metrics.at("nearfield_call_device_seconds_count{method=\"Search\"}"), 5);
  EXPECT_EQ(metrics.at("nearfield_call_queue_seconds_count{method=\"Search\"}"), 5);
  EXPECT_EQ(metrics.at("nearfield_batch_queries_count{scan=\"rows\"}"),
            counters.passes().passes_count());
  EXPECT_EQ(metrics.at("nearfield_batch_queries_sum{scan=\"rows\"}"),
            counters.passes().queries_rows_count());
  EXPECT_EQ(metrics.at("nearfield_candidates_total"), counters.passes().candidates());
  EXPECT_EQ(metrics.at("nearfield_escalations_total{path=\"tighter\"}"), 15);
  EXPECT_EQ(metrics.at("nearfield_escalations_total{path=\"canonical\"}"), 10);
  EXPECT_EQ(metrics.at("nearfield_connections_accepted_total"),
            counters.connections().accepted_count());
}

TEST_F(OperationsPortTest, AServerThatNeedsNoKeyBeyondLoopbackIsReported) {
  Listen();
  EXPECT_EQ(Metrics().at("nearfield_exposed"), 0);
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
  Drain();
  Set(settings_.listen, "0.0.0.0:0");
  Set(settings_.allow_insecure, "true");
  Listen();
  EXPECT_EQ(Metrics().at("nearfield_exposed"), 1);
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

TEST_F(OperationsPortTest, EveryMemoryStandsNextToItsLimit) {
  Set(settings_.replies_bytes_max, "200MiB");
  ServeRows();
  const pb::GetCapacityResponse capacity = CallOk(&Admin::GetCapacity);
  const auto metrics = Metrics();
  EXPECT_EQ(metrics.at("nearfield_memory_bytes{memory=\"device\"}"), capacity.device_bytes_used());
  EXPECT_GT(capacity.device_bytes_used(), 0u);
  EXPECT_EQ(metrics.at("nearfield_memory_bytes_max{memory=\"device\"}"),
            capacity.device_bytes_total());
  EXPECT_EQ(metrics.at("nearfield_memory_bytes{memory=\"host\"}"), capacity.host_bytes_used());
  EXPECT_EQ(metrics.at("nearfield_memory_bytes_max{memory=\"replies\"}"), 200 << 20);
  std::set<std::string> memories;
  for (const auto& [name, value] : metrics) {
    const size_t brace = name.find('{');
    if (name.substr(0, brace) != "nearfield_memory_bytes") continue;
    EXPECT_EQ(metrics.count("nearfield_memory_bytes_max" + name.substr(brace)), 1u) << name;
    memories.insert(name.substr(brace + 9, name.size() - brace - 11));
  }
  EXPECT_THAT(memories, ElementsAre("attributes", "device", "filter_cache", "host", "host_rows",
                                    "kept_epochs_device", "kept_epochs_host", "queue", "replies",
                                    "requests", "term_numbers"));
}

TEST_F(OperationsPortTest, TheMemoryAndTheNumberOfKeptEpochsAreReported) {
  ServeRows();
  EXPECT_EQ(Metrics().at("nearfield_kept_epochs"), 0);
  pb::SearchRequest first = SearchFor("c", {1, 0});
  first.set_k(1);
  first.set_with_cursor(true);
  ASSERT_OK(Search(first));
  EXPECT_EQ(Metrics().at("nearfield_kept_epochs"), 1);
  EXPECT_EQ(Metrics().at("nearfield_kept_epochs_max"), 1024);
  EXPECT_EQ(Metrics().at("nearfield_memory_bytes{memory=\"kept_epochs_device\"}"), 0);
  pb::UploadRequest replace = Begin("c", 1);
  replace.mutable_begin()->set_mode(pb::UPLOAD_MODE_REPLACE);
  ASSERT_OK(Send({replace, Block({9}), Commit()}));
  EXPECT_EQ(Metrics().at("nearfield_memory_bytes{memory=\"kept_epochs_device\"}"),
            4 * kDeviceRowBytes);
}

TEST(PrincipalMetricsTest, PrincipalsNearTheirLimitsAreShownAndTheOthersSummed) {
  std::vector<PrincipalQuotas::Use> uses;
  for (int i = 0; i < 200; ++i) {  // p0 .. p9 have a limit, the fuller the higher their number
    PrincipalQuotas::Use use = {.principal = "p" + std::to_string(i), .used = {}, .max = {}};
    use.used[Quota::kDeviceBytes] = i;
    use.max[Quota::kDeviceBytes] = i < 10 ? 10 : 0;
    uses.push_back(use);
  }
  uses[100].used[Quota::kAliases] = 9;
  uses[100].max[Quota::kAliases] = 10;
  MetricSet metrics;
  AddPrincipalMetrics(uses, &metrics);
  const auto samples = MetricsIn(metrics.Text());
  const auto sample = [&](const std::string& name, const std::string& principal,
                          const std::string& quota) {
    return samples.find(name + "{principal=\"" + principal + "\",quota=\"" + quota + "\"}");
  };
  double sum = 0;
  size_t shown = 0;
  for (const auto& [name, value] : samples) {
    if (!name.starts_with("nearfield_principal_used{") ||
        name.find("device_bytes") == std::string::npos) {
      continue;
    }
    sum += value;
    ++shown;
  }
  EXPECT_EQ(shown, kPrincipalsShown + 1);
  EXPECT_EQ(sum, 199 * 200 / 2);
  for (int i = 1; i < 10; ++i) {  // all but p0, which holds nothing
    const std::string principal = "p" + std::to_string(i);
    EXPECT_EQ(sample("nearfield_principal_used", principal, "device_bytes")->second, i);
    EXPECT_EQ(sample("nearfield_principal_used_max", principal, "device_bytes")->second, 10);
  }
  EXPECT_EQ(sample("nearfield_principal_used_max", "p0", "device_bytes"), samples.end());
  EXPECT_EQ(sample("nearfield_principal_used", "p100", "aliases")->second, 9);
  EXPECT_EQ(sample("nearfield_principal_used_max", "p100", "aliases")->second, 10);
  EXPECT_NE(sample("nearfield_principal_used", "p199", "device_bytes"), samples.end());
  EXPECT_EQ(sample("nearfield_principal_used", "p99", "device_bytes"), samples.end());
  EXPECT_EQ(sample("nearfield_principal_used", "p199", "snapshots"), samples.end());
}

TEST_F(OperationsPortTest, RefusalsAreCountedByTheLimitThatTheyMet) {
  Set(settings_.uploads_max, "1");
  ServeEmpty();
  UploadCall first(*ingest_, {Begin("c", 1)});
  ASSERT_TRUE(first.Read());
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Send({Begin("c", 1)}), HasCode(kResourceExhausted));
  EXPECT_EQ(Metrics().at("nearfield_refusals_total{reason=\"uploads_max\"}"), 2);
  EXPECT_EQ(Metrics().at("nearfield_uploads"), 1);
  first.context.TryCancel();
  EXPECT_FALSE(first.Finish().ok());
}

TEST_F(OperationsPortTest, TheNumberOfCollectionsShownIsBounded) {
  Serve();
  const size_t count = kCollectionsShown + 3;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "c" + std::to_string(i);
    ASSERT_OK(CreateCollection(name));
    // The three smallest are the first three.
    std::vector<uint64_t> ids(i < 3 ? 1 : 2);
    for (size_t row = 0; row < ids.size(); ++row) ids[row] = row;
    ASSERT_OK(UploadRows(name, ids));
  }
  const auto metrics = Metrics();
  EXPECT_EQ(metrics.at("nearfield_collections"), count);
  size_t shown = 0;
  double rows = 0;
  for (const auto& [name, value] : metrics) {
    if (name.rfind("nearfield_collection_rows{", 0) != 0) continue;
    ++shown;
    rows += value;
  }
  EXPECT_EQ(shown, kCollectionsShown + 1);
  EXPECT_EQ(rows, 2 * count - 3);
  EXPECT_EQ(metrics.at("nearfield_collection_rows{collection=\"(others)\"}"), 3);
  EXPECT_EQ(metrics.count("nearfield_collection_rows{collection=\"c2\"}"), 0u);
  EXPECT_EQ(metrics.at("nearfield_collection_rows{collection=\"c3\"}"), 2);
}

TEST_F(OperationsPortTest, AServerThatStartsIsAliveAndSaysWhyItIsNotReady) {
  Listen();
  EXPECT_EQ(Get("/livez").status, 200);
  const nlohmann::json starting = Readiness(503);
  EXPECT_EQ(starting["ready"], false);
  EXPECT_EQ(starting["phase"], "starting");
  EXPECT_EQ(starting["reason"], CallOk(&Admin::GetServerState).reason());
  EXPECT_EQ(Metrics().at("nearfield_phase{phase=\"starting\"}"), 1);
  EXPECT_EQ(Metrics().at("nearfield_ready"), 0);
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
  EXPECT_EQ(Readiness(200)["phase"], "serving");
  EXPECT_EQ(Metrics().at("nearfield_ready"), 1);
}

TEST_F(OperationsPortTest, ReadinessReportsHowFarTheLoadIs) {
  Listen();
  BootProgress& progress = server_->state().boot_progress();
  progress.Begin(BootProgress::Step::kLoading);
  progress.Report(
      {.collections_loaded = 1, .collections_count = 4, .bytes_read = 300, .bytes_total = 1000});
  const nlohmann::json loading = Readiness(503)["loading"];
  EXPECT_EQ(loading["collections_loaded"], 1);
  EXPECT_EQ(loading["collections_count"], 4);
  EXPECT_EQ(loading["bytes_read"], 300);
  EXPECT_EQ(loading["bytes_total"], 1000);
  EXPECT_EQ(Metrics().at("nearfield_loading_bytes"), 300);
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

// A restart would only serve from the same hardware again.
TEST_F(OperationsPortTest, AServerThatIsNotTrustedIsAliveButNotReady) {
  ServeEmpty();
  server_->state().Distrust();
  EXPECT_EQ(Get("/livez").status, 200);
  const nlohmann::json readiness = Readiness(503);
  EXPECT_EQ(readiness["trusted"], false);
  EXPECT_THAT(readiness["reason"].get<std::string>(), HasSubstr("found to be wrong"));
  EXPECT_EQ(Metrics().at("nearfield_trusted"), 0);
}

TEST_F(OperationsPortTest, AServerThatLostItsDeviceIsNotAlive) {
  ServeEmpty();
  server_->state().Lose();
  EXPECT_EQ(Get("/livez").status, 503);
  EXPECT_EQ(Readiness(503)["phase"], "device_lost");
  script_->device->Lose();  // so that the end of the test expects it
}

TEST_F(OperationsPortTest, AServerThatDrainsIsNotReady) {
  Set(settings_.drain_ms, "86400000");
  ServeRows();
  script_->search_gate.Close();
  std::thread search([this] { EXPECT_OK(Search(SearchFor("c", {1, 0}))); });
  script_->search_gate.AwaitArrivals(1);
  std::thread drain([this] { EXPECT_EQ(server_->Drain(), ExitCode::kClean); });
  EXPECT_TRUE(
      Eventually([&] { return server_->state().phase() == ServerState::Phase::kDraining; }));
  EXPECT_EQ(Readiness(503)["phase"], "draining");
  EXPECT_EQ(Get("/livez").status, 200);
  EXPECT_EQ(Metrics().at("nearfield_collection_rows{collection=\"c\"}"), 4);
  script_->search_gate.Open();
  search.join();
  drain.join();
  server_ = nullptr;
}

TEST_F(OperationsPortTest, OtherPathsAreNotFound) {
  Listen();
  for (const char* const path : {"/metrics/", "/page.cc", "/page/page.js", "/metrics/../livez/x",
                                 "/etc/passwd", "/readyz%00"}) {
    EXPECT_NE(Get(path).status, 200) << path;
  }
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

TEST_F(OperationsPortTest, ATraceOfTheCallerIsInTheLineOfItsCall) {
  ServeRows();
  grpc::ClientContext context;
  context.AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  ASSERT_OK(Search(SearchFor("c", {1, 0}), nullptr, &context));
  ASSERT_OK(Search(SearchFor("c", {1, 0})));
  Drain();
  int with_trace = 0;
  int searches = 0;
  for (const nlohmann::json& line : LogLinesOf("request")) {
    if (line["method"] != "Search") continue;
    ++searches;
    if (!line.contains("trace_id")) continue;
    ++with_trace;
    EXPECT_EQ(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(line["parent_span_id"], "00f067aa0ba902b7");
  }
  EXPECT_EQ(searches, 2);
  EXPECT_EQ(with_trace, 1);
}

}  // namespace
}  // namespace nearfield::server

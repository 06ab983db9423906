// Stores two rows in a server and in an engine of this process, searches both, and compares the
// answers. Prints the state of the selection library, which needs a GPU.
//   consumer ADDRESS
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "nearfield/client/client.h"
#include "nearfield/engine/engine.h"
#include "nearfield/engine/select.h"

int main(int /*argc*/, char** argv) {
  const std::vector<float> rows = {1, 2, 3, 4, 3, 2, 1, 0};
  const std::vector<float> query = {1, 0, 0, 1};
  const std::string_view bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * 4);

  namespace nf = nearfield::client;
  auto client = nf::Client::Connect({.address = argv[1]}).value();
  client.CreateCollection({.name = "docs", .dim = 4, .metric = nf::Metric::kDot}).value();
  auto upload = client.BeginUpload({.collection = "docs", .rows_max = 2}).value();
  const nf::IdColumn ids = std::vector<uint64_t>{7, 8};
  if (!upload.Write({.ids = &ids, .vectors = bytes}).ok() || !upload.Commit().ok()) return 1;
  const auto served = client.Search("docs", query, {.k = 2}).value().results[0];

  auto engine = nearfield::Engine::Create({.memory_bytes = 64 << 20}).value();
  auto docs = engine->CreateCollection({.dim = 4, .metric = nearfield::Metric::kDot}).value();
  auto local = docs->BeginUpload({.rows_max = 2}).value();
  const auto numbers = nearfield::IdColumn::OfNumbers({7, 8});
  const absl::Span<const uint8_t> row_bytes(reinterpret_cast<const uint8_t*>(rows.data()),
                                            rows.size() * 4);
  if (!local->Append({.ids = &numbers, .rows = row_bytes}).ok() || !local->Commit().ok()) return 1;
  const auto found =
      engine->Search(*docs, {.queries = {{.vector = query, .k = 2}}}).value().queries[0];

  const auto selector = nearfield::select::Selector::Create({});
  std::printf("topk: %s\n", selector.status().ToString().c_str());
  std::printf("best: %llu, %.9g\n", static_cast<unsigned long long>(found.ids.number(0)),
              found.scores[0]);
  return served.scores == found.scores ? 0 : 1;
}

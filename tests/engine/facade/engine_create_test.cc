// Tests of Engine::Create: the choice of the backend, and the time of its self-test.

#include <cstdint>
#include <ctime>
#include <memory>

#include "engine/cuda/probe_gpu.h"
#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

EngineOptions Small(BackendChoice backend) {
  return {.backend = backend,
          .memory_bytes = int64_t{256} << 20,
          .host_memory_bytes = int64_t{64} << 20,
          .threads = 2};
}

void ExpectSelfTestPassesInTime(Engine& engine) {
  const std::clock_t begin = std::clock();  // CPU time: independent of machine load
  EXPECT_OK(engine.SelfTest(TestSeed()));
#if defined(NDEBUG) && !defined(NEARFIELD_SANITIZED)
  EXPECT_LT(std::clock() - begin, 2 * CLOCKS_PER_SEC);
#else
  (void)begin;
#endif
  EXPECT_EQ(engine.GetCapacity().host_bytes_used, 0);
}

TEST(EngineCreate, TheCpuServesWhereItIsAskedFor) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(Small(BackendChoice::kCpu)));
  EXPECT_EQ(engine->Info().backend, BackendKind::kCpu);
  EXPECT_EQ(engine->Info().note, "the CPU was asked for");
  EXPECT_EQ(engine->Info().k_max, kKMax);
  ExpectSelfTestPassesInTime(*engine);
}

TEST(EngineCreate, AutoTakesTheGpuOrSaysWhyNot) {
  const absl::Status usable = gpu::ProbeGpu(0);
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(Small(BackendChoice::kAuto)));
  EXPECT_EQ(engine->Info().backend, usable.ok() ? BackendKind::kGpu : BackendKind::kCpu);
  if (!usable.ok()) {
    EXPECT_THAT(engine->Info().note, HasSubstr(std::string(usable.message())));
  }
  ExpectSelfTestPassesInTime(*engine);
}

TEST(EngineCreate, WithoutAUsableGpuTheGpuIsRefusedWithTheReason) {
  constexpr int32_t kNoSuchDevice = 1000;
  EngineOptions options = Small(BackendChoice::kGpu);
  options.device = kNoSuchDevice;
  const absl::Status usable = gpu::ProbeGpu(kNoSuchDevice);
  ASSERT_FALSE(usable.ok());
  EXPECT_THAT(Engine::Create(options),
              StatusIs(kFailedPrecondition, HasSubstr(std::string(usable.message()))));
}

TEST(EngineCreate, OptionsAreCheckedBeforeAnyMemoryIsTaken) {
  EngineOptions options = Small(BackendChoice::kCpu);
  options.k_max = 0;
  EXPECT_THAT(Engine::Create(options), StatusIs(kInvalidArgument, HasSubstr("k_max")));
}

// The same law as with the fake backend: after uploads, deletions and merges, real backends equal
// the oracle.
TEST(EngineCreate, ManyCommitsAndDeletionsEqualTheOracle) {
  for (const BackendChoice choice : {BackendChoice::kCpu, BackendChoice::kAuto}) {
    ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(Small(choice)));
    const CollectionSpec spec = {.dim = 19, .row_type = RowType::kFloat16};
    const Corpus all = MakeCorpus(spec, CorpusFamily::kDuplicates, 200, TestSeed());
    const auto collection = *engine->CreateCollection(spec);
    const std::vector<int64_t> indices = AllIndices(200);
    for (size_t begin = 0; begin < 200; begin += 5) {
      ASSERT_OK(
          UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(begin, 5))));
    }
    std::vector<int64_t> kept;
    IdColumn deleted;
    for (const int64_t row : indices) {
      if (row % 3 == 0) {
        deleted.AppendFrom(all.ids, row);
      } else {
        kept.push_back(row);
      }
    }
    ASSERT_OK(collection->Delete(deleted));
    const std::vector<float> query = Decode(spec, all.row(1));
    for (const int32_t k : {1, 50, kKMax}) {
      ASSERT_OK_AND_ASSIGN(const auto answer, SearchOne(*engine, *collection, query, k));
      EXPECT_THAT(answer, BytesEqual(OracleAnswer(Select(all, kept), query, k)));
    }
  }
}

}  // namespace
}  // namespace nearfield::testing

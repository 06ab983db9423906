#include "engine/engine_core.h"

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/device.h"
#include "engine/options.h"
#include "engine/score/arithmetic_mode.h"
#include "engine/search/device_search.h"
#include "engine/search/search.h"
#include "engine/search/self_test.h"
#include "engine/search/verify.h"

namespace nearfield {
namespace {

using corpus::Corpus;
using corpus::Device;

constexpr int64_t kVerifyStagingBytes = 32 << 20;

class EngineCore final : public Engine {
 public:
  EngineCore(std::shared_ptr<Device> device, const EngineOptions& options, std::string note)
      : device_(std::move(device)),
        limits_({.k_max = options.k_max, .batch_max = options.batch_max}),
        ordinals_max_(options.ordinals_max),
        note_(std::move(note)) {}

  EngineInfo Info() const override {
    const backend::BackendInfo& info = device_->backend().info();
    return {.backend = info.kind,
            .device_name = info.device_name,
            .note = note_,
            .k_max = limits_.k_max,
            .batch_max = limits_.batch_max,
            .scan_dim_max = info.scan_dim_max,
            .read_bytes_per_second = info.read_bytes_per_second};
  }

  Capacity GetCapacity() const override {
    return {.device_bytes_total = device_->backend().device_bytes_total(),
            .device_bytes_used = device_->backend().device_bytes_used(),
            .host_bytes_total = device_->host().bytes_total(),
            .host_bytes_used = device_->host().bytes_used(),
            .host_rows_bytes_total = device_->backend().host_rows_bytes_total(),
            .host_rows_bytes_used = device_->backend().host_rows_bytes_used(),
            .devices = device_->backend().devices()};
  }

  absl::Status Health() const override { return device_->Check(); }

  using Engine::CreateCollection;
  absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec,
                                                               uint64_t epoch) override {
    ABSL_RETURN_IF_ERROR(device_->Check());
    ABSL_RETURN_IF_ERROR(corpus::CheckSpec(spec, device_->backend()));
    return std::shared_ptr<Collection>(Corpus::Make(spec, device_, epoch, ordinals_max_));
  }

  absl::StatusOr<SearchResult> Search(const Collection& collection,
                                      const SearchBatch& batch) override {
    ABSL_ASSIGN_OR_RETURN(const Corpus* corpus, Ready(collection));
    return CatchOutOfMemory([&] { return SearchCorpus(*corpus, limits_, batch); });
  }

  absl::StatusOr<DeviceSearchResult> SearchOnDevice(const Collection& collection,
                                                    const DeviceSearch& search) override {
    ABSL_ASSIGN_OR_RETURN(const Corpus* corpus, Ready(collection));
    return CatchOutOfMemory([&] { return SearchCorpusOnDevice(*corpus, limits_, search); });
  }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(int64_t bytes) override {
    ABSL_RETURN_IF_ERROR(device_->Check());
    return device_->backend().TakeDeviceMemory(bytes);
  }

  absl::StatusOr<VerifyResult> Verify(const Collection& collection, const Claim& claim,
                                      const std::function<bool()>& cancelled) override {
    ABSL_ASSIGN_OR_RETURN(const Corpus* corpus, Ready(collection));
    return CatchOutOfMemory(
        [&] { return VerifyClaim(*corpus, claim, limits_.k_max, kVerifyStagingBytes, cancelled); });
  }

  absl::Status SelfTest(uint64_t seed) override { return RunSelfTest(this, seed); }

 private:
  // Returns the corpus of `collection`, if this engine and this thread can search it.
  absl::StatusOr<const Corpus*> Ready(const Collection& collection) const {
    ABSL_RETURN_IF_ERROR(device_->Check());
    ABSL_RETURN_IF_ERROR(score::CheckArithmeticMode());
    const auto* corpus = dynamic_cast<const Corpus*>(&collection);
    if (corpus == nullptr || corpus->device() != device_) {
      return absl::InvalidArgumentError("collection: it belongs to another engine");
    }
    return corpus;
  }

  const std::shared_ptr<Device> device_;
  const SearchLimits limits_;
  const int64_t ordinals_max_;
  const std::string note_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(std::unique_ptr<backend::Backend> backend,
                                                   const EngineOptions& options, std::string note) {
  ABSL_RETURN_IF_ERROR(CheckOptions(options));
  ABSL_RETURN_IF_ERROR(score::CheckArithmeticMode());
  if (backend->info().k_max <= options.k_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("k_max = ", options.k_max, " is too large for a backend that returns ",
                     backend->info().k_max, " rows, one of them for a query by id"));
  }
  auto device = std::make_shared<Device>(std::move(backend), HostMemoryBytes(options));
  return std::unique_ptr<Engine>(new EngineCore(std::move(device), options, std::move(note)));
}

}  // namespace nearfield

#include "tests/testing/scripted_engine.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/engine_core.h"
#include "tests/testing/forwarding_collection.h"

namespace nearfield::testing {

namespace {

using Script = std::shared_ptr<EngineScript>;

class ScriptedUpload final : public Upload {
 public:
  ScriptedUpload(std::unique_ptr<Upload> upload, Script script)
      : upload_(std::move(upload)), script_(std::move(script)) {
    ++script_->uploads_open;
  }
  ~ScriptedUpload() override {
    upload_ = nullptr;  // releases its memory before the count falls
    --script_->uploads_open;
  }

  absl::Status Append(const UploadBlock& block) override {
    script_->append_gate.Pass();
    return upload_->Append(block);
  }
  absl::StatusOr<uint32_t> TakeOrdinals() override { return upload_->TakeOrdinals(); }
  using Upload::Commit;
  absl::StatusOr<CommitResult> Commit(const CommitHook& before_visible) override {
    script_->commit_gate.Pass();
    return upload_->Commit(before_visible);
  }

 private:
  std::unique_ptr<Upload> upload_;
  const Script script_;
};

class ScriptedCollection final : public ForwardingCollection {
 public:
  ScriptedCollection(std::shared_ptr<Collection> collection, Script script)
      : ForwardingCollection(std::move(collection)), script_(std::move(script)) {}

  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) override {
    ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload, target()->BeginUpload(reservation));
    return std::make_unique<ScriptedUpload>(std::move(upload), script_);
  }
  absl::StatusOr<RowFilter> RowsWithIds(const PinnedEpoch* at, const IdColumn& ids) const override {
    script_->filter_gate.Pass();
    return target()->RowsWithIds(at, ids);
  }

 private:
  const Script script_;
};

const Collection& Unwrapped(const Collection& collection) {
  return *static_cast<const ScriptedCollection&>(collection).target();
}

class ScriptedEngine final : public Engine {
 public:
  ScriptedEngine(std::unique_ptr<Engine> engine, Script script)
      : engine_(std::move(engine)), script_(std::move(script)) {}

  EngineInfo Info() const override {
    EngineInfo info = engine_->Info();
    info.read_bytes_per_second = static_cast<double>(script_->read_bytes_per_second);
    return info;
  }
  Capacity GetCapacity() const override { return engine_->GetCapacity(); }
  absl::Status Health() const override { return engine_->Health(); }

  using Engine::CreateCollection;
  absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec,
                                                               uint64_t epoch) override {
    ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection,
                          engine_->CreateCollection(spec, epoch));
    return std::make_shared<ScriptedCollection>(std::move(collection), script_);
  }

  absl::StatusOr<SearchResult> Search(const Collection& collection,
                                      const SearchBatch& batch) override {
    const int64_t number = ++script_->searches;
    script_->NoteBatch(static_cast<int64_t>(batch.queries.size()));
    SearchBatch heard = batch;
    if (script_->deaf_searches) heard.cancelled = nullptr;
    script_->search_gate.Pass(heard.cancelled);
    if (script_->lose_at_search == number) script_->device->Lose();
    absl::StatusOr<SearchResult> result = SearchNow(Unwrapped(collection), heard);
    if (absl::IsCancelled(result.status())) ++script_->cancelled_searches;
    if (!result.ok()) return result;
    result->cost.escalations = {.tighter = script_->escalations_tighter,
                                .canonical = script_->escalations_canonical};
    for (Neighbors& neighbors : result->queries) script_->Corrupt(&neighbors);
    return result;
  }

  absl::StatusOr<DeviceSearchResult> SearchOnDevice(const Collection& collection,
                                                    const DeviceSearch& search) override {
    return engine_->SearchOnDevice(Unwrapped(collection), search);
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(int64_t bytes) override {
    return engine_->TakeDeviceMemory(bytes);
  }

  absl::StatusOr<VerifyResult> Verify(const Collection& collection, const Claim& claim,
                                      const std::function<bool()>& cancelled) override {
    script_->verify_gate.Pass(cancelled);
    if (cancelled && cancelled()) return absl::CancelledError("cancelled");
    return engine_->Verify(Unwrapped(collection), claim, cancelled);
  }

  // Tests no search: every server of every test calls it.
  absl::Status SelfTest(uint64_t /*seed*/) override {
    script_->self_test_gate.Pass();
    if (script_->self_test_differs) return absl::DataLossError("a scripted difference");
    return Health();
  }

 private:
  absl::StatusOr<SearchResult> SearchNow(const Collection& collection, const SearchBatch& batch) {
    ABSL_RETURN_IF_ERROR(Health());
    if (batch.cancelled && batch.cancelled()) return absl::CancelledError("cancelled");
    return engine_->Search(collection, batch);
  }

  const std::unique_ptr<Engine> engine_;
  const Script script_;
};

}  // namespace

std::unique_ptr<Engine> MakeScriptedEngine(std::shared_ptr<EngineScript> script) {
  auto engine = MakeEngine(MakeFakeBackend(script->device),
                           {.host_memory_bytes = int64_t{256} << 20}, "for a test");
  return std::make_unique<ScriptedEngine>(*std::move(engine), std::move(script));
}

}  // namespace nearfield::testing

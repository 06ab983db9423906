#include "tests/fault/crash_session.h"

#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::fault {

CrashSession::CrashSession(SessionOptions options, CrashLog* log)
    : options_(std::move(options)), log_(log) {}

absl::Status CrashSession::Open() {
  ABSL_ASSIGN_OR_RETURN(store_, Counted([&, options = OptionsFor(options_.root + "/data")] {
                          return store::Store::Open(options);
                        }));
  for (int64_t lane = 0; lane < log_->lanes(); ++lane) {
    lanes_.push_back(std::make_unique<CrashLane>(options_, lane, store_.get(), log_, &gate_));
  }
  return absl::OkStatus();
}

Findings CrashSession::Check() {
  Findings findings;
  absl::Status verified = Counted([&] { return store_->Verify().status(); });
  if (!verified.ok() && options_.calls_may_fail) verified = store_->Verify().status();
  if (!verified.ok()) {
    findings.Add(&findings.lost, 1, absl::StrCat("verify: ", verified.ToString()));
    return findings;
  }
  Model expected = log_->model();
  const std::vector<Operation> in_flight = log_->InFlight();
  for (const Operation& operation : in_flight) {  // tokens that may exist
    if (operation.kind == Operation::Kind::kBegin) expected.Apply(operation);
  }
  absl::StatusOr<Model> found = Read(*store_, expected);
  if (!found.ok() && options_.calls_may_fail) found = Read(*store_, expected);
  if (!found.ok()) {
    findings.Add(&findings.lost, 1, absl::StrCat("load: ", found.status().ToString()));
    return findings;
  }
  std::vector<Operation> happened;
  findings = Compare(*found, log_->model(), in_flight, &happened);
  if (!findings.none()) return findings;
  for (const Operation& operation : happened) log_->Acknowledge(operation.number);
  for (const Operation& operation : log_->InFlight()) log_->Refuse(operation.number);
  if (const absl::Status resumed = ResumeAll(&findings); !resumed.ok()) {
    findings.Add(&findings.lost, 1, absl::StrCat("resume: ", resumed.ToString()));
  }
  if (const absl::Status checked = lanes_.front()->CheckSnapshots(&findings); !checked.ok()) {
    findings.Add(&findings.lost, 1, absl::StrCat("snapshots: ", checked.ToString()));
  }
  return findings;
}

absl::Status CrashSession::ResumeAll(Findings* findings) {
  for (const auto& [token, upload] : log_->model().uploads) {
    if (upload.state != store::UploadState::kOpen) continue;
    CrashLane& lane = *lanes_[static_cast<size_t>(upload.number % log_->lanes())];
    ABSL_RETURN_IF_ERROR(lane.Resume(upload, findings));
  }
  return absl::OkStatus();
}

absl::Status CrashSession::Run(int64_t steps) {
  std::vector<absl::Status> results(lanes_.size());
  std::atomic<bool> stopped{false};
  const auto drive = [&](size_t lane) {
    for (int64_t i = 0; i < steps && !stopped; ++i) {
      results[lane] = lanes_[lane]->Step();
      if (!results[lane].ok()) stopped = true;
    }
  };
  std::vector<std::thread> threads;
  for (size_t lane = 1; lane < lanes_.size(); ++lane) threads.emplace_back(drive, lane);
  drive(0);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) ABSL_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

void CrashSession::Close() {
  for (const std::unique_ptr<CrashLane>& lane : lanes_) lane->Close();
  lanes_.clear();
  const CountAllocations count;
  store_.reset();
}

}  // namespace nearfield::fault

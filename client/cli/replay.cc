#include "client/cli/replay.h"

#include "client/cli/audit_record.h"
#include "client/cli/json_output.h"
#include "client/cli/search_output.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/json_text.h"
#include "client/formats/mapped_file.h"

namespace nearfield::client {
namespace {

const char* Name(ReplayVerdict verdict) {
  switch (verdict) {
    case ReplayVerdict::kReproduced: return "reproduced";
    case ReplayVerdict::kNotReproduced: return "not reproduced";
    case ReplayVerdict::kOracleDiffers: return "the oracle differs";
    case ReplayVerdict::kUnknown: return "not checkable";
  }
  return "";
}

std::string Sentence(ReplayVerdict verdict) {
  switch (verdict) {
    case ReplayVerdict::kReproduced: return "reproduced: what the record says was wrong, was wrong";
    case ReplayVerdict::kNotReproduced: return "not reproduced: nothing is wrong with it here";
    case ReplayVerdict::kOracleDiffers:
      return "the oracle itself was wrong, or the rows had changed: its scores are not those of "
             "the record's rows";
    case ReplayVerdict::kUnknown: return "not checkable";
  }
  return "";
}

// Asks the server's oracle about the recorded answer.
absl::Status AskServer(const GlobalOptions& global, const AuditRecord& record, Replay* replay) {
  if (record.filtered && record.filter_text.empty()) {
    replay->findings.push_back("the record does not say what the filter was");
    return absl::OkStatus();
  }
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  VerifyClaim claim = {
      .k = record.answer.k, .epoch = record.epoch, .neighbors = &record.answer.neighbors};
  if (record.filtered) {
    std::vector<FilterArgument> arguments;
    for (const std::string& message : record.filter_args) {
      NF_ASSIGN_OR_RETURN(FilterArgument argument, FilterArgument::Parse(message));
      arguments.push_back(std::move(argument));
    }
    claim.filter = Filter(record.filter_text, std::move(arguments));
  }
  if (record.score_weight) {
    NF_ASSIGN_OR_RETURN(claim.terms, ParseTerms(record.terms));
  }
  claim.score_threshold = record.answer.score_threshold;
  claim.skip = record.skip;
  const absl::StatusOr<VerifyAnswer> check =
      client.Verify(record.spec.name, View(record.answer.query), claim);
  if (absl::IsFailedPrecondition(check.status()) || absl::IsNotFound(check.status())) {
    replay->findings.push_back(std::string(check.status().message()));
    return absl::OkStatus();
  }
  if (!check.ok()) return check.status();
  replay->verdict = check->equal ? ReplayVerdict::kNotReproduced : ReplayVerdict::kReproduced;
  replay->findings.push_back(Cat("the server: ", Verdict(*check)));
  return absl::OkStatus();
}

void PrintReplay(const GlobalOptions& global, const AuditRecord& record, const Replay& replay) {
  if (global.json) {
    Print(JsonObject()
              .Add("collection", record.spec.name)
              .Add("epoch", record.epoch)
              .Add("explanation", record.explanation)
              .AddJson("findings", JsonArray(replay.findings, QuoteJson))
              .Add("verdict", Name(replay.verdict)));
    return;
  }
  Print(Cat("collection ", Printable(record.spec.name), ", epoch ", record.epoch, ", found by ",
            Printable(record.found_by), " on ", Printable(record.backend), ", server ",
            Printable(record.server_version), "\n"));
  Print(Cat("recorded: ", Printable(record.explanation), "\n"));
  for (const std::string& finding : replay.findings) Print(Cat(Printable(finding), "\n"));
  Print(Cat(Sentence(replay.verdict), "\n"));
}

}  // namespace

absl::StatusOr<int> ReplayRecord(const GlobalOptions& global, const std::string& path) {
  NF_ASSIGN_OR_RETURN(const auto file, AsBadInput(MappedFile::Open(path)));
  const auto record = ParseAuditRecord(file.bytes().bytes);
  if (!record.ok()) return BadFile(path, "audit record", record.status().message());
  Replay replay = ReplayOffline(*record);
  if (replay.verdict == ReplayVerdict::kUnknown && record->of_answer) {
    NF_RETURN_IF_ERROR(AskServer(global, *record, &replay));
  }
  PrintReplay(global, *record, replay);
  return replay.verdict == ReplayVerdict::kNotReproduced ? kExitOk : kExitNegative;
}

}  // namespace nearfield::client

#include "client/cli/verify_replies.h"

#include <utility>

#include "client/cli/json_output.h"
#include "client/cli/logged_reply.h"
#include "client/cli/search_output.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/lines.h"
#include "client/formats/mapped_file.h"

namespace nearfield::client {
namespace {

struct RepliesTally {
  uint64_t checked = 0;
  uint64_t mismatches = 0;
  uint64_t damaged = 0;
  uint64_t not_checkable = 0;
  uint64_t rows_checked = 0;
  std::string first_reason;  // why the first of them was not checkable
};

class ReplyLog {
 public:
  ReplyLog(const GlobalOptions& global, Client& client) : global_(global), client_(client) {}

  // Errors: those of an invalid line, and of a server that does not answer.
  absl::Status CheckLine(const std::string& place, std::string_view line) {
    const absl::StatusOr<LoggedReply> reply = ParseLoggedReply(line);
    if (absl::IsDataLoss(reply.status())) {
      ++tally_.damaged;
      PrintFinding(place, "damaged", std::string(reply.status().message()));
      return absl::OkStatus();
    }
    NF_RETURN_IF_ERROR(reply.status());
    const absl::StatusOr<VerifyAnswer> check = Check(*reply);
    const bool gone =
        absl::IsFailedPrecondition(check.status()) || absl::IsNotFound(check.status());
    if (gone) {
      if (tally_.not_checkable++ == 0) tally_.first_reason = std::string(check.status().message());
      return absl::OkStatus();
    }
    NF_RETURN_IF_ERROR(check.status());
    ++tally_.checked;
    tally_.rows_checked += check->rows_checked;
    if (check->equal) return absl::OkStatus();
    ++tally_.mismatches;
    PrintFinding(place, "mismatch", Verdict(*check));
    return absl::OkStatus();
  }

  int Summary() const {
    if (global_.json) {
      Print(JsonObject()
                .Add("answers_checked", tally_.checked)
                .Add("mismatches", tally_.mismatches)
                .Add("damaged", tally_.damaged)
                .Add("not_checkable", tally_.not_checkable)
                .Add("rows_checked", tally_.rows_checked));
    } else {
      PrintText();
    }
    const bool wrong = tally_.mismatches + tally_.damaged > 0;
    const bool nothing_checked = tally_.checked == 0 && tally_.not_checkable > 0;
    return wrong || nothing_checked ? kExitNegative : kExitOk;
  }

 private:
  absl::StatusOr<VerifyAnswer> Check(const LoggedReply& reply) {
    VerifyClaim claim = {.k = reply.k, .epoch = reply.epoch, .neighbors = &reply.neighbors};
    claim.score_threshold = reply.score_threshold;
    if (!reply.filter.empty()) claim.filter = Filter(reply.filter);
    if (!reply.terms.empty()) {
      NF_ASSIGN_OR_RETURN(claim.terms, ParseTerms(reply.terms));
    }
    return client_.Verify(reply.collection, View(reply.query), claim);
  }

  void PrintFinding(const std::string& place, std::string_view what,
                    const std::string& text) const {
    if (global_.json) {
      Print(JsonObject().Add("line", place).Add("result", what).Add("explanation", text));
    } else {
      Print(Cat(place, ": ", Printable(text), "\n"));
    }
  }

  void PrintText() const {
    if (tally_.checked == 0) {
      Print("nothing verified: no answer could be checked\n");
    } else {
      Print(Cat(tally_.mismatches + tally_.damaged == 0 ? "verified: " : "MISMATCH: ",
                Grouped(tally_.checked - tally_.mismatches), " of ", Grouped(tally_.checked),
                " answers equal the oracle's, ids and score bits; ", Grouped(tally_.rows_checked),
                " rows scored\n"));
    }
    if (tally_.damaged > 0) {
      Print(Cat("damaged: ", Grouped(tally_.damaged), " lines do not fit their digests\n"));
    }
    if (tally_.not_checkable > 0) {
      Print(Cat("not checkable: ", Grouped(tally_.not_checkable),
                " answers, neither right nor wrong: ", Printable(tally_.first_reason), "\n"));
    }
  }

  const GlobalOptions& global_;
  Client& client_;
  RepliesTally tally_;
};

// Returns an error of the server with the line that it is about.
absl::Status AtLine(const std::string& path, const std::string& place, const absl::Status& status) {
  absl::Status placed(status.code(), Cat(path, ": ", place, ": ", status.message()));
  status.ForEachPayload([&placed](absl::string_view type, const absl::Cord& payload) {
    placed.SetPayload(type, payload);
  });
  return placed;
}

}  // namespace

absl::StatusOr<int> VerifyReplies(const GlobalOptions& global, const std::string& path) {
  NF_ASSIGN_OR_RETURN(const auto file, AsBadInput(MappedFile::Open(path)));
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  ReplyLog log(global, client);
  LineReader lines(file.bytes().bytes);
  for (std::string_view line; lines.Next(&line);) {
    if (line.empty()) continue;
    const absl::Status status = log.CheckLine(lines.place(), line);
    if (status.ok()) continue;
    const bool own = RequestIdOf(status).empty() && absl::IsInvalidArgument(status);
    return own ? BadFile(path, lines.place(), status.message())
               : AtLine(path, lines.place(), status);
  }
  return log.Summary();
}

}  // namespace nearfield::client

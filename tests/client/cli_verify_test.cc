// Tests of nearfield verify with logs of replies and audit records.

#include <string>

#include "nearfield/v1/admin.pb.h"
#include "tests/client/cli_fixture.h"

namespace nearfield::client {
namespace {

TEST_F(CliTest, ALogOfRepliesIsCheckedAtItsOwnEpoch) {
  Fill();
  const std::string log = folder_.path() + "/replies.jsonl";
  EXPECT_EQ(Run({"search", "docs", "--id", "a", "--record", log}).exit_code, 0);
  EXPECT_EQ(Run({"search", "docs", "--record", log}, "[[1, 2], [0, 1]]").exit_code, 0);
  EXPECT_THAT(Run({"verify", "--replies", log}), Prints(HasSubstr("verified: 3 of 3 answers")));
  server_.OnReply<v1::VerifyResponse>("Verify", [](auto* reply) {
    reply->set_equal(false);
    reply->set_first_difference(0);
  });
  EXPECT_THAT(Run({"verify", "--replies", log, "--json"}),
              FailsPrinting(1, AllOf(HasSubstr("\"line\":\"line 2\",\"result\":\"mismatch\""),
                                     HasSubstr("\"answers_checked\":3,\"mismatches\":3"))));
  server_.OnReply<v1::VerifyResponse>("Verify", [](auto*) {});
  const Refusal moved = {absl::FailedPreconditionError("epoch: the collection has moved on")};
  server_.Refuse("Verify", {moved});
  EXPECT_THAT(Run({"verify", "--replies", log}),
              Prints(AllOf(HasSubstr("2 of 2"), HasSubstr("not checkable: 1 answers"))));
  server_.Refuse("Verify", std::vector<Refusal>(1000, moved));
  EXPECT_THAT(Run({"verify", "--replies", log}),
              FailsPrinting(1, AllOf(StartsWith("nothing verified: no answer could be checked\n"),
                                     HasSubstr("not checkable: 3 answers"))));
  EXPECT_EQ(Run({"verify", "docs", "--replies", log}).exit_code, 2);
  EXPECT_THAT(Run({"verify", "--replies", folder_.Write("bad.jsonl", "\n{}\n")}),
              Fails(2, HasSubstr("bad.jsonl: line 2: member \"collection\": absent")));
}

// Regression: such a collection reports 0 rows, so verify called it empty and ended with 0, and
// drop reported 0 rows.
TEST_F(CliTest, ACollectionThatCouldNotBeLoadedIsNeitherEmptyNorVerified) {
  Fill();
  server_.OnReply<v1::GetCollectionResponse>("GetCollection", [](auto* reply) {
    reply->mutable_collection()->set_error("7.seg: damaged");
    reply->mutable_collection()->set_rows_count(0);
  });
  server_.Refuse("Count", {{absl::DataLossError("7.seg: damaged"), std::nullopt}});
  const Outcome verified = Run({"verify", "docs"});
  EXPECT_EQ(verified.exit_code, 3);
  EXPECT_THAT(verified.err, HasSubstr("DATA_LOSS: 7.seg: damaged (request"));
  EXPECT_THAT(verified.out, IsEmpty());
  EXPECT_EQ(Run({"collections", "drop", "docs", "--yes"}).out,
            "dropped docs; its rows could not be loaded, nor counted\n");
  Fill();
  EXPECT_EQ(Run({"collections", "drop", "docs", "--yes", "--json"}).out,
            "{\"name\":\"docs\",\"rows_count\":null}\n");
  server_.OnReply<v1::GetCollectionResponse>("GetCollection", [](auto*) {});
  Fill();
  EXPECT_EQ(Run({"collections", "drop", "docs", "--yes"}).out, "dropped docs and its 3 rows\n");
}

// Regression: with a sample of 0, a collection was reported to have no rows.
TEST_F(CliTest, ASampleOfNoRowIsRefused) {
  Fill();
  for (const std::string option : {"--sample", "-k"}) {
    for (const std::string value :
         {"0", "-1", "99999999999", "99999999999999999999999", "x", "1.5"}) {
      EXPECT_THAT(Run({"verify", "docs", option, value}),
                  Fails(2, HasSubstr(option + ": " + value + ", must be a whole number, 1 .. ")))
          << option << value;
    }
  }
}

TEST_F(CliTest, AnAuditRecordIsRepeatedWithoutAServer) {
  const std::string record = folder_.Write(
      "audit-1-1.json",
      R"({"format":"nearfield audit record 1","kind":"answer","server_version":"1","backend":"cpu",)"
      R"("found_by":"audit","epoch":3,"explanation":"place 0: ...","k":1,"skip":0,)"
      R"("collection":{"name":"docs","dim":1,"metric":"dot","dtype":"float32"},)"
      R"("query":{"values":"0000803f"},"rows":[{"id":7,"vector":"00000040"}],)"
      R"("answer":{"ids":[7],"score_bits":["40000001"]},)"
      R"("expected":{"ids":[7],"score_bits":["40000000"]}})");
  EXPECT_THAT(
      RunPlain({"--address", "127.0.0.1:1", "verify", "--replay", record}),
      FailsPrinting(1, AllOf(HasSubstr("0 of 1 scores equal"), HasSubstr("\nreproduced: "))));
  EXPECT_THAT(RunPlain({"verify", "--replay", record, "--json"}).out,
              HasSubstr("\"verdict\":\"reproduced\""));
  EXPECT_EQ(RunPlain({"verify", "--replay", folder_.path() + "/none"}).exit_code, 2);
}

}  // namespace
}  // namespace nearfield::client

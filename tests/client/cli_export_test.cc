// Tests `nearfield export` as a program: what it writes is read back by `nearfield upload`.
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/cli_fixture.h"

namespace nearfield::client {
namespace {

class CliExportTest : public CliTest {
 protected:
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  // Returns whether there is any file of an export that is not complete.
  bool HasPartialFile() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().find(".partial-") != std::string::npos) return true;
    }
    return false;
  }
  // Creates collection "wide": rows of dim 2 with large payloads, so that a scan has many pages.
  void FillWide() {
    std::string rows;
    for (int i = 0; i < 60; ++i) {
      rows += "{\"id\":" + std::to_string(i) + ",\"vector\":[" + std::to_string(i) +
              ",0.1],\"payload\":\"" + std::string(4000, 'p') + "\"}\n";
    }
    ASSERT_THAT(
        Run({"upload", "wide", folder_.Write("wide.jsonl", rows), "--create", "--metric", "dot"}),
        Prints(HasSubstr("uploaded 60 rows")));
  }
};

TEST_F(CliExportTest, AJsonlFileHasTheRowsAndTheCommandThatUploadsThem) {
  Fill();
  const std::string file = Path("out.jsonl");
  const Outcome exported = Run({"export", "docs", file});
  EXPECT_THAT(exported, Prints(AllOf(HasSubstr("exported 3 rows"), HasSubstr("epoch 1"),
                                     HasSubstr("nearfield upload docs " + file +
                                               " --create --metric dot --dtype float32"))));
  EXPECT_THAT(exported.err, HasSubstr("100%"));
  EXPECT_EQ(ReadAll(file),
            "{\"id\":\"a\",\"vector\":[1,0],\"payload\":{\"name\":\"one\",\"year\":1999}}\n"
            "{\"id\":\"b\",\"vector\":[0,1],\"payload\":{\"name\":\"two\"}}\n"
            "{\"id\":\"c\",\"vector\":[1,1],\"payload\":\"plain \\u001b[31m text\"}\n");
  EXPECT_FALSE(HasPartialFile());
  ASSERT_THAT(Run({"upload", "copy", file, "--create", "--metric", "dot"}),
              Prints(HasSubstr("uploaded 3 rows")));
  EXPECT_THAT(Run({"export", "copy", "-"}), Prints(ReadAll(file)));
}

TEST_F(CliExportTest, StandardOutputHasOnlyRows) {
  Fill();
  const Outcome exported = Run({"export", "docs", "-", "--filter", "id in (\"b\")", "--json"});
  EXPECT_THAT(exported, Prints("{\"id\":\"b\",\"vector\":[0,1],\"payload\":{\"name\":\"two\"}}\n"));
  EXPECT_THAT(exported.err, HasSubstr("\"rows_count\":1,\"epoch\":1"));
}

// The command that makes it again was an upload of the file, which has no dimension.
TEST_F(CliExportTest, AnEmptyCollectionIsAnEmptyFileAndIsMadeAgainByItsDeclaration) {
  const Arguments create = {"collections", "create",    "empty",   "--dim",   "2",
                            "--metric",    "dot",       "--dtype", "float16", "--id-type",
                            "string",      "--scan",    "auto",    "--rows",  "device",
                            "--attribute", "year:int64"};
  ASSERT_THAT(Run(create), Prints(HasSubstr("empty")));
  std::string command = "nearfield";
  for (const std::string& word : create) command += " " + word;
  EXPECT_THAT(Run({"export", "empty", Path("out.jsonl")}),
              Prints(AllOf(HasSubstr("exported 0 rows"), HasSubstr("again: " + command + "\n"))));
  EXPECT_EQ(ReadAll(Path("out.jsonl")), "");
}

TEST_F(CliExportTest, WrongUseWritesNothing) {
  Fill();
  EXPECT_THAT(Run({"export", "docs", Path("out")}), Fails(2, HasSubstr("must end in")));
  EXPECT_THAT(Run({"export", "docs", Path("out.csv")}), Fails(2, HasSubstr(".jsonl or .npy")));
  EXPECT_THAT(Run({"export", "docs", Path("out.fbin")}), Fails(2, HasSubstr(".jsonl or .npy")));
  EXPECT_THAT(Run({"export", "docs", Path("out.npy"), "--ids", Path("ids.npy")}),
              Fails(2, HasSubstr("let --ids end in .jsonl")));
  EXPECT_THAT(Run({"export", "absent", Path("out.jsonl")}), Fails(1, HasSubstr("absent")));
  EXPECT_THAT(Run({"export", "docs", Path("absent/out.jsonl")}), Fails(2, HasSubstr("absent/out")));
  EXPECT_THAT(Run({"export", "docs", Path("out.jsonl"), "--filter", "year =="}),
              Fails(3, HasSubstr("filter_text: column 1")));
  EXPECT_FALSE(HasPartialFile());
  EXPECT_FALSE(std::filesystem::exists(Path("out.jsonl")));
}

class CliExportPagesTest : public CliExportTest {
 protected:
  CliExportPagesTest() {
    server_.Set("response_bytes_max", "65536");
    server_.Set("payload_bytes_max", "8192");
  }
};

TEST_F(CliExportPagesTest, AnExportGoesOnAfterALostConnectionInTheSameEpoch) {
  FillWide();
  const std::string whole = Run({"export", "wide", "-"}).out;
  server_.OnReply<v1::ScanResponse>(
      "Scan", [pages = 0](const auto*) mutable -> std::optional<Refusal> {
        if (++pages == 2) return Refusal{absl::UnavailableError("broken"), std::nullopt, true};
        return std::nullopt;
      });
  EXPECT_THAT(Run({"export", "wide", Path("out.jsonl")}), Prints(HasSubstr("exported 60 rows")));
  EXPECT_EQ(server_.calls("Scan"), 3);  // with that of `whole`
  EXPECT_EQ(ReadAll(Path("out.jsonl")), whole);
}

TEST_F(CliExportPagesTest, AnExportWhoseEpochIsGoneLeavesTheOldFile) {
  FillWide();
  const std::string file = folder_.Write("out.jsonl", "old");
  server_.OnReply<v1::ScanResponse>(
      "Scan", [pages = 0](const auto*) mutable -> std::optional<Refusal> {
        if (++pages < 2) return std::nullopt;
        return Refusal{absl::FailedPreconditionError("epoch 1 of the scan is kept no longer")};
      });
  const Outcome failed = Run({"export", "wide", file});
  EXPECT_THAT(failed, Fails(3, AllOf(HasSubstr("epoch 1 of the scan is kept no longer"),
                                     HasSubstr("no file was written"))));
  EXPECT_EQ(ReadAll(file), "old");
  EXPECT_FALSE(HasPartialFile());
}

}  // namespace
}  // namespace nearfield::client

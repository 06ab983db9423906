// Tests of `nearfield upload`: the collection that it creates, checks before the first row, pipes.
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "nearfield/client/client.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/upload_script.h"

namespace nearfield::client {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

class CliUploadTest : public CliTest {
 protected:
  // Returns an upload that creates collection "c" from `file`, and further arguments.
  Outcome Create(const std::string& file, const Arguments& more = {}) {
    return Run(Plus({"upload", "c", file, "--create", "--metric", "dot"}, more));
  }
  bool Exists(const std::string& name) { return Run({"collections", "show", name}).exit_code == 0; }

  const std::string two_rows_ = folder_.Write("two.fbin", Fbin(2, 1, {1, 2}));
};

// Regression: all rows of a binary file were sent before a bad one was found, and the empty
// collection blocked the next try.
TEST_F(CliUploadTest, ABadRowOfABinaryFileIsFoundBeforeAnythingIsSent) {
  const std::string rows = folder_.Write("r.fbin", Fbin(2, 2, {1, 2, 3, kInfinite}));
  EXPECT_THAT(Create(rows), Fails(2, HasSubstr("r.fbin: row 1: element 1 is infinite or NaN")));
  EXPECT_FALSE(Exists("c"));
  EXPECT_EQ(server_.calls("Upload"), 0);
  EXPECT_THAT(Run({"upload", "none", rows}), Fails(1, HasSubstr("--create")));
}

TEST_F(CliUploadTest, ACollectionThatAFailedUploadCreatedIsDroppedAgain) {
  server_.Refuse("Upload", {{absl::ResourceExhaustedError("full")}});
  EXPECT_THAT(Create(two_rows_), Fails(3, AllOf(HasSubstr("full"), HasSubstr("dropped again"))));
  EXPECT_FALSE(Exists("c"));
  EXPECT_THAT(Create(two_rows_), Prints(HasSubstr("uploaded 2 rows")));
}

// Regression: Ctrl-C left an empty collection, which blocked the next try.
TEST_F(CliUploadTest, ACollectionThatAnInterruptedUploadCreatedIsDroppedAgain) {
  const auto interrupt_once = [this, first = true](const auto*) mutable {
    if (std::exchange(first, false)) Interrupt(SIGTERM);
  };
  const auto is_dropped =
      Fails(128 + SIGTERM, AllOf(HasSubstr("interrupted"), HasSubstr("dropped again")));
  server_.OnReply<v1::CreateCollectionResponse>("CreateCollection", interrupt_once);
  EXPECT_THAT(Create(two_rows_), is_dropped);
  EXPECT_FALSE(Exists("c"));
  server_.OnReply<v1::UploadResponse>("Upload", interrupt_once);
  EXPECT_THAT(Create(two_rows_), is_dropped);
  EXPECT_FALSE(Exists("c"));
  EXPECT_THAT(Create(two_rows_), Prints(HasSubstr("uploaded 2 rows")));
}

TEST_F(CliUploadTest, ACollectionOfAnotherUploadIsNotDropped) {
  ASSERT_EQ(Create(two_rows_).exit_code, 0);
  server_.Refuse("Upload", {{absl::ResourceExhaustedError("full")}});
  EXPECT_EQ(Create(two_rows_, {"--if-missing"}).exit_code, 3);
  EXPECT_EQ(Run({"count", "c"}).out, "2\n");
}

// A second client commits rows to the collection while the upload that created it fails.
TEST_F(CliUploadTest, ACollectionThatHasACommitIsNotDropped) {
  const std::string rows = folder_.Write("r.jsonl", "{\"vector\":[1]}\n{\"vector\":[2]}\n");
  server_.OnReply<v1::UploadResponse>(
      "Upload", [this, rows, first = true](const auto*) mutable -> std::optional<Refusal> {
        if (!std::exchange(first, false)) return std::nullopt;
        EXPECT_EQ(Run({"upload", "c", rows}).exit_code, 0);
        return Refusal{absl::ResourceExhaustedError("full")};
      });
  EXPECT_EQ(Create(two_rows_).exit_code, 3);
  EXPECT_EQ(Run({"count", "c"}).out, "2\n");
}

// A second client is still sending its rows to the collection while the first one fails.
TEST_F(CliUploadTest, ACollectionWithAnOpenUploadIsNotDropped) {
  std::optional<Client> other;
  std::optional<Upload> upload;
  server_.OnReply<v1::UploadResponse>("Upload", [&](const auto*) -> std::optional<Refusal> {
    if (other) return std::nullopt;
    other = *Client::Connect({.address = server_.address()});
    upload = other->BeginUpload({.collection = "c", .rows_max = 1}).value();
    return Refusal{absl::ResourceExhaustedError("full")};
  });
  EXPECT_THAT(Create(two_rows_),
              Fails(3, AllOf(HasSubstr("full"), HasSubstr("has an open upload"))));
  EXPECT_TRUE(Exists("c"));
}

TEST_F(CliUploadTest, AnUploadWithATokenThatMayGoOnKeepsItsCollection) {
  server_.KeepData();
  server_.OnReply<v1::UploadResponse>(
      "Upload", [](const auto*) { return Refusal{absl::UnavailableError("later")}; });
  EXPECT_THAT(Create(two_rows_, {"--token", "t", "--timeout", "2"}),
              Fails(3, HasSubstr("repeat the same command")));
  EXPECT_TRUE(Exists("c"));
}

TEST_F(CliUploadTest, IfMissingAcceptsTheSameDeclarationAndNamesTheFieldThatDiffers) {
  const Arguments year = {"--if-missing", "--mode", "upsert", "--attribute", "year:int64"};
  EXPECT_THAT(Create(two_rows_, year), Prints(HasSubstr("uploaded 2 rows")));
  EXPECT_THAT(Create(two_rows_, year), Prints(HasSubstr("in the place of 2 rows")));
  EXPECT_THAT(Create(two_rows_), Fails(3, HasSubstr("ALREADY_EXISTS")));
  const std::string wide = folder_.Write("wide.fbin", Fbin(1, 2, {1, 2}));
  EXPECT_THAT(Create(wide, year), Fails(2, HasSubstr("dim 2, collection c has dim 1")));
  EXPECT_THAT(Create(two_rows_, {"--if-missing"}),
              Fails(2, HasSubstr("collection c exists with attributes year:int64, this upload "
                                 "declares none")));
  EXPECT_THAT(Create(two_rows_, Plus(year, {"--scan", "int8"})),
              Fails(2, HasSubstr("with scan auto, this upload declares int8")));
  EXPECT_THAT(Create(two_rows_, Plus(year, {"--embedding-model", "m"})),
              Fails(2, HasSubstr("with embedding model , this upload declares m")));
  EXPECT_THAT(Run({"upload", "c", two_rows_, "--embedding-model", "m"}),
              Fails(2, HasSubstr("--embedding-model declare")));
  EXPECT_THAT(Run({"upload", "c", two_rows_, "--create", "--metric", "l2", "--if-missing"}),
              Fails(2, HasSubstr("with metric dot, this upload declares l2")));
  EXPECT_THAT(Run({"upload", "c", two_rows_, "--if-missing"}), Fails(2, HasSubstr("--create")));
  EXPECT_EQ(Run({"count", "c"}).out, "2\n");
}

TEST_F(CliUploadTest, ZeroRowsOfACosineCollectionAreReported) {
  const std::string binary = folder_.Write("z.fbin", Fbin(3, 2, {0, -0.0F, 1, 2, 0, 0}));
  const std::string text = folder_.Write("z.jsonl", "{\"vector\":[0,0]}\n{\"vector\":[0,1]}\n");
  EXPECT_THAT(Run({"upload", "a", binary, "--create", "--metric", "cosine"}).err,
              HasSubstr("z.fbin: 2 rows have only zeros: with metric cosine they score -inf"));
  EXPECT_THAT(Run({"upload", "b", text, "--create", "--metric", "cosine"}).err,
              HasSubstr("z.jsonl: 1 rows have only zeros"));
  EXPECT_THAT(Run({"upload", "c", binary, "--create", "--metric", "dot"}).err,
              Not(HasSubstr("zeros")));
}

TEST_F(CliUploadTest, RowsComeFromStandardInput) {
  const std::string rows = "{\"id\":\"a\",\"vector\":[1,0]}\n{\"id\":\"b\",\"vector\":[0,1]}\n";
  const Arguments create = {"--create", "--metric", "dot"};
  EXPECT_THAT(Run(Plus({"upload", "a", "-"}, create), rows), Prints(HasSubstr("uploaded 2 rows")));
  EXPECT_THAT(Run(Plus({"upload", "b", "/dev/stdin"}, create), rows),
              Prints(HasSubstr("uploaded 2 rows")));
  const std::string npy =
      Npy(NpyHeaderText("<f2", "(2, 2)"), std::string("\0\x3c\0\0\0\0\0\x3c", 8));
  EXPECT_THAT(Run(Plus({"upload", "d", "-", "--format", "npy"}, create), npy),
              Prints(HasSubstr("uploaded 2 rows")));
  const Arguments csv = {"upload", "f", "-", "--format", "csv", "--id-type", "uint64"};
  EXPECT_THAT(Run(Plus(csv, create), "id,vector\n7,\"[1,0]\"\n8,\"[0,1]\"\n"),
              Prints(HasSubstr("uploaded 2 rows")));
  EXPECT_THAT(Run({"fetch", "f", "8", "--json"}), Prints(HasSubstr("\"id\":8")));
  EXPECT_THAT(Run(Plus({"upload", "e", "-"}, create), npy),
              Fails(2, HasSubstr("give --format npy")));
  EXPECT_THAT(Run(Plus({"upload", "e", "-"}, create), ""), Fails(2, HasSubstr("holds no row")));
}

TEST_F(CliUploadTest, FormatsThatAreNotReadNameTheWayToOneThatIs) {
  for (const auto& [name, advice] : std::vector<std::pair<std::string, std::string>>{
           {"x.parquet",
            "the Python client reads them: collection.upload('x.parquet'); for queries"},
           {"x.hdf5", "h5py"},
           {"x.npz", "numpy.load"}}) {
    EXPECT_THAT(Create(folder_.Write(name, "?")), Fails(2, HasSubstr(advice))) << name;
  }
  EXPECT_THAT(Create(folder_.Write("x.bin", "?")), Fails(2, HasSubstr("give --format")));
}

}  // namespace
}  // namespace nearfield::client

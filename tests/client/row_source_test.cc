#include "client/formats/row_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "client/formats/id_file.h"
#include "client/formats/query_set.h"
#include "tests/client/prelude.h"
#include "tests/client/test_files.h"

namespace nearfield::client {
namespace {

// Reads all rows of a source into one batch; checks that the columns of each batch agree.
RowBatch ReadAll(RowSource& source, uint64_t bytes_max) {
  RowBatch all{.ids = EmptyIds(source.shape().id_type), .vectors = {}, .payloads = {}};
  const uint64_t row_bytes = source.shape().dim * ElementBytes(source.shape().dtype);
  for (RowBatch batch;;) {
    EXPECT_OK(source.Next(bytes_max, &batch));
    const size_t rows = Count(batch.ids);
    EXPECT_EQ(batch.vectors.size(), rows * row_bytes);
    if (rows == 0) return all;
    EXPECT_TRUE(batch.payloads.empty() || batch.payloads.size() == rows);
    // The batch has no row beyond the one that reached the limit.
    EXPECT_TRUE(rows == 1 || (rows - 1) * row_bytes < bytes_max);
    for (size_t i = 0; i < rows; ++i) Append(At(batch.ids, i), &all.ids);
    all.vectors += batch.vectors;
    all.payloads.insert(all.payloads.end(), batch.payloads.begin(), batch.payloads.end());
  }
}

// A pipe that already holds its text.
class FilledPipe {
 public:
  explicit FilledPipe(std::string_view text) {
    EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends_[1]);
  }
  FilledPipe(const FilledPipe&) = delete;
  FilledPipe& operator=(const FilledPipe&) = delete;
  ~FilledPipe() { close(ends_[0]); }

  // Returns its name, in the form of bash's <(command).
  std::string path() const { return Cat("/dev/fd/", ends_[0]); }

 private:
  std::array<int, 2> ends_ = {};
};

uint64_t TotalBytes(const std::vector<std::string>& texts) {
  uint64_t total = 0;
  for (const std::string& text : texts) total += text.size();
  return total;
}

class RowSources : public ::testing::Test {
 protected:
  absl::Status OpenStatus(RowSourceOptions options) { return OpenRowSource(options).status(); }

  TempFolder folder_;
  const std::vector<float> values_ = {1, 2, 3, 4, 5, 6};
  const std::string vectors_ = folder_.Write("v.fbin", Fbin(3, 2, values_));
};

// Every batch size yields the same rows, and they match the shape.
TEST_F(RowSources, AnyBatchSizeGivesTheSameRows) {
  const std::string payloads =
      folder_.Write("p.jsonl", "{\"id\": \"c\"}\n{\"id\":\"b\", \"n\": 1}\r\n{\"id\":\"a\"}");
  const std::string rows = folder_.Write(
      "r.jsonl",
      "{\"id\":\"c\",\"vector\":[1,2],\"payload\":\"x\"}\n"
      "{\"id\":\"b\",\"vector\":[3,4]}\n{\"id\":\"a\",\"vector\":[5,6],\"payload\":[1]}\n");
  const std::string table =
      folder_.Write("r.csv", "id,payload,vector\nc,x,\"[1,2]\"\nb,,\"[3,4]\"\na,[1],\"[5,6]\"\n");
  for (const RowSourceOptions& options :
       {RowSourceOptions{.path = vectors_, .payloads_path = payloads, .id_field = "id"},
        RowSourceOptions{.path = rows}, RowSourceOptions{.path = table}}) {
    for (uint64_t bytes_max = 1; bytes_max < 64; ++bytes_max) {
      ASSERT_OK_AND_ASSIGN(const auto source, OpenRowSource(options));
      EXPECT_EQ(source->shape().rows_count, 3u);
      EXPECT_EQ(source->shape().dim, 2u);
      const RowBatch all = ReadAll(*source, bytes_max);
      EXPECT_EQ(all.ids, IdColumn(std::vector<std::string>{"c", "b", "a"}));
      EXPECT_EQ(all.vectors, Bytes(values_));
      EXPECT_EQ(TotalBytes(all.payloads), source->shape().payload_bytes);
    }
  }
}

TEST_F(RowSources, RewindBeginsAgain) {
  const std::string payloads = folder_.Write("p.jsonl", "{\"id\":7}\n{\"id\":8}\n{\"id\":9}\n");
  const std::string rows = folder_.Write("r.jsonl", "{\"vector\":[1]}\n{\"vector\":[2]}\n");
  const std::string table = folder_.Write("r.csv", "id,vector\n7,[1]\n8,[2]\n");
  for (const RowSourceOptions& options :
       {RowSourceOptions{.path = vectors_, .payloads_path = payloads, .id_field = "id"},
        RowSourceOptions{.path = rows},
        RowSourceOptions{.path = table, .id_type = IdType::kUint64}}) {
    ASSERT_OK_AND_ASSIGN(const auto source, OpenRowSource(options));
    const RowBatch first = ReadAll(*source, 1);
    source->Rewind();
    RowBatch part;
    ASSERT_OK(source->Next(1, &part));
    source->Rewind();
    const RowBatch again = ReadAll(*source, 1);
    EXPECT_EQ(again.ids, first.ids);
    EXPECT_EQ(again.vectors, first.vectors);
    EXPECT_EQ(again.payloads, first.payloads);
  }
}

TEST_F(RowSources, StandardInputIsReadForOneFileOnly) {
  EXPECT_THAT(OpenRowSource({.path = "-", .payloads_path = "/dev/stdin"}),
              StatusIs(kInvalidArgument, HasSubstr("standard input is given for two files")));
}

TEST_F(RowSources, EveryFileMayBeAPipe) {
  const std::string attributes_csv = "year\n1\n\n3\n";
  const std::string attributes_json = "{\"year\":1}\n{}\n{\"year\":3}\n";
  for (const std::string& attributes : {attributes_csv, attributes_json}) {
    const FilledPipe vectors(Npy(NpyHeaderText("<f4", "(3, 2)"), Bytes(values_)));
    const FilledPipe ids("7\n8\n9\n");
    const FilledPipe payloads("{\"a\":1}\n{}\n{\"a\":3}\n");
    const FilledPipe years(attributes);
    ASSERT_OK_AND_ASSIGN(const auto source,
                         OpenRowSource({.path = vectors.path(),
                                        .format = FileFormat::kNpy,
                                        .id_type = IdType::kUint64,
                                        .ids_path = ids.path(),
                                        .payloads_path = payloads.path(),
                                        .attributes = {{"year", AttributeType::kInt64}},
                                        .attributes_path = years.path()}));
    EXPECT_THAT(source->shape().rows_with_attribute, ElementsAre(2));
    const RowBatch all = ReadAll(*source, 1000);
    EXPECT_EQ(all.ids, IdColumn(std::vector<uint64_t>{7, 8, 9}));
    EXPECT_EQ(all.vectors, Bytes(values_));
    EXPECT_THAT(all.payloads, ElementsAre("{\"a\":1}", "{}", "{\"a\":3}"));
  }
  const FilledPipe ids(Npy(NpyHeaderText("<u8", "(2,)"), Bytes(std::vector<uint64_t>{5, 6})));
  EXPECT_THAT(ReadIds(ids.path(), IdType::kUint64),
              IsOkAndHolds(IdColumn(std::vector<uint64_t>{5, 6})));
}

TEST_F(RowSources, RowsWithoutIdsAreNumberedFromZero) {
  ASSERT_OK_AND_ASSIGN(auto source, OpenRowSource({.path = vectors_}));
  EXPECT_EQ(ReadAll(*source, 1).ids, IdColumn(std::vector<uint64_t>{0, 1, 2}));
  const std::string rows = folder_.Write("r.jsonl", "{\"vector\":[1]}\n{\"vector\":[2]}\n");
  ASSERT_OK_AND_ASSIGN(source, OpenRowSource({.path = rows}));
  EXPECT_EQ(ReadAll(*source, 1).ids, IdColumn(std::vector<uint64_t>{0, 1}));
}

// The command refused lines without JSON, which the Python client skips, also one at the end.
TEST_F(RowSources, LinesWithoutJsonAreSkippedInEveryFile) {
  const std::string rows = folder_.Write(
      "r.jsonl",
      "\xef\xbb\xbf\n{\"vector\":[1,2]}\n \t\r\n{\"vector\":[3,4]}\n{\"vector\":[5,6]}\n\n");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenRowSource({.path = rows}));
  for (int time = 0; time < 2; ++time) {
    const RowBatch all = ReadAll(*source, 1);
    EXPECT_EQ(all.ids, IdColumn(std::vector<uint64_t>{0, 1, 2}));
    EXPECT_EQ(all.vectors, Bytes(values_));
    source->Rewind();
  }
  const std::string ids = folder_.Write("ids.jsonl", "\"a\"\n\n\"b\"\n\"c\"\n\n");
  const std::string payloads = folder_.Write("p.jsonl", "1\n\n2\n3\n");
  const std::string attributes = folder_.Write("a.jsonl", "\n{\"year\":1}\n\n{}\n{\"year\":3}\n");
  ASSERT_OK_AND_ASSIGN(const auto binary,
                       OpenRowSource({.path = vectors_,
                                      .ids_path = ids,
                                      .payloads_path = payloads,
                                      .attributes = {{"year", AttributeType::kInt64}},
                                      .attributes_path = attributes}));
  const RowBatch all = ReadAll(*binary, 1000);
  EXPECT_EQ(all.ids, IdColumn(std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(all.payloads, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_THAT(binary->shape().rows_with_attribute, ElementsAre(2));
}

TEST_F(RowSources, AFileOfUtf16IsNamedAsSuch) {
  for (const std::string name : {"r.jsonl", "r.csv"}) {
    const std::string rows = folder_.Write(name, std::string("\xff\xfe{\0", 4));
    EXPECT_THAT(OpenStatus({.path = rows}),
                StatusIs(kInvalidArgument, HasSubstr(name + ": line 1: the text is UTF-16")));
  }
}

TEST_F(RowSources, PayloadsAreStoredCompactWithTheirOwnSpelling) {
  const std::string rows = folder_.Write("r.jsonl",
                                         "{\"vector\":[1],\"payload\":{ \"z\": 1.0, \"a\": \"x y\" "
                                         "}}\n{\"vector\":[2],\"payload\":\"plain\"}\n");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenRowSource({.path = rows}));
  EXPECT_THAT(ReadAll(*source, 1 << 20).payloads,
              ElementsAre("{\"z\":1.0,\"a\":\"x y\"}", "plain"));
}

TEST_F(RowSources, IdsComeFromTextJsonlAndNpy) {
  const auto ids_of = [&](const std::string& name, const std::string& bytes,
                          std::optional<IdType> type) {
    return ReadIds(folder_.Write(name, bytes), type);
  };
  const IdColumn numbers = std::vector<uint64_t>{7, 8, ~uint64_t{0}};
  const std::string text = "7\n8\n18446744073709551615\n";
  EXPECT_EQ(*ids_of("i.txt", text, IdType::kUint64), numbers);
  EXPECT_EQ(*ids_of("i.txt", text, IdType::kString),
            IdColumn(std::vector<std::string>{"7", "8", "18446744073709551615"}));
  EXPECT_EQ(*ids_of("i.jsonl", text, std::nullopt), numbers);
  EXPECT_EQ(*ids_of("i.npy", Npy(NpyHeaderText("<u8", "(3,)"), Bytes(std::get<0>(numbers))),
                    std::nullopt),
            numbers);
  EXPECT_EQ(*ids_of("i.npy", Npy(NpyHeaderText("<i8", "(1,)"), Bytes(std::vector<int64_t>{5})),
                    IdType::kUint64),
            IdColumn(std::vector<uint64_t>{5}));
}

TEST_F(RowSources, BadIdFilesAreRefusedByLine) {
  const auto status_of = [&](const std::string& name, const std::string& bytes,
                             std::optional<IdType> type) {
    return ReadIds(folder_.Write(name, bytes), type).status();
  };
  EXPECT_THAT(status_of("i.txt", "1\nx\n", IdType::kUint64),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("i.txt"), HasSubstr("line 2"), HasSubstr("\"x\""))));
  EXPECT_THAT(status_of("i.txt", "a\n\nb\n", IdType::kString),
              StatusIs(kInvalidArgument, HasSubstr("line 2")));
  EXPECT_THAT(status_of("i.jsonl", "1\n\"a\"\n", std::nullopt),
              StatusIs(kInvalidArgument, HasSubstr("line 2")));
  EXPECT_THAT(status_of("i.jsonl", "1\n", IdType::kString),
              StatusIs(kInvalidArgument, HasSubstr("line 1")));
  EXPECT_THAT(status_of("i.npy", Npy(NpyHeaderText("<i8", "(1,)"), Bytes(std::vector<int64_t>{-5})),
                        std::nullopt),
              StatusIs(kInvalidArgument, HasSubstr("-5")));
  EXPECT_FALSE(status_of("i.npy",
                         Npy(NpyHeaderText("<u8", "(4,)"), Bytes(std::vector<uint64_t>{5})),
                         std::nullopt)
                   .ok());
  EXPECT_FALSE(status_of("i.npy", Npy(NpyHeaderText("<f8", "(1,)"), Bytes(std::vector<double>{5})),
                         std::nullopt)
                   .ok());
  EXPECT_FALSE(status_of("i.npy",
                         Npy(NpyHeaderText("<u8", "(1,)"), Bytes(std::vector<uint64_t>{5})),
                         IdType::kString)
                   .ok());
}

TEST_F(RowSources, FilesThatDisagreeAreRefused) {
  const std::string two = folder_.Write("two.txt", "a\nb\n");
  EXPECT_THAT(
      OpenStatus({.path = vectors_, .ids_path = two}),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("two.txt"), HasSubstr("2"), HasSubstr("3 rows"))));
  const std::string payloads = folder_.Write("p.jsonl", "{}\n{}\n{}\n{}\n");
  EXPECT_THAT(OpenStatus({.path = vectors_, .payloads_path = payloads}),
              StatusIs(kInvalidArgument, HasSubstr("4")));
  EXPECT_FALSE(OpenStatus({.path = vectors_, .payloads_path = payloads, .id_field = "id"}).ok());
  EXPECT_FALSE(OpenStatus({.path = vectors_, .id_field = "id"}).ok());
  // Numbers as ids do not fit a collection of strings.
  EXPECT_THAT(OpenStatus({.path = vectors_, .id_type = IdType::kString}),
              StatusIs(kInvalidArgument, HasSubstr("--ids")));
  EXPECT_THAT(OpenStatus({.path = folder_.Write("e.fbin", Fbin(0, 2, {}))}),
              StatusIs(kInvalidArgument, HasSubstr("no row")));
  EXPECT_THAT(OpenStatus({.path = folder_.Write("e.jsonl", "")}),
              StatusIs(kInvalidArgument, HasSubstr("no row")));
}

TEST_F(RowSources, ABadLineOfRowsIsFoundAtOpening) {
  const auto status_of = [&](const std::string& second) {
    return OpenStatus(
        {.path = folder_.Write("r.jsonl", "{\"id\":1,\"vector\":[1,2]}\n" + second + "\n")});
  };
  EXPECT_OK(status_of("{\"id\":2,\"vector\":[1,2]}"));
  // The error of a collection of another dimension named no row.
  EXPECT_THAT(OpenStatus({.path = folder_.path() + "/r.jsonl", .dim = 3}),
              StatusIs(kInvalidArgument,
                       HasSubstr("r.jsonl: line 1: vector has 2 values, the collection needs 3")));
  for (const std::string second :
       {"{\"id\":2,\"vector\":[1]}", "{\"vector\":[1,2]}", "{\"id\":\"a\",\"vector\":[1,2]}",
        "{\"id\":2,\"vector\":[1,2]", "{\"id\":2,\"vector\":[1,2],\"x\":0}"}) {
    EXPECT_THAT(status_of(second),
                StatusIs(kInvalidArgument, AllOf(HasSubstr("r.jsonl"), HasSubstr("line 2"))))
        << second;
  }
}

TEST_F(RowSources, RowsOfTextAreRoundedToTheStoredType) {
  for (const std::string& rows : {folder_.Write("r.jsonl", "{\"vector\":[0.1, 65504]}\n"),
                                  folder_.Write("r.csv", "id,vector\n0,\"[0.1, 65504]\"\n")}) {
    ASSERT_OK_AND_ASSIGN(const auto source,
                         OpenRowSource({.path = rows, .dtype = DataType::kFloat16}));
    EXPECT_EQ(source->shape().dtype, DataType::kFloat16);
    const RowBatch all = ReadAll(*source, 1 << 20);
    EXPECT_THAT(Widen(DataType::kFloat16, all.vectors), ElementsAre(0.0999755859375f, 65504.0f));
  }
  const std::string large = folder_.Write("l.jsonl", "{\"vector\":[1]}\n{\"vector\":[1e5]}\n");
  EXPECT_THAT(OpenStatus({.path = large, .dtype = DataType::kFloat16}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("line 2"), HasSubstr("float16"))));
}

TEST(Queries, JsonInEveryShape) {
  const auto vectors_of = [](std::string_view text) {
    return ParseQueries({.name = "in", .bytes = text});
  };
  const std::string a = Bytes(std::vector<float>{1, 2});
  const std::string b = Bytes(std::vector<float>{3, 4});
  EXPECT_THAT(vectors_of("[1, 2]")->vectors, ElementsAre(a));
  EXPECT_THAT(vectors_of("[\n1,\n2\n]\n")->vectors, ElementsAre(a));
  EXPECT_THAT(vectors_of("[[1, 2], [3, 4]]")->vectors, ElementsAre(a, b));
  EXPECT_THAT(vectors_of("[1,2]\n[3,4]\n")->vectors, ElementsAre(a, b));
  EXPECT_THAT(vectors_of("{\"vector\":[1,2],\"text\":\"q\"}\n[3,4]")->vectors, ElementsAre(a, b));
  for (const std::string option : {"k", "filter", "score_threshold"}) {  // they were dropped
    EXPECT_THAT(vectors_of("{\"vector\":[1,2],\"" + option + "\":1}"),
                StatusIs(kInvalidArgument, HasSubstr(option)));
  }
  EXPECT_THAT(vectors_of("[1,2]\n[3,x]\n"), StatusIs(kInvalidArgument, HasSubstr("line 2")));
  for (const std::string_view text :
       {"", "\n", "[]", "[[]]", "[[1],2]", "7", "{}", "[null]", "[\"a\"]"}) {
    EXPECT_THAT(vectors_of(text), StatusIs(kInvalidArgument, HasSubstr("in: "))) << text;
  }
}

TEST(Queries, OneRowOrAll) {
  const TempFolder folder;
  const std::string file = folder.Write("q.fvecs", Fvecs({{1, 2}, {3, 4}}));
  EXPECT_EQ(ReadQueries({.path = file})->vectors.size(), 2u);
  ASSERT_OK_AND_ASSIGN(const auto second, ReadQueries({.path = file, .row = 1}));
  EXPECT_EQ(second.first_row, 1u);
  EXPECT_THAT(second.vectors, ElementsAre(Bytes(std::vector<float>{3, 4})));
  EXPECT_THAT(ReadQueries({.path = file, .row = 2}),
              StatusIs(kInvalidArgument, HasSubstr("row 2")));
  const std::string lines = folder.Write("q.jsonl", "[1,2]\n[3,4]\n");
  EXPECT_THAT(ReadQueries({.path = lines, .row = 1})->vectors,
              ElementsAre(Bytes(std::vector<float>{3, 4})));
  EXPECT_FALSE(ReadQueries({.path = lines, .row = 2}).ok());
}

}  // namespace
}  // namespace nearfield::client

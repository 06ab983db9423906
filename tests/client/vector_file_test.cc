#include "client/formats/vector_file.h"

#include <limits>
#include <random>

#include "client/formats/npy.h"
#include "tests/client/prelude.h"
#include "tests/client/test_files.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

absl::StatusOr<VectorLayout> Layout(const std::string& bytes, FileFormat format,
                                    std::optional<DataType> dtype = std::nullopt) {
  return ParseLayout({.name = "in", .bytes = bytes}, format, dtype);
}

std::string Rows(const std::string& bytes, const VectorLayout& layout, uint64_t begin,
                 uint64_t end) {
  std::string rows;
  EXPECT_OK(AppendRows({.name = "in", .bytes = bytes}, layout, begin, end, &rows));
  return rows;
}

// The same rows in every format that can hold them.
struct Sample {
  std::vector<std::vector<float>> rows;
  std::string flat;  // as bytes
  std::vector<float> values;
};

Sample RandomSample(std::mt19937_64& random, size_t rows_count, size_t dim) {
  Sample sample;
  std::normal_distribution<float> normal;
  for (size_t row = 0; row < rows_count; ++row) {
    std::vector<float>& values = sample.rows.emplace_back(dim);
    for (float& value : values) value = normal(random);
    sample.values.insert(sample.values.end(), values.begin(), values.end());
  }
  sample.flat = Bytes(sample.values);
  return sample;
}

TEST(VectorFile, EveryFormatGivesBackItsRowsBitForBit) {
  std::mt19937_64 random(testing::TestSeed());
  for (const auto& [rows_count, dim] : {std::pair(1, 1), std::pair(7, 3), std::pair(5, 384)}) {
    const auto n = static_cast<size_t>(rows_count);
    const auto d = static_cast<size_t>(dim);
    const Sample sample = RandomSample(random, n, d);
    const std::string shape = "(" + std::to_string(n) + ", " + std::to_string(d) + ")";
    const std::vector<std::pair<FileFormat, std::string>> files = {
        {FileFormat::kNpy, Npy(NpyHeaderText("<f4", shape), sample.flat, 1)},
        {FileFormat::kNpy, Npy(NpyHeaderText("<f4", shape), sample.flat, 2)},
        {FileFormat::kNpy, Npy(NpyHeaderText("<f4", shape), sample.flat, 3)},
        {FileFormat::kFbin, Fbin(rows_count, dim, sample.values)},
        {FileFormat::kFvecs, Fvecs(sample.rows)}};
    for (const auto& [format, bytes] : files) {
      SCOPED_TRACE(static_cast<int>(format));
      ASSERT_OK_AND_ASSIGN(const auto layout, Layout(bytes, format));
      EXPECT_EQ(layout.rows_count, n);
      EXPECT_EQ(layout.dim, d);
      EXPECT_EQ(layout.dtype, DataType::kFloat32);
      EXPECT_EQ(Rows(bytes, layout, 0, n), sample.flat);
      const size_t cut = n / 2;
      EXPECT_EQ(Rows(bytes, layout, 0, cut) + Rows(bytes, layout, cut, n), sample.flat);
    }
  }
}

// A truncated file, or one with an extra byte, is never read as a shorter or longer one.
TEST(VectorFile, EveryOtherLengthIsRefused) {
  const Sample sample = {.rows = {{1, 2, 3}, {4, 5, 6}}, .flat = {}, .values = {1, 2, 3, 4, 5, 6}};
  const std::string npy = Npy(NpyHeaderText("<f4", "(2, 3)"), Bytes(sample.values));
  const std::string fbin = Fbin(2, 3, sample.values);
  for (size_t length = 0; length < npy.size(); ++length) {
    EXPECT_THAT(Layout(npy.substr(0, length), FileFormat::kNpy),
                StatusIs(kInvalidArgument, StartsWith("in: ")));
  }
  for (size_t length = 0; length < fbin.size(); ++length) {
    EXPECT_THAT(Layout(fbin.substr(0, length), FileFormat::kFbin),
                StatusIs(kInvalidArgument, StartsWith("in: ")));
  }
  EXPECT_FALSE(Layout(npy + "x", FileFormat::kNpy).ok());
  EXPECT_FALSE(Layout(fbin + "x", FileFormat::kFbin).ok());
  // An .fvecs file has no row count: only the length of whole rows can be checked.
  const std::string fvecs = Fvecs(sample.rows);
  for (size_t length = 0; length < fvecs.size(); ++length) {
    EXPECT_EQ(Layout(fvecs.substr(0, length), FileFormat::kFvecs).ok(), length == fvecs.size() / 2);
  }
}

TEST(Npy, HeadersThatLieAreRefused) {
  const auto status_of = [](const std::string& descr, const std::string& shape) {
    return Layout(Npy(NpyHeaderText(descr, shape), std::string(24, '\0')), FileFormat::kNpy)
        .status();
  };
  EXPECT_OK(status_of("<f4", "(2, 3)"));
  // 2^32 * 2^32 * 4 overflows to 0; 2^62 rows of 4 bytes overflow too.
  for (const std::string shape :
       {"(4294967296, 4294967296)", "(4611686018427387904, 1)", "(18446744073709551615, 3)",
        "(99999999999999999999, 3)", "(2, 4294967296)", "(2, 0)", "(-2, 3)", "(2, 4)", "(3, 3)",
        "()", "(6,)", "(1, 2, 3)", "(2 3)", "2, 3", "(2, 3"}) {
    EXPECT_THAT(status_of("<f4", shape), StatusIs(kInvalidArgument)) << shape;
  }
}

TEST(Npy, OtherElementTypesAreRefusedWithAdvice) {
  const auto status_of = [](const std::string& descr) {
    return Layout(Npy(NpyHeaderText(descr, "(1, 2)"), std::string(8, '\0')), FileFormat::kNpy)
        .status();
  };
  EXPECT_THAT(status_of(">f4"),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("big-endian"), HasSubstr("astype"))));
  EXPECT_THAT(status_of("<f8"), StatusIs(kInvalidArgument, HasSubstr("<f8")));
  EXPECT_THAT(status_of("|O"), StatusIs(kInvalidArgument, HasSubstr("|O")));
  EXPECT_THAT(status_of("<u2"), StatusIs(kInvalidArgument, HasSubstr("--dtype bfloat16")));
  const std::string records = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }";
  EXPECT_THAT(Layout(Npy(records, std::string(8, '\0')), FileFormat::kNpy),
              StatusIs(kInvalidArgument, HasSubstr("structured")));
}

TEST(Npy, FortranOrderIsRefused) {
  const std::string file = Npy(NpyHeaderText("<f4", "(2, 3)", true), std::string(24, '\0'));
  EXPECT_THAT(Layout(file, FileFormat::kNpy), StatusIs(kInvalidArgument, HasSubstr("Fortran")));
}

TEST(Npy, BFloat16IsReadOnlyWhereTheCallerNamesIt) {
  for (const std::string descr : {"<u2", "|V2", "<V2"}) {
    const std::string file = Npy(NpyHeaderText(descr, "(2, 3)"), std::string(12, 'x'));
    ASSERT_OK_AND_ASSIGN(const auto layout, Layout(file, FileFormat::kNpy, DataType::kBFloat16));
    EXPECT_EQ(layout.dtype, DataType::kBFloat16);
    EXPECT_FALSE(Layout(file, FileFormat::kNpy).ok());
  }
  const std::string halves = Npy(NpyHeaderText("<f2", "(2, 3)"), std::string(12, 'x'));
  EXPECT_FALSE(Layout(halves, FileFormat::kNpy, DataType::kBFloat16).ok());
  EXPECT_EQ(Layout(halves, FileFormat::kNpy)->dtype, DataType::kFloat16);
}

TEST(Npy, MalformedHeadersNameTheByte) {
  for (const std::string text :
       {"", "{", "{}", "{'descr': '<f4'}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (1, 2)}",
        "{'descr': '<f4', 'fortran_order': false, 'shape': (1, 2)}", "['descr']",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} more",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), 'other': 1}"}) {
    EXPECT_THAT(Layout(Npy(text, std::string(8, '\0')), FileFormat::kNpy),
                StatusIs(kInvalidArgument, StartsWith("in: ")))
        << text;
  }
  EXPECT_FALSE(
      Layout(Npy(NpyHeaderText("<f4", "(1, 2)"), std::string(8, '\0'), 4), FileFormat::kNpy).ok());
}

TEST(Fbin, WrongByteOrderIsRecognised) {
  std::string file = Fbin(__builtin_bswap32(2), __builtin_bswap32(3), {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Layout(file, FileFormat::kFbin), StatusIs(kInvalidArgument, HasSubstr("big-endian")));
}

TEST(Fbin, ImpossibleHeadersAreRefused) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  for (const auto& [rows, dim] :
       {std::pair(-1, 3), std::pair(2, 0), std::pair(2, -3), std::pair(kMax, kMax), std::pair(3, 2),
        std::pair(1 << 30, 1 << 30)}) {
    if (rows == 3 && dim == 2) continue;  // the same number of values: legal
    EXPECT_FALSE(Layout(Fbin(rows, dim, {1, 2, 3, 4, 5, 6}), FileFormat::kFbin).ok())
        << rows << " " << dim;
  }
  EXPECT_FALSE(Layout(Fbin(2, 3, {1, 2, 3, 4, 5, 6}), FileFormat::kFbin, DataType::kFloat16).ok());
}

TEST(Fvecs, ARowOfAnotherDimensionIsNamed) {
  const std::string file = Fvecs({{1, 2, 3}, {4, 5, 6}}) + Bytes(std::vector<int32_t>{2}) +
                           Bytes(std::vector<float>{7, 8, 9});
  ASSERT_OK_AND_ASSIGN(const auto layout, Layout(file, FileFormat::kFvecs));
  std::string rows;
  EXPECT_THAT(AppendRows({.name = "in", .bytes = file}, layout, 0, 3, &rows),
              StatusIs(kInvalidArgument, HasSubstr("row 2")));
}

TEST(VectorFile, OpensFilesAndNamesWhatItCannotOpen) {
  const TempFolder folder;
  const std::string path = folder.Write("a.fbin", Fbin(2, 1, {1, 2}));
  ASSERT_OK_AND_ASSIGN(const auto file, VectorFile::Open(path, FileFormat::kFbin, std::nullopt));
  std::string rows;
  ASSERT_OK(file.AppendRows(1, 2, &rows));
  EXPECT_EQ(rows, Bytes(std::vector<float>{2}));
  EXPECT_THAT(VectorFile::Open(folder.path() + "/none.npy", FileFormat::kNpy, std::nullopt),
              StatusIs(kNotFound, HasSubstr("none.npy")));
  EXPECT_THAT(VectorFile::Open(folder.path(), FileFormat::kNpy, std::nullopt),
              StatusIs(kInvalidArgument, HasSubstr("neither a regular file nor a pipe")));
  EXPECT_FALSE(
      VectorFile::Open(folder.Write("empty.npy", ""), FileFormat::kNpy, std::nullopt).ok());
}

TEST(VectorFile, EveryNonFiniteElementIsFound) {
  const TempFolder folder;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (size_t at = 0; at < 6; ++at) {
      std::vector<float> values = {1, -2, 3.4e38F, 0, -1e-45F, 6};
      values[at] = bad;
      const std::string fvecs = Fvecs({{values[0], values[1], values[2]},  //
                                       {values[3], values[4], values[5]}});
      for (const auto& [name, bytes] :
           {std::pair("a.fbin", Fbin(2, 3, values)), std::pair("a.fvecs", fvecs)}) {
        const std::string path = folder.Write(name, bytes);
        ASSERT_OK_AND_ASSIGN(const auto file,
                             VectorFile::Open(path, *FormatOf(path), std::nullopt));
        const std::string place = Cat("row ", at / 3, ": element ", at % 3, " is infinite or NaN");
        EXPECT_THAT(file.CheckRows(), StatusIs(kInvalidArgument, HasSubstr(place)));
      }
    }
  }
}

TEST(VectorFile, HalvesAreCheckedAndZeroRowsCounted) {
  const TempFolder folder;
  const auto check = [&](DataType dtype, const std::vector<uint16_t>& words) {
    const std::string descr = dtype == DataType::kFloat16 ? "<f2" : "<u2";
    const std::string path = folder.Write(
        "a.npy", Npy(NpyHeaderText(descr, Cat("(", words.size() / 2, ", 2)")), Bytes(words)));
    return VectorFile::Open(path, FileFormat::kNpy, dtype)->CheckRows();
  };
  EXPECT_THAT(check(DataType::kFloat16, {0, 0x8000, 0x7bff, 0xfbff, 0, 1}), IsOkAndHolds(1u));
  EXPECT_THAT(check(DataType::kBFloat16, {0, 0, 0x7c00, 0x7f7f, 0x8000, 0}), IsOkAndHolds(2u));
  EXPECT_THAT(check(DataType::kFloat16, {0, 0, 0, 0x7c00}),
              StatusIs(kInvalidArgument, HasSubstr("row 1: element 1")));
  EXPECT_THAT(check(DataType::kBFloat16, {0xff80, 0}),
              StatusIs(kInvalidArgument, HasSubstr("row 0: element 0")));
}

TEST(VectorFile, TheFormatFollowsFromTheName) {
  EXPECT_EQ(*FormatOf("a/b.npy"), FileFormat::kNpy);
  EXPECT_EQ(*FormatOf("b.fbin"), FileFormat::kFbin);
  EXPECT_EQ(*FormatOf("b.fvecs"), FileFormat::kFvecs);
  EXPECT_EQ(*FormatOf("b.jsonl"), FileFormat::kJsonl);
  EXPECT_EQ(*FormatOf("b.csv"), FileFormat::kCsv);
  EXPECT_THAT(Layout("1,2\n", FileFormat::kCsv),
              StatusIs(kInvalidArgument, HasSubstr("not a file of vectors")));
  EXPECT_EQ(*FormatOf("-"), FileFormat::kJsonl);
  EXPECT_EQ(*FormatOf("/dev/fd/63"), FileFormat::kJsonl);
  EXPECT_THAT(FormatOf("/dev/shm/x.parquet"), StatusIs(kInvalidArgument, HasSubstr(".parquet")));
  EXPECT_EQ(*FormatOf("-", FileFormat::kNpy), FileFormat::kNpy);
  EXPECT_THAT(FormatOf("b.bin"), StatusIs(kInvalidArgument, HasSubstr("--format")));
}

}  // namespace
}  // namespace nearfield::client

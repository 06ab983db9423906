// Tests files of exported rows: the readers of an upload get the same rows back, to the bit.
#include "client/cli/row_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/formats/jsonl.h"
#include "client/formats/row_source.h"
#include "tests/client/prelude.h"
#include "tests/client/test_files.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

using nearfield::testing::Random;
using nearfield::testing::TestSeed;
using std::literals::operator""s;

constexpr DataType kDataTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};
constexpr uint32_t kDim = 3;

std::vector<AttributeSpec> AllAttributes() {
  std::vector<AttributeSpec> specs;
  for (const AttributeType type :
       {AttributeType::kInt64, AttributeType::kDouble, AttributeType::kBool,
        AttributeType::kKeyword, AttributeType::kTimestamp}) {
    specs.push_back({Cat(Name(type), "_value"), type, false});
    specs.push_back({Cat(Name(type), "_list"), type, true});
  }
  return specs;
}

// Texts that a form of the files could damage.
const std::vector<std::string>& IdTexts() {
  static const std::vector<std::string> texts = {"plain",
                                                 " ",
                                                 "\n",
                                                 "a\r\nb",
                                                 "\"quoted\"",
                                                 "null",
                                                 "true",
                                                 "-0",
                                                 "1e999",
                                                 "12",
                                                 "1.50",
                                                 "{}",
                                                 "[]",
                                                 "{\"a\":1}",
                                                 "{ \"a\": 1}",
                                                 "{\"a\":1}\n",
                                                 "{\"a\":\"\\u00e9\"}",
                                                 "{\"$base64\":\"AAAA\"}",
                                                 "{\"$base64\":\"!\"}",
                                                 "{\"$base64\":5}",
                                                 "{\"$base64\":\"\",\"b\":1}",
                                                 "\"{\\\"$base64\\\":\\\"AAAA\\\"}\"",
                                                 "\xef\xbb\xbf",
                                                 "\xef\xbb\xbf{}",
                                                 "gr\xc3\xbc\xc3\x9f",
                                                 "\xe2\x80\xa8",
                                                 "\x7f",
                                                 "\0"s,
                                                 "a\0b"s,
                                                 "{\"a\":1,\"a\":2}",
                                                 "[1,\"x y\",{\"z\":null}]"};
  return texts;
}
// Bytes that are not UTF-8.
const std::vector<std::string>& Blobs() {
  static const std::vector<std::string> blobs = {"\xff", "\0\xff"s,   "{\"a\":\"\xff\"}",
                                                 "\xc3", "\x93NUMPY", "\xed\xa0\x80"};
  return blobs;
}

class RowFilesTest : public ::testing::Test {
 protected:
  AttributeValue DrawValue(AttributeType type) {
    switch (type) {
      case AttributeType::kInt64:
        return static_cast<int64_t>(random_.Bits() >> random_.Between(0, 64));
      case AttributeType::kDouble: {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        const double values[] = {0.0,
                                 -0.0,
                                 kInfinity,
                                 -kInfinity,
                                 5e-324,
                                 -1.7976931348623157e308,
                                 0.1,
                                 random_.Unit() * 1e-300,
                                 random_.Unit() * 1e20};
        return values[random_.Between(0, std::size(values))];
      }
      case AttributeType::kBool: return random_.OneIn(2);
      case AttributeType::kKeyword:
        return random_.OneIn(4) ? "" : random_.OneOf<std::string>(IdTexts());
      default: {
        const int64_t us = static_cast<int64_t>(random_.Bits()) >> random_.Between(0, 64);
        return Timestamp(std::chrono::microseconds(us));
      }
    }
  }

  std::vector<AttributeColumn> DrawAttributes(const std::vector<AttributeSpec>& specs,
                                              size_t rows_count) {
    std::vector<AttributeColumn> columns;
    for (const AttributeSpec& spec : specs) {
      AttributeColumnBuilder builder(spec);
      for (size_t row = 0; row < rows_count; ++row) {
        if (random_.OneIn(3)) {
          builder.AddMissing();
        } else if (spec.is_list) {
          std::vector<AttributeValue> values;
          for (int64_t i = random_.Between(0, 4); i > 0; --i)
            values.push_back(DrawValue(spec.type));
          EXPECT_OK(builder.AddList(values));
        } else {
          EXPECT_OK(builder.Add(DrawValue(spec.type)));
        }
      }
      if (builder.rows_with_value() > 0) columns.push_back(builder.Take());
    }
    return columns;
  }

  // Returns bytes of a finite row.
  std::string DrawVectors(DataType dtype, size_t rows_count) {
    std::string bytes;
    while (bytes.size() < rows_count * kDim * ElementBytes(dtype)) {
      const uint64_t bits = random_.OneIn(8) ? uint64_t{1} << 63 : random_.Bits();
      const std::string element(reinterpret_cast<const char*>(&bits) + 8 - ElementBytes(dtype),
                                ElementBytes(dtype));
      if (std::isfinite(Widen(dtype, element)[0])) bytes += element;
    }
    return bytes;
  }

  ScanPage DrawPage(const CollectionSpec& spec, size_t rows_count) {
    ScanPage page;
    page.ids = EmptyIds(spec.id_type);
    for (size_t row = 0; row < rows_count; ++row) {
      if (spec.id_type == IdType::kUint64) {
        Append(Id(random_.OneIn(4) ? ~uint64_t{0} - row : row), &page.ids);
      } else {
        Append(Id(Cat(random_.OneOf<std::string>(IdTexts()), row)), &page.ids);
      }
      const int64_t what = random_.Between(0, 4);
      page.payloads.push_back(what == 0   ? std::string()
                              : what == 1 ? random_.OneOf<std::string>(Blobs())
                                          : random_.OneOf<std::string>(IdTexts()));
    }
    page.vectors = {.dtype = spec.dtype, .bytes = DrawVectors(spec.dtype, rows_count)};
    page.attributes = DrawAttributes(spec.attributes, rows_count);
    return page;
  }

  // Writes two pages and reads them as an upload does.
  void ExpectSameAfterUpload(const RowFilesOptions& files, const CollectionSpec& spec) {
    SCOPED_TRACE(Cat(files.path, " ", files.ids_path, " ", Name(spec.dtype)));
    ASSERT_OK(CheckRowFiles(files, spec));
    const std::vector<ScanPage> pages = {DrawPage(spec, 20), DrawPage(spec, 1)};
    ASSERT_OK_AND_ASSIGN(const auto writer, CreateRowFiles(files, spec, 21));
    for (const ScanPage& page : pages) ASSERT_OK(writer->Write(page));
    ASSERT_OK(writer->Publish());
    ASSERT_OK_AND_ASSIGN(const auto source,
                         OpenRowSource({.path = files.path,
                                        .format = files.format,
                                        .dtype = spec.dtype,
                                        .id_type = spec.id_type,
                                        .ids_path = files.ids_path,
                                        .payloads_path = files.payloads_path,
                                        .attributes = spec.attributes,
                                        .attributes_path = files.attributes_path}));
    ASSERT_EQ(source->shape().rows_count, 21u);
    RowBatch batch;
    ASSERT_OK(source->Next(1 << 20, &batch));
    size_t row = 0;
    AttributeRows read(batch.attributes);
    for (const ScanPage& page : pages) {
      AttributeRows written(page.attributes);
      for (size_t i = 0; i < Count(page.ids); ++i, ++row) {
        EXPECT_EQ(At(batch.ids, row), At(page.ids, i));
        EXPECT_EQ(batch.payloads[row], page.payloads[i]);
        EXPECT_EQ(read.Next(), written.Next());
      }
    }
    EXPECT_EQ(batch.vectors, pages[0].vectors.bytes + pages[1].vectors.bytes);
  }

  // Reads columns row by row, as bits: -0 differs from 0.
  class AttributeRows {
   public:
    explicit AttributeRows(const std::vector<AttributeColumn>& columns)
        : columns_(columns), present_(columns.size()), value_(columns.size()) {}
    using Values = std::vector<std::string>;
    std::vector<std::pair<std::string, Values>> Next() {
      std::vector<std::pair<std::string, Values>> row;
      for (size_t i = 0; i < columns_.size(); ++i) {
        const AttributeColumn& column = columns_[i];
        if (!column.presence.empty() && !column.presence[row_]) continue;
        const size_t place = present_[i]++;
        const size_t count = column.list_sizes.empty() ? 1 : column.list_sizes[place];
        row.emplace_back(column.attribute, Values());
        for (size_t k = 0; k < count; ++k) row.back().second.push_back(BitsOf(column, value_[i]++));
      }
      ++row_;
      return row;
    }

   private:
    static std::string BitsOf(const AttributeColumn& column, size_t i) {
      return std::visit(
          [i](const auto& values) -> std::string {
            using Value = typename std::decay_t<decltype(values)>::value_type;
            const Value value = values.at(i);
            if constexpr (std::is_same_v<Value, std::string>) {
              return value;
            } else {
              return {reinterpret_cast<const char*>(&value), sizeof value};
            }
          },
          column.values);
    }

    const std::vector<AttributeColumn>& columns_;
    std::vector<size_t> present_;
    std::vector<size_t> value_;
    size_t row_ = 0;
  };

  std::string Path(const std::string& name) const { return Cat(folder_.path(), "/", name); }
  std::vector<std::string> FileNames() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  Random random_{TestSeed()};
  TempFolder folder_;
};

TEST_F(RowFilesTest, EveryRowOfAJsonlFileComesBackToTheBit) {
  for (int round = 0; round < testing::RandomRounds(100); ++round) {
    const CollectionSpec spec = {.name = "c",
                                 .dim = kDim,
                                 .dtype = kDataTypes[round % 3],
                                 .id_type = round % 2 == 0 ? IdType::kUint64 : IdType::kString,
                                 .attributes = AllAttributes()};
    ExpectSameAfterUpload({.path = Path("rows.jsonl")}, spec);
    if (HasFailure()) return;
  }
}

TEST_F(RowFilesTest, EveryRowOfANpyFileAndItsCompanionsComesBackToTheBit) {
  for (int round = 0; round < testing::RandomRounds(100); ++round) {
    const bool texts = round % 2 == 1;
    const CollectionSpec spec = {.name = "c",
                                 .dim = kDim,
                                 .dtype = kDataTypes[round % 3],
                                 .id_type = texts ? IdType::kString : IdType::kUint64,
                                 .attributes = AllAttributes()};
    for (const char* ids : {"ids.jsonl", "ids.npy", "ids.txt"}) {
      if (texts && ids != std::string("ids.jsonl")) continue;
      ExpectSameAfterUpload({.path = Path("rows.npy"),
                             .format = FileFormat::kNpy,
                             .ids_path = Path(ids),
                             .payloads_path = Path("payloads.jsonl"),
                             .attributes_path = Path("attributes.jsonl")},
                            spec);
    }
    if (HasFailure()) return;
  }
}

TEST_F(RowFilesTest, EveryPayloadHasOneLineOfJsonThatIsStoredAsItsBytes) {
  EXPECT_EQ(PayloadJson("{\"a\":1}"), "{\"a\":1}");
  EXPECT_EQ(PayloadJson("12"), "12");
  EXPECT_EQ(PayloadJson("plain"), "\"plain\"");
  EXPECT_EQ(PayloadJson("null"), "\"null\"");
  EXPECT_EQ(PayloadJson("{ }"), "\"{ }\"");
  EXPECT_EQ(PayloadJson("\xff"), "{\"$base64\":\"/w==\"}");
  EXPECT_EQ(PayloadJson("{\"$base64\":\"/w==\"}"), "\"{\\\"$base64\\\":\\\"/w==\\\"}\"");
  EXPECT_THAT(PayloadBytes(" { \"$base64\" : \"/w==\" } "), IsOkAndHolds("\xff"));
  EXPECT_THAT(PayloadBytes("{\"$base64\":\"/w==\",\"a\":1}"),
              IsOkAndHolds("{\"$base64\":\"/w==\",\"a\":1}"));
  EXPECT_THAT(PayloadBytes("{\"$base64\":7}"), IsOkAndHolds("{\"$base64\":7}"));
  EXPECT_THAT(PayloadBytes("{\"$base64\":\"!\"}"),
              StatusIs(kInvalidArgument, HasSubstr("payload: \"!\" is not base64")));
  for (const auto* all : {&IdTexts(), &Blobs()}) {
    for (const std::string& bytes : *all) {
      EXPECT_THAT(PayloadBytes(PayloadJson(bytes)), IsOkAndHolds(bytes));
      EXPECT_EQ(PayloadJson(bytes).find('\n'), std::string::npos) << bytes;
    }
  }
}

TEST_F(RowFilesTest, AnIdThatATextCannotHoldIsRefused) {
  const CollectionSpec spec = {.name = "c", .dim = 1, .id_type = IdType::kString};
  for (const std::string id : {"a\nb", "a\r", "\xef\xbb\xbfx"}) {
    const RowFilesOptions files = {
        .path = Path("rows.npy"), .format = FileFormat::kNpy, .ids_path = Path("ids.txt")};
    ASSERT_OK_AND_ASSIGN(const auto writer, CreateRowFiles(files, spec, 1));
    ScanPage page;
    page.ids = std::vector<std::string>{id};
    page.vectors.bytes = std::string(4, '\0');
    EXPECT_THAT(writer->Write(page),
                StatusIs(kInvalidArgument, HasSubstr("let --ids end in .jsonl")));
  }
}

// Returns whether the file system has files without names, so that a process that is killed leaves
// nothing.
bool HasFilesWithoutNames(const std::string& folder) {
  const int fd = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

TEST_F(RowFilesTest, FilesHaveTheirNamesOnlyAfterPublish) {
  const CollectionSpec spec = {.name = "c", .dim = 1};
  const RowFilesOptions files = {.path = folder_.Write("rows.npy", "old"),
                                 .format = FileFormat::kNpy,
                                 .ids_path = Path("ids.npy"),
                                 .payloads_path = Path("payloads.jsonl")};
  {
    ASSERT_OK_AND_ASSIGN(const auto writer, CreateRowFiles(files, spec, 0));
    EXPECT_THAT(FileNames(), SizeIs(HasFilesWithoutNames(folder_.path()) ? 1 : 4));
    EXPECT_FALSE(std::filesystem::exists(files.ids_path));
    EXPECT_EQ(std::filesystem::file_size(files.path), 3u);
  }
  EXPECT_THAT(FileNames(), ElementsAre("rows.npy"));
  ASSERT_OK_AND_ASSIGN(const auto writer, CreateRowFiles(files, spec, 0));
  ASSERT_OK(writer->Publish());
  EXPECT_THAT(FileNames(),
              ::testing::UnorderedElementsAre("rows.npy", "ids.npy", "payloads.jsonl"));
  EXPECT_GT(std::filesystem::file_size(files.path), 3u);
}

TEST_F(RowFilesTest, FilesThatCannotBeWrittenAreRefused) {
  const CollectionSpec spec = {.name = "c", .dim = 1, .id_type = IdType::kString};
  const auto check = [&](const RowFilesOptions& files) { return CheckRowFiles(files, spec); };
  const auto refused = [](const char* text) { return StatusIs(kInvalidArgument, HasSubstr(text)); };
  EXPECT_THAT(check({.path = "a.fbin", .format = FileFormat::kFbin}), refused(".jsonl or .npy"));
  EXPECT_THAT(check({.path = "a.jsonl", .ids_path = "b"}), refused("carries its own ids"));
  EXPECT_THAT(check({.path = "-", .format = FileFormat::kNpy}), refused("standard output"));
  EXPECT_THAT(check({.path = "a.npy", .format = FileFormat::kNpy, .ids_path = "a.npy"}),
              refused("a.npy: given for two files"));
  EXPECT_THAT(check({.path = "a.npy", .format = FileFormat::kNpy, .ids_path = "b.npy"}),
              refused("holds numbers"));
  for (const char* name : {"id", "vector", "payload"}) {
    const CollectionSpec taken = {.name = "c", .attributes = {{name, AttributeType::kInt64}}};
    EXPECT_THAT(CheckRowFiles({.path = "a.jsonl"}, taken), refused("with --attributes FILE"));
    EXPECT_OK(CheckRowFiles({.path = "a.npy", .format = FileFormat::kNpy}, taken));
  }
  EXPECT_THAT(CreateRowFiles({.path = folder_.path()}, spec, 0), refused("no regular file"));
  EXPECT_THAT(CreateRowFiles({.path = Path("absent/rows.jsonl")}, spec, 0),
              StatusIs(kNotFound, HasSubstr("absent/rows.jsonl")));
}

TEST_F(RowFilesTest, TheCommandThatMakesItAgainHasTheDeclaration) {
  const CollectionSpec spec = {.name = "c",
                               .dim = 2,
                               .metric = Metric::kCosine,
                               .dtype = DataType::kBFloat16,
                               .id_type = IdType::kString,
                               .scan = ScanChoice::kInt8,
                               .rows = RowPlacement::kHost,
                               .attributes = {{"tags", AttributeType::kKeyword, true}},
                               .embedding_model = "some/model"};
  EXPECT_EQ(CommandToMakeAgain({.path = "it's.npy", .ids_path = "ids.jsonl"}, spec, 1),
            "nearfield upload c 'it'\\''s.npy' --ids ids.jsonl --create --metric cosine --dtype "
            "bfloat16 --id-type string --scan int8 --rows host --attribute 'tags:keyword[]' "
            "--embedding-model some/model");
  EXPECT_EQ(CommandToMakeAgain({.path = "empty.jsonl"}, spec, 0),
            "nearfield collections create c --dim 2 --metric cosine --dtype bfloat16 --id-type "
            "string --scan int8 --rows host --attribute 'tags:keyword[]' "
            "--embedding-model some/model");
}

}  // namespace
}  // namespace nearfield::client

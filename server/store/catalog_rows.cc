#include "server/store/catalog_rows.h"

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/store/little_endian.h"

namespace nearfield::store {
namespace {

// The stored numbers of scan choices. They are frozen and are not those of ScanChoice. Earlier
// versions stored kScanBf16 for scans of a bf16 copy of the rows. It stays in their rows: the
// digests cover it, and an earlier build can open the directory again.
constexpr int64_t kScanAuto = 1;
constexpr int64_t kScanInt8 = 2;
constexpr int64_t kScanRows = 3;
constexpr int64_t kScanBf16 = 4;

int64_t StoredScan(ScanChoice scan) {
  switch (scan) {
    case ScanChoice::kAuto: break;
    case ScanChoice::kInt8: return kScanInt8;
    case ScanChoice::kRows: return kScanRows;
  }
  return kScanAuto;
}

ScanChoice ScanFromStored(int64_t number) {
  if (number == kScanAuto) return ScanChoice::kAuto;
  return number == kScanRows ? ScanChoice::kRows : ScanChoice::kInt8;
}

// Reads the values of a row one by one, and records whether all of them were valid.
class RowReader {
 public:
  explicit RowReader(absl::Span<const Value> values) : values_(values) {}

  RowReader& Number(int64_t* number, int64_t min = 0, int64_t max = INT64_MAX) {
    const int64_t* const value = Next<int64_t>();
    if (value != nullptr && *value >= min && *value <= max) {
      *number = *value;
    } else {
      good_ = false;
    }
    return *this;
  }

  template <typename E>
  RowReader& Enum(E* value, int64_t max) {
    int64_t number = 0;
    Number(&number, 1, max);
    *value = static_cast<E>(number);
    return *this;
  }

  RowReader& Bytes(std::string* bytes) {
    const std::string* const value = Next<std::string>();
    if (value != nullptr) {
      *bytes = *value;
    } else {
      good_ = false;
    }
    return *this;
  }

  absl::Status End(const char* table) const {
    if (good_ && next_ == values_.size()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("a row of table ", table, " cannot be"));
  }

 private:
  template <typename T>
  const T* Next() {
    return next_ < values_.size() ? absl::get_if<T>(&values_[next_++]) : nullptr;
  }

  const absl::Span<const Value> values_;
  size_t next_ = 0;
  bool good_ = true;
};

template <typename Row>
absl::StatusOr<Row> Checked(const RowReader& reader, Row row) {
  if (absl::Status status = reader.End(Row::kTable); !status.ok()) return status;
  return row;
}

template <typename E>
int64_t Number(E value) {
  return static_cast<int64_t>(value);
}

}  // namespace

void RowSum::Add(const Digest& digest) {
  sum_[0] += GetUint64(digest.data());
  sum_[1] += GetUint64(digest.data() + 8);
}

void RowSum::Subtract(const Digest& digest) {
  sum_[0] -= GetUint64(digest.data());
  sum_[1] -= GetUint64(digest.data() + 8);
}

std::string RowSum::Bytes() const {
  std::array<uint8_t, 16> bytes = {};
  PutUint64(sum_[0], bytes.data());
  PutUint64(sum_[1], bytes.data() + 8);
  return std::string(bytes.begin(), bytes.end());
}

RowSum RowSum::FromBytes(const std::string& bytes) {
  RowSum sum;
  if (bytes.size() == 16) {
    const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
    sum.sum_ = {GetUint64(data), GetUint64(data + 8)};
  }
  return sum;
}

std::vector<Value> CollectionRow::Values() const {
  return {id,
          name,
          int64_t{spec.dim},
          Number(spec.metric),
          Number(spec.row_type),
          Number(spec.id_type),
          scan_removed ? kScanBf16 : StoredScan(spec.scan),
          Number(spec.rows),
          schema,
          epoch,
          rows_live,
          created_unix_s};
}

void CollectionRow::CheckFollows(const CollectionRow* old) const {
  const int64_t before = old != nullptr ? old->epoch : 0;
  CHECK_GE(epoch, before);
  CHECK_LE(epoch, before + 1);
  CHECK_GE(rows_live, 0);
}

absl::StatusOr<CollectionRow> CollectionRow::FromValues(absl::Span<const Value> values) {
  CollectionRow row;
  int64_t dim = 0;
  int64_t scan = 0;
  RowReader reader(values);
  reader.Number(&row.id, 1).Bytes(&row.name).Number(&dim, 1, kDimMax);
  reader.Enum(&row.spec.metric, 3).Enum(&row.spec.row_type, 3).Enum(&row.spec.id_type, 2);
  reader.Number(&scan, kScanAuto, kScanBf16).Enum(&row.spec.rows, 2).Bytes(&row.schema);
  reader.Number(&row.epoch).Number(&row.rows_live).Number(&row.created_unix_s, INT64_MIN);
  row.spec.dim = static_cast<int32_t>(dim);
  row.scan_removed = scan == kScanBf16;
  row.spec.scan = ScanFromStored(scan);
  return Checked(reader, std::move(row));
}

std::vector<Value> AliasRow::Values() const { return {id, alias, collection}; }

absl::StatusOr<AliasRow> AliasRow::FromValues(absl::Span<const Value> values) {
  AliasRow row;
  RowReader reader(values);
  reader.Number(&row.id, 1).Bytes(&row.alias).Number(&row.collection, 1);
  return Checked(reader, std::move(row));
}

std::vector<Value> SegmentRow::Values() const {
  return {id, collection, seq, rows, blocks, bytes, digest, superseded};
}

absl::StatusOr<SegmentRow> SegmentRow::FromValues(absl::Span<const Value> values) {
  SegmentRow row;
  RowReader reader(values);
  reader.Number(&row.id, 1).Number(&row.collection, 1).Number(&row.seq, 1).Number(&row.rows, 1);
  reader.Number(&row.blocks, 1).Number(&row.bytes, 1).Bytes(&row.digest).Bytes(&row.superseded);
  return Checked(reader, std::move(row));
}

std::vector<int64_t> SegmentRow::SupersededRows() const {
  std::vector<int64_t> places;
  for (size_t i = 0; i + 8 <= superseded.size(); i += 8) {
    places.push_back(
        static_cast<int64_t>(GetUint64(reinterpret_cast<const uint8_t*>(superseded.data()) + i)));
  }
  return places;
}

std::vector<Value> DeletionRow::Values() const { return {id, collection, seq, ids_count, digest}; }

absl::StatusOr<DeletionRow> DeletionRow::FromValues(absl::Span<const Value> values) {
  DeletionRow row;
  RowReader reader(values);
  reader.Number(&row.id, 1).Number(&row.collection, 1).Number(&row.seq, 1);
  reader.Number(&row.ids_count, 1).Bytes(&row.digest);
  return Checked(reader, std::move(row));
}

std::vector<Value> UploadRow::Values() const {
  return {id,         token, collection,    Number(mode), Number(state),
          next_block, rows,  bytes_durable, epoch,        touched_unix_s};
}

absl::StatusOr<UploadRow> UploadRow::FromValues(absl::Span<const Value> values) {
  UploadRow row;
  RowReader reader(values);
  reader.Number(&row.id, 1).Bytes(&row.token).Number(&row.collection, 1).Enum(&row.mode, 3);
  reader.Enum(&row.state, 2).Number(&row.next_block).Number(&row.rows);
  reader.Number(&row.bytes_durable).Number(&row.epoch).Number(&row.touched_unix_s, INT64_MIN);
  return Checked(reader, std::move(row));
}

std::vector<Value> UploadResultRow::Values() const { return {id, rows_replaced, commit_number}; }

absl::StatusOr<UploadResultRow> UploadResultRow::FromValues(absl::Span<const Value> values) {
  UploadResultRow row;
  RowReader reader(values);
  reader.Number(&row.id, 1).Number(&row.rows_replaced).Number(&row.commit_number, 1);
  return Checked(reader, row);
}

std::vector<Value> CommitRow::Values() const {
  return {id, kind, collection, epoch, next_id, state, previous, chain};
}

absl::StatusOr<CommitRow> CommitRow::FromValues(absl::Span<const Value> values) {
  CommitRow row;
  RowReader reader(values);
  reader.Number(&row.id, 1).Number(&row.kind).Number(&row.collection).Number(&row.epoch);
  reader.Number(&row.next_id, 1).Bytes(&row.state).Bytes(&row.previous).Bytes(&row.chain);
  return Checked(reader, std::move(row));
}

Digest CommitRow::Chain(const std::string& store_id) const {
  std::vector<Value> values = Values();
  values.back() = store_id;
  return RowDigest(kTable, values);
}

Digest RowDigest(const char* table, absl::Span<const Value> values) {
  Sha256 sum;
  sum.Add(std::string_view(table)).AddNumber(static_cast<int64_t>(values.size()));
  for (const Value& value : values) {
    if (const int64_t* const number = absl::get_if<int64_t>(&value)) {
      sum.AddNumber(-1).AddNumber(*number);
    } else {
      const std::string& bytes = *absl::get_if<std::string>(&value);
      sum.AddNumber(static_cast<int64_t>(bytes.size())).Add(bytes);
    }
  }
  return sum.Value();
}

}  // namespace nearfield::store

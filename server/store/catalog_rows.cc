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
constexpr int64_t kScanInt16 = 5;

int64_t StoredScan(ScanChoice scan) {
  switch (scan) {
    case ScanChoice::kAuto: break;
    case ScanChoice::kInt8: return kScanInt8;
    case ScanChoice::kInt16: return kScanInt16;
    case ScanChoice::kRows: return kScanRows;
  }
  return kScanAuto;
}

ScanChoice ScanFromStored(int64_t number) {
  if (number == kScanAuto) return ScanChoice::kAuto;
  if (number == kScanInt16) return ScanChoice::kInt16;
  return number == kScanRows ? ScanChoice::kRows : ScanChoice::kInt8;
}

}  // namespace

RowFields& RowFields::Number(int64_t* number, int64_t min, int64_t max) {
  if (!is_reading_) {
    written_.emplace_back(*number);
  } else if (const auto* const value = Next<int64_t>();
             value != nullptr && *value >= min && *value <= max) {
    *number = *value;
  } else {
    good_ = false;
  }
  return *this;
}

RowFields& RowFields::Bytes(std::string* bytes) {
  if (!is_reading_) {
    written_.emplace_back(std::move(*bytes));
  } else if (const auto* const value = Next<std::string>()) {
    *bytes = *value;
  } else {
    good_ = false;
  }
  return *this;
}

template <typename T>
const T* RowFields::Next() {
  return next_ < read_.size() ? absl::get_if<T>(&read_[next_++]) : nullptr;
}

absl::Status RowFields::EndOfRead(const char* table) const {
  if (good_ && next_ == read_.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a row of table ", table, " cannot be"));
}

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

void CollectionRow::Visit(RowFields* fields) {
  int64_t dim = spec.dim;
  int64_t scan = scan_removed ? kScanBf16 : StoredScan(spec.scan);
  fields->Number(&id, 1).Bytes(&name).Number(&dim, 1, kDimMax);
  fields->Enum(&spec.metric, 3).Enum(&spec.row_type, 3).Enum(&spec.id_type, 2);
  fields->Number(&scan, kScanAuto, kScanInt16).Enum(&spec.rows, 2).Bytes(&schema);
  fields->Number(&epoch).Number(&rows_live).Number(&created_unix_s, INT64_MIN);
  spec.dim = static_cast<int32_t>(dim);
  scan_removed = scan == kScanBf16;
  spec.scan = ScanFromStored(scan);
}

void CollectionRow::CheckFollows(const CollectionRow* old) const {
  CHECK_GE(epoch, old != nullptr ? old->epoch : 0);
  CHECK_GE(rows_live, 0);
}

void OwnerRow::Visit(RowFields* fields) { fields->Number(&id, 1).Bytes(&principal); }

void DevicesRow::Visit(RowFields* fields) { fields->Number(&id, 1).Number(&devices, 1, INT32_MAX); }

void EmbeddingModelRow::Visit(RowFields* fields) { fields->Number(&id, 1).Bytes(&model); }

void AliasRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Bytes(&alias).Number(&collection, 1);
}

void SegmentRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Number(&collection, 1).Number(&seq, 1).Number(&rows, 1);
  fields->Number(&blocks, 1).Number(&bytes, 1).Bytes(&digest).Bytes(&superseded);
}

std::vector<int64_t> SegmentRow::SupersededRows() const {
  std::vector<int64_t> places;
  for (size_t i = 0; i + 8 <= superseded.size(); i += 8) {
    places.push_back(
        static_cast<int64_t>(GetUint64(reinterpret_cast<const uint8_t*>(superseded.data()) + i)));
  }
  return places;
}

void DeletionRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Number(&collection, 1).Number(&seq, 1);
  fields->Number(&ids_count, 1).Bytes(&digest);
}

void PatchRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Number(&collection, 1).Number(&rows, 1).Number(&bytes, 1).Bytes(&digest);
}

void UpdateTokenRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Number(&collection, 1).Bytes(&token);
  fields->Number(&number, 1).Number(&bytes_sum).Bytes(&digest);
}

void UploadRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Bytes(&token).Number(&collection, 1).Enum(&mode, 3);
  fields->Enum(&state, 2).Number(&next_block).Number(&rows);
  fields->Number(&bytes_durable).Number(&epoch).Number(&touched_unix_s, INT64_MIN);
}

void UploadResultRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Number(&rows_replaced).Number(&commit_number, 1);
}

void CommitRow::Visit(RowFields* fields) {
  fields->Number(&id, 1).Number(&kind).Number(&collection).Number(&epoch);
  fields->Number(&next_id, 1).Bytes(&state).Bytes(&previous).Bytes(&chain);
}

Digest CommitRow::Chain(const std::string& store_id) const {
  std::vector<Value> values = ValuesOf(*this);
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

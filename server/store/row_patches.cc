#include "server/store/row_patches.h"

#include <functional>
#include <optional>

#include "engine/base/status_macros.h"
#include "server/store/little_endian.h"

namespace nearfield::store {
namespace {

constexpr size_t kSeqsBytes = 16;  // of a row

uint8_t* Data(std::string* bytes) { return reinterpret_cast<uint8_t*>(bytes->data()); }
const uint8_t* Data(std::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

// Appends the size of a part, then its bytes.
void PutPart(const std::vector<uint8_t>& part, std::string* bytes) {
  const size_t begin = bytes->size();
  bytes->resize(begin + sizeof(uint64_t) + part.size());
  PutUint64(part.size(), Data(bytes) + begin);
  std::copy(part.begin(), part.end(), bytes->begin() + static_cast<int64_t>(begin + 8));
}

// Takes the next part from `bytes`. Returns nullopt if it is not whole.
std::optional<absl::Span<const uint8_t>> TakePart(std::string_view* bytes) {
  if (bytes->size() < sizeof(uint64_t)) return std::nullopt;
  const uint64_t size = GetUint64(Data(*bytes));
  bytes->remove_prefix(sizeof(uint64_t));
  if (size > bytes->size()) return std::nullopt;
  const absl::Span<const uint8_t> part(Data(*bytes), size);
  bytes->remove_prefix(size);
  return part;
}

}  // namespace

void PatchRecord::Append(const IdColumn& ids, int64_t index, const RowPatch& patch) {
  ids_.AppendFrom(ids, index);
  seqs_.emplace_back(patch.attributes_seq, patch.payload_seq);
  attributes_.Append(patch.attributes);
  payloads_.Append(patch.payload);
}

RowPatch PatchRecord::at(int64_t row) const {
  const auto& [attributes_seq, payload_seq] = seqs_[static_cast<size_t>(row)];
  return {.attributes_seq = attributes_seq,
          .payload_seq = payload_seq,
          .attributes = std::string(attributes_.at(row)),
          .payload = std::string(payloads_.at(row))};
}

int64_t PatchRecord::bytes() const {
  constexpr int64_t kRowBytes = int64_t{kSeqsBytes} + 3 * 4;  // with the ends of strings
  const int64_t ids_bytes = ids_.type() == IdType::kUint64 ? 8 * ids_.size() : ids_.bytes();
  return rows_count() * kRowBytes + ids_bytes + attributes_.value_bytes() +
         payloads_.value_bytes() + 3 * int64_t{sizeof(uint64_t)};
}

std::string PatchRecord::Encode() const {
  std::string bytes(seqs_.size() * kSeqsBytes, '\0');
  for (size_t row = 0; row < seqs_.size(); ++row) {
    uint8_t* const to = Data(&bytes) + row * kSeqsBytes;
    PutUint64(static_cast<uint64_t>(seqs_[row].first), to);
    PutUint64(static_cast<uint64_t>(seqs_[row].second), to + 8);
  }
  PutPart(EncodeIds(ids_), &bytes);
  PutPart(EncodeValues(&attributes_), &bytes);
  PutPart(EncodeValues(&payloads_), &bytes);
  return bytes;
}

absl::StatusOr<PatchRecord> PatchRecord::Decode(IdType type, std::string_view bytes, int64_t rows) {
  const absl::Status bad = absl::DataLossError("a patch record contradicts itself");
  if (rows < 1 || static_cast<uint64_t>(rows) > bytes.size() / kSeqsBytes) return bad;
  PatchRecord record(type);
  for (int64_t row = 0; row < rows; ++row) {
    record.seqs_.emplace_back(static_cast<int64_t>(GetUint64(Data(bytes))),
                              static_cast<int64_t>(GetUint64(Data(bytes) + 8)));
    bytes.remove_prefix(kSeqsBytes);
  }
  const auto ids = TakePart(&bytes);
  const auto attributes = TakePart(&bytes);
  const auto payloads = TakePart(&bytes);
  if (!ids || !attributes || !payloads || !bytes.empty()) return bad;
  ABSL_RETURN_IF_ERROR(DecodeIds(*ids, rows, &record.ids_));
  ABSL_RETURN_IF_ERROR(DecodeValues(*attributes, rows, &record.attributes_));
  ABSL_RETURN_IF_ERROR(DecodeValues(*payloads, rows, &record.payloads_));
  return record;
}

void RowPatches::Add(const PatchRecord& record) {
  for (int64_t row = 0; row < record.rows_count(); ++row) {
    RowPatch& newest = type_ == IdType::kUint64 ? numbers_[record.ids_.number(row)]
                                                : strings_[std::string(record.ids_.string(row))];
    RowPatch patch = record.at(row);
    if (patch.attributes_seq > newest.attributes_seq) {
      newest.attributes_seq = patch.attributes_seq;
      newest.attributes = std::move(patch.attributes);
    }
    if (patch.payload_seq > newest.payload_seq) {
      newest.payload_seq = patch.payload_seq;
      newest.payload = std::move(patch.payload);
    }
  }
}

IdColumn RowPatches::Ids() const {
  IdColumn ids(type_);
  for (const auto& [id, patch] : numbers_) ids.AppendNumber(id);
  for (const auto& [id, patch] : strings_) ids.AppendString(id);
  return ids;
}

const RowPatch* RowPatches::Find(const IdColumn& ids, int64_t index) const {
  if (type_ == IdType::kUint64) {
    const auto found = numbers_.find(ids.number(index));
    return found == numbers_.end() ? nullptr : &found->second;
  }
  const auto found = strings_.find(ids.string(index));
  return found == strings_.end() ? nullptr : &found->second;
}

void RowPatches::Apply(int64_t segment_seq, DecodedBlock* block) const {
  bool any = false;
  const int64_t rows = block->ids.size();
  for (int64_t i = 0; i < rows && !any && !empty(); ++i) any = Changes(block->ids, i, segment_seq);
  if (!any) return;
  BytesColumn attributes;
  BytesColumn payloads;
  for (int64_t i = 0; i < rows; ++i) {
    const RowPatch* const patch = Find(block->ids, i);
    const bool has_attributes = patch != nullptr && patch->ChangesAttributes(segment_seq);
    const bool has_payload = patch != nullptr && patch->ChangesPayload(segment_seq);
    attributes.Append(has_attributes ? patch->attributes : block->attributes.at(i));
    payloads.Append(has_payload ? patch->payload : block->payloads.at(i));
  }
  block->attributes = std::move(attributes);
  block->payloads = std::move(payloads);
}

}  // namespace nearfield::store

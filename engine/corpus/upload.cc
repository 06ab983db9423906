#include "engine/corpus/upload.h"

#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/check_range.h"
#include "engine/base/checked_math.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/row_check.h"

namespace nearfield::corpus {
namespace {

absl::Status CheckReservation(const UploadReservation& reservation) {
  ABSL_RETURN_IF_ERROR(CheckRange("rows_max", reservation.rows_max, 1, kRowsMax));
  ABSL_RETURN_IF_ERROR(CheckRange("payload_bytes_max", reservation.payload_bytes_max, 0,
                                  std::numeric_limits<int64_t>::max()));
  return CheckOneOf("mode", reservation.mode,
                    {UploadMode::kInsert, UploadMode::kUpsert, UploadMode::kReplace},
                    "insert, upsert or replace");
}

// Returns the bytes of `rows_max` ids, excluding the bytes of strings.
int64_t FixedIdBytes(int64_t rows_max) {
  return rows_max * int64_t{sizeof(uint64_t)};  // a number, or the end of a string
}

// Returns the maximum bytes of id strings. Each is counted with its maximum length, so that no
// upload fails in the middle.
int64_t StringBytesMax(IdType type, int64_t rows_max) {
  return type == IdType::kString ? rows_max * kIdBytesMax : 0;
}

// Returns the bytes of the block's values, excluding FixedIdBytes and the fixed bytes of each row.
int64_t ValueBytes(const UploadBlock& block) {
  return StringBytes(*block.ids) + (block.payloads == nullptr ? 0 : block.payloads->value_bytes());
}

}  // namespace

absl::StatusOr<int64_t> CorpusUpload::HostBytesOf(const CollectionSpec& spec,
                                                  const UploadReservation& reservation) {
  ABSL_RETURN_IF_ERROR(CheckReservation(reservation));
  int64_t id_bytes = FixedIdBytes(reservation.rows_max);
  int64_t payload_bytes = 0;
  if (reservation.values_reserved) {
    id_bytes += StringBytesMax(spec.id_type, reservation.rows_max);
    payload_bytes = reservation.payload_bytes_max;
  }
  const int64_t bytes = BuildBytes(reservation.rows_max, id_bytes, payload_bytes);
  if (bytes >= 0) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("payload_bytes_max = ", reservation.payload_bytes_max, " is beyond any memory"));
}

absl::StatusOr<std::unique_ptr<Upload>> CorpusUpload::Begin(std::shared_ptr<Corpus> corpus,
                                                            const UploadReservation& reservation) {
  ABSL_ASSIGN_OR_RETURN(const int64_t host_bytes, HostBytesOf(corpus->spec(), reservation));
  const std::shared_ptr<Device>& device = corpus->device();
  const int64_t rows_max = reservation.rows_max;
  GenerationParts parts;
  parts.device = device;
  ABSL_ASSIGN_OR_RETURN(parts.host, device->host().Reserve(host_bytes));
  auto planes = device->backend().Reserve(corpus->format(), rows_max);
  if (!planes.ok()) return device->Observe(planes.status());
  parts.planes = *std::move(planes);
  parts.ids = IdColumn(corpus->spec().id_type);
  try {  // reserves address space only: pages are allocated as rows arrive
    parts.ids.Reserve(rows_max);
    parts.payloads.Reserve(rows_max, reservation.payload_bytes_max);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("needs ", host_bytes, " bytes of host memory, which the system refuses"));
  }
  return std::unique_ptr<Upload>(
      new CorpusUpload(std::move(corpus), reservation, std::move(parts)));
}

CorpusUpload::CorpusUpload(std::shared_ptr<Corpus> corpus, const UploadReservation& reservation,
                           GenerationParts parts)
    : corpus_(std::move(corpus)), reservation_(reservation), parts_(std::move(parts)) {}

absl::Status CorpusUpload::CheckOpen() const {
  ABSL_RETURN_IF_ERROR(corpus_->device()->Check());
  if (open_) return absl::OkStatus();
  return absl::FailedPreconditionError("the upload has ended: it was committed, or it failed");
}

absl::Status CorpusUpload::Append(const UploadBlock& block) {
  ABSL_RETURN_IF_ERROR(CheckOpen());
  if (first_ordinal_) {
    return absl::FailedPreconditionError(
        "the upload's rows are numbered: it can only be committed");
  }
  absl::Status status = CatchOutOfMemory([&] {
    const absl::Status checked = CheckBlock(block);
    return checked.ok() ? Take(block) : checked;
  });
  if (!status.ok()) open_ = false;
  return status;
}

absl::Status CorpusUpload::CheckBlock(const UploadBlock& block) const {
  if (block.ids == nullptr) {
    return absl::InvalidArgumentError("ids: absent; one id a row is needed");
  }
  ABSL_RETURN_IF_ERROR(CheckIds(*block.ids));
  ABSL_RETURN_IF_ERROR(CheckPayloads(block));
  return CheckRows(block);
}

absl::Status CorpusUpload::CheckIds(const IdColumn& ids) const {
  const IdType id_type = corpus_->spec().id_type;
  ABSL_RETURN_IF_ERROR(CheckIdType(ids, id_type));
  const int64_t rows_before = parts_.ids.size();
  if (ids.size() > reservation_.rows_max - rows_before) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rows_max = ", reservation_.rows_max, " rows were reserved; ", rows_before,
                     " have been sent, and the block has ", ids.size(), " more"));
  }
  for (int64_t i = 0; id_type == IdType::kString && i < ids.size(); ++i) {
    const size_t bytes = ids.string(i).size();
    if (bytes < 1 || bytes > size_t{kIdBytesMax}) {
      return absl::InvalidArgumentError(absl::StrCat("ids: the id of row ", rows_before + i,
                                                     " has ", bytes, " bytes; 1 to ", kIdBytesMax));
    }
  }
  return absl::OkStatus();
}

absl::Status CorpusUpload::CheckPayloads(const UploadBlock& block) const {
  if (block.payloads == nullptr) return absl::OkStatus();
  if (block.payloads->size() != block.ids->size()) {
    return absl::InvalidArgumentError(absl::StrCat("payloads: ", block.payloads->size(),
                                                   " values for ", block.ids->size(), " rows"));
  }
  const int64_t bytes_before = parts_.payloads.value_bytes();
  if (block.payloads->value_bytes() > reservation_.payload_bytes_max - bytes_before) {
    return absl::ResourceExhaustedError(
        absl::StrCat("payload_bytes_max = ", reservation_.payload_bytes_max,
                     " bytes were reserved; ", bytes_before, " have been sent, and the block has ",
                     block.payloads->value_bytes(), " more"));
  }
  return absl::OkStatus();
}

absl::Status CorpusUpload::CheckRows(const UploadBlock& block) const {
  const CollectionSpec& spec = corpus_->spec();
  const std::optional<int64_t> bytes = CheckedMul(block.ids->size(), corpus_->row_bytes());
  if (!bytes || block.rows.size() != static_cast<size_t>(*bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows: ", block.rows.size(), " bytes for ", block.ids->size(), " rows of ", spec.dim,
        " dimensions of ", BytesPerElement(spec.row_type),
        " bytes: ", bytes ? absl::StrCat(*bytes, " bytes are needed") : "beyond any memory"));
  }
  const auto name_of = [&](int64_t row) {
    return absl::StrCat("rows: row ", parts_.ids.size() + row, " (id ", IdText(block.ids->at(row)),
                        ")");
  };
  if (const auto element = FindNonFinite(spec.row_type, block.rows)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name_of(*element / spec.dim), " is not finite in dimension ", *element % spec.dim));
  }
  if (spec.metric != Metric::kCosine || !reservation_.zero_rows_refused) return absl::OkStatus();
  const std::optional<int64_t> zero = FindZeroRow(spec.row_type, spec.dim, block.rows);
  if (!zero) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name_of(*zero),
                   " is zero in every dimension, and has no cosine: leave it out, or accept zero "
                   "rows, which come last in every search"));
}

absl::Status CorpusUpload::Take(const UploadBlock& block) {
  const int64_t rows_count = block.ids->size();
  if (rows_count == 0) return absl::OkStatus();
  if (!reservation_.values_reserved) {
    ABSL_RETURN_IF_ERROR(parts_.host.Grow(ValueBytes(block)));
  }
  ABSL_RETURN_IF_ERROR(
      parts_.device->Observe(parts_.planes->Append(block.rows.data(), rows_count)));
  for (int64_t i = 0; i < rows_count; ++i) {
    parts_.ids.AppendFrom(*block.ids, i);
    parts_.payloads.Append(block.payloads == nullptr ? std::string_view() : block.payloads->at(i));
  }
  CHECK_LE(parts_.ids.size(), reservation_.rows_max);
  CHECK_EQ(parts_.payloads.size(), parts_.ids.size());
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> CorpusUpload::TakeOrdinals() {
  ABSL_RETURN_IF_ERROR(CheckOpen());
  if (parts_.ids.empty()) return absl::FailedPreconditionError("the upload has no rows");
  if (!first_ordinal_) {
    ABSL_ASSIGN_OR_RETURN(first_ordinal_, corpus_->TakeOrdinals(parts_.ids.size()));
  }
  return *first_ordinal_;
}

absl::StatusOr<CommitResult> CorpusUpload::Commit(const CommitHook& before_visible) {
  ABSL_RETURN_IF_ERROR(CheckOpen());
  open_ = false;
  GenerationParts parts = std::move(parts_);  // its memory is released in any case
  const int64_t rows_count = parts.ids.size();
  if (rows_count == 0) return Publish(std::move(parts), before_visible);
  const bool asked_for = first_ordinal_.has_value();
  if (!asked_for) {
    ABSL_ASSIGN_OR_RETURN(first_ordinal_, corpus_->TakeOrdinals(rows_count));
  }
  absl::StatusOr<CommitResult> result = Publish(std::move(parts), before_visible);
  // The caller may have stored ordinals that it requested, so they are not released here.
  if (!result.ok() && !asked_for) corpus_->ReleaseOrdinals(*first_ordinal_, rows_count);
  return result;
}

absl::StatusOr<CommitResult> CorpusUpload::Publish(GenerationParts parts,
                                                   const CommitHook& before_visible) {
  const UploadMode mode = reservation_.mode;
  return CatchOutOfMemory([&]() -> absl::StatusOr<CommitResult> {
    std::shared_ptr<const Generation> generation;
    if (!parts.ids.empty()) {
      parts.ordinals = Ordinals(*first_ordinal_, parts.ids.size());
      const DuplicatePolicy duplicates =
          mode == UploadMode::kUpsert ? DuplicatePolicy::kLastWins : DuplicatePolicy::kRefused;
      ABSL_ASSIGN_OR_RETURN(generation, Seal(std::move(parts), duplicates));
    }
    return corpus_->Publish(std::move(generation), mode, before_visible);
  });
}

}  // namespace nearfield::corpus

#include "engine/corpus/row_versions.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::corpus {
namespace {

// Returns the version of a row; null if there is none.
const RowVersion* FindIn(const std::vector<RowVersion>& versions, uint32_t slot) {
  const auto found =
      std::lower_bound(versions.begin(), versions.end(), slot,
                       [](const RowVersion& version, uint32_t at) { return version.slot < at; });
  return found != versions.end() && found->slot == slot ? &*found : nullptr;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RowVersions::Page>> RowVersions::MakePage(
    const Page* before, absl::Span<RowVersion> changes, MemoryBudget& host) {
  auto page = std::make_shared<Page>();
  std::vector<RowVersion>& versions = page->versions;
  size_t size = changes.size();
  if (before != nullptr) {
    size += before->versions.size();
    for (const RowVersion& change : changes) size -= FindIn(before->versions, change.slot) ? 1 : 0;
  }
  ABSL_ASSIGN_OR_RETURN(page->host, host.Reserve(static_cast<int64_t>(size * sizeof(RowVersion))));
  versions.reserve(size);
  size_t next = 0;
  const auto take_before = [&](uint32_t end) {
    while (before != nullptr && next < before->versions.size() &&
           before->versions[next].slot < end) {
      versions.push_back(before->versions[next++]);
    }
  };
  for (RowVersion& change : changes) {
    take_before(change.slot);
    if (before != nullptr && next < before->versions.size() &&
        before->versions[next].slot == change.slot) {
      if (change.payload == nullptr) change.payload = before->versions[next].payload;
      ++next;
    }
    versions.push_back(std::move(change));
  }
  take_before(UINT32_MAX);
  DCHECK_EQ(versions.size(), size);
  for (const RowVersion& version : versions) {
    if (version.payload == nullptr) continue;
    page->payloads_count += 1;
    page->payload_bytes += version.payload->host.bytes();
  }
  return std::shared_ptr<const Page>(std::move(page));
}

void RowVersions::Count(const Page& page, int64_t sign) {
  page_bytes_ += sign * page.host.bytes();
  rows_count_ += sign * static_cast<int64_t>(page.versions.size());
  payloads_count_ += sign * page.payloads_count;
  payload_bytes_ += sign * page.payload_bytes;
}

absl::StatusOr<std::shared_ptr<const RowVersions>> RowVersions::Make(
    const RowVersions* before, std::vector<RowVersion> changes, MemoryBudget& host) {
  DCHECK(std::is_sorted(changes.begin(), changes.end(),
                        [](const auto& a, const auto& b) { return a.slot < b.slot; }));
  auto result =
      before == nullptr ? std::make_shared<RowVersions>() : std::make_shared<RowVersions>(*before);
  for (size_t begin = 0; begin < changes.size();) {
    const size_t place = changes[begin].slot / kPageRows;
    size_t end = begin + 1;
    while (end < changes.size() && changes[end].slot / kPageRows == place) ++end;
    if (place >= result->pages_.size()) result->pages_.resize(place + 1);
    std::shared_ptr<const Page>& page = result->pages_[place];
    if (page != nullptr) result->Count(*page, -1);
    ABSL_ASSIGN_OR_RETURN(
        page, MakePage(page.get(), absl::MakeSpan(changes).subspan(begin, end - begin), host));
    result->Count(*page, 1);
    begin = end;
  }
  return std::shared_ptr<const RowVersions>(std::move(result));
}

const RowVersion* RowVersions::Find(uint32_t slot) const {
  const size_t place = slot / kPageRows;
  if (place >= pages_.size() || pages_[place] == nullptr) return nullptr;
  return FindIn(pages_[place]->versions, slot);
}

int64_t RowVersions::CountBytes(std::unordered_set<const void*>* counted) const {
  int64_t bytes = 0;
  for (const std::shared_ptr<const Page>& page : pages_) {
    if (page == nullptr || !counted->insert(page.get()).second) continue;
    bytes += page->host.bytes();
    for (const RowVersion& version : page->versions) {
      if (version.payload == nullptr || !counted->insert(version.payload.get()).second) continue;
      bytes += version.payload->host.bytes();
    }
  }
  return bytes;
}

int64_t RowVersions::bytes() const {
  return page_bytes_ + payload_bytes_ + static_cast<int64_t>(pages_.capacity() * sizeof(pages_[0]));
}

}  // namespace nearfield::corpus

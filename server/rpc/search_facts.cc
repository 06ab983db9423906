#include "server/rpc/search_facts.h"

#include <algorithm>

#include "server/convert/common.h"

namespace nearfield::server {

void NoteReply(const SearchReply& reply, SearchFacts* facts) {
  facts->queue_us = reply.timing.queue_us;
  facts->device_us = reply.result.cost.device_us;
  facts->scan = NameOf(reply.result.cost.precision);
  facts->escalations = reply.result.cost.escalations;
  for (const Neighbors& neighbors : reply.result.queries) {
    facts->rows += static_cast<int64_t>(neighbors.scores.size());
  }
}

void Note(const SearchFacts& facts, RequestRecord* record) {
  record->queries += facts.queries;
  record->k = std::max(record->k, facts.k);
  record->rows += facts.rows;
  record->queue_us += facts.queue_us;
  record->device_us += facts.device_us;
  record->escalations_tighter += facts.escalations.tighter;
  record->escalations_canonical += facts.escalations.canonical;
  if (facts.scan.empty()) return;  // the search never reached the engine
  record->scan = record->scan.empty() || record->scan == facts.scan ? facts.scan : "mixed";
}

int64_t NativeBytes(const SearchReply& reply) {
  int64_t bytes = 0;
  for (const Neighbors& neighbors : reply.result.queries) {
    bytes += neighbors.ids.bytes() + static_cast<int64_t>(neighbors.scores.size() * sizeof(float)) +
             static_cast<int64_t>(neighbors.rows.size()) + neighbors.payloads.value_bytes() +
             static_cast<int64_t>(neighbors.ordinals.size() * sizeof(uint32_t)) +
             static_cast<int64_t>(neighbors.parts.size() * sizeof(ScoreParts));
  }
  return bytes;
}

}  // namespace nearfield::server

// SearchFacts: the fields of a call's log record that describe its searches.
#pragma once

#include <cstdint>
#include <string>

#include "server/scheduler/search_request.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

// The part of one search in the log line of its call.
struct SearchFacts {
  int64_t queries = 0;
  int64_t k = 0;
  int64_t rows = 0;
  int64_t queue_us = 0;
  int64_t device_us = 0;
  std::string scan;  // "rows", "int8"; empty if there was no scan
  ScanEscalations escalations;
};

// Adds the facts of the reply.
void NoteReply(const SearchReply& reply, SearchFacts* facts);

// Adds the facts of one search to the record of its call.
void Note(const SearchFacts& facts, RequestRecord* record);

// Returns the bytes of the answers in native form, before they are encoded as a message.
int64_t NativeBytes(const SearchReply& reply);

}  // namespace nearfield::server

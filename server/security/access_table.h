// The access table: what each RPC requires of the key of its caller. It is the only place that says
// so; a test compares it with the descriptors of the services.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "client/keys/api_key.h"

namespace nearfield::server {

// The part of a server that an RPC concerns.
enum class AccessTarget : uint8_t {
  kNothing,      // no collection: any key with the scope
  kCollections,  // the collections that its request names
  kHidden,       // as kCollections, but one that the key does not cover is NOT_FOUND
  kFiltered,     // collections that the request does not name: the call checks or filters them
  kServer,       // the whole server: only a key for all collections
};

struct MethodAccess {
  std::string_view name;  // "nearfield.v1.Retrieval.Search"
  uint8_t scopes = 0;     // the key must have one of these
  AccessTarget target = AccessTarget::kNothing;
  // kCollections and kHidden: the fields of the request that name a collection or an alias; "a.b"
  // is the field b of the message a. Unused ones are empty.
  std::array<std::string_view, 2> fields = {};
  bool is_open = false;  // needs no key
  // Changes something: its reply, which is small or of the size of the request, is never refused,
  // because that would hide the change.
  bool changes = false;

  // Returns true if no other scope than create and admin allows the call. The access log has it.
  bool IsAdministrative() const;
};

std::span<const MethodAccess> AccessTable();
// Returns null if the table has no such method.
const MethodAccess* FindAccess(std::string_view method);

}  // namespace nearfield::server

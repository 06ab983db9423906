"""Manifests: what a cluster holds, one after the other, in the storage.

The storage is the truth: a server is a cache of the operations that the newest manifest names, and
can be loaded again anywhere. nearfield.ray._log writes manifests and finds the newest one.

A manifest has at most TAIL_MAX operations of each collection, and names of objects with TAIL_MAX
earlier ones each. deploy/ray/README.md has its size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import xxhash

from nearfield._errors import DataLoss, FailedPrecondition, InvalidArgument
from nearfield.ray._steps import Steps, store

Operation = dict[str, Any]
# The format of manifests that are written. Format 3 had terms instead of authors; format 2 had no
# updates; format 1 had no format number and no checksum.
FORMAT = 4
TAIL_MAX = 256
# The members of an operation, by kind, of a segment, and of "declared".
_MEMBERS = {"create": ["declared"], "drop": [], "filter": ["filter"]}
_MEMBERS["update"] = ["filter", "attributes", "payload"]
_MEMBERS |= {each: ["segments"] for each in ("insert", "upsert", "replace", "delete")}
_SEGMENT = {"name", "rows", "index"}
_DECLARED = {"dim", "metric", "dtype", "id_type", "attributes", "scan", "rows", "embedding_model"}


class Done(NamedTuple):
    """The result of a commit.

    number    of its manifest
    changed   rows that it uploaded or deleted
    replaced  existing rows that the upload replaced
    created   of the CollectionState
    """

    number: int
    changed: int
    replaced: int
    created: int


@dataclass(frozen=True)
class CollectionState:
    """A collection at one manifest.

    id        of this collection, which no other of the same name has
    created   number of the manifest that created it
    declared  arguments of create_collection
    rows      live rows of each shard
    last      id of the last operation; "" if there is none
    pages     objects with the earlier operations, in their order: [name, XXH64]
    tail      the latest operations, in their order: {"id", "kind", and "segments" or "filter"}.
              kind: insert, upsert, replace, delete (rows by id), filter (delete rows that pass) or
              update (change rows that pass), as update_operation makes it
    before    [last, rows, token_key of the last operation] before the last operation; [] if unknown
    """

    id: str
    created: int
    declared: dict[str, Any]
    rows: list[int]
    last: str = ""
    pages: list[list[str]] = field(default_factory=list)
    tail: list[Operation] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Returns the number of the operations."""
        return len(self.pages) * TAIL_MAX + len(self.tail)


@dataclass(frozen=True)
class Manifest:
    """The state of a cluster.

    number  counts the manifests
    layout  increases with each change of `shards`; 0 in no manifest of the storage
    shards  servers that share the 4,096 partitions
    tokens  of the latest commits, by tokens.token_key: what each returned, and operation_key
    token_pages  objects with earlier tokens, in their order: [name, XXH64, seconds since 1970]
    author  coordinator that wrote it
    previous  SHA-256 of the object of the manifest before, "" in the first one
    """

    number: int = 0
    layout: int = 0
    shards: int = 0
    collections: dict[str, CollectionState] = field(default_factory=dict)
    tokens: dict[str, list[Any]] = field(default_factory=dict)
    token_pages: list[list[Any]] = field(default_factory=list)
    author: str = ""
    previous: str = ""

    def encode(self) -> bytes:
        """Returns two lines of JSON: the format with a checksum, and the members."""
        body = json.dumps(vars(self), separators=(",", ":"), default=vars).encode()
        head = {"format": FORMAT, "xxh64": _checksum(FORMAT, body)}
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + body

    @staticmethod
    def decode(data: bytes, name: str = "manifest") -> Manifest:
        """Returns what was encoded. name: for errors. Errors: FailedPrecondition if the format is
        unknown; DataLoss if the data is damaged."""
        head, separator, body = data.partition(b"\n")
        try:
            if separator:
                made = json.loads(head)
                if made["format"] not in (2, 3, FORMAT):
                    known = f"this version reads the formats 1 to {FORMAT}"
                    raise FailedPrecondition(f"{name}: it has the format {made['format']}; {known}")
                if made["xxh64"] != _checksum(made["format"], body):
                    raise DataLoss(f"{name}: it is damaged: its checksum differs")
            found = json.loads(body if separator else data)
            if not separator or made["format"] < FORMAT:
                del found["term"]
            states = {key: CollectionState(**each) for key, each in found["collections"].items()}
            return Manifest(**{**found, "collections": states})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataLoss(f"{name}: it is damaged: {error!r}") from None

    def with_state(self, name: str, state: CollectionState | None) -> Manifest:
        """Returns the manifest with this state of a collection; None: without it."""
        states = {key: value for key, value in self.collections.items() if key != name}
        if state is not None:
            states[name] = state
        return replace(self, collections=states)


def _checksum(made: int, body: bytes) -> str:
    """Returns the checksum of a manifest: with its format, except in format 2."""
    return xxhash.xxh64_hexdigest(body if made == 2 else b"%d" % made + body)


def checked_operation(given: Any) -> Operation:
    """Returns an operation as a client may request it, with no other members. Errors:
    InvalidArgument."""
    try:
        found = {key: given[key] for key in ("kind", *_MEMBERS[given["kind"]])}
        for each in found.get("segments", []):
            if each.keys() != _SEGMENT or not re.fullmatch("segments/[0-9a-f]{32}", each["name"]):
                raise ValueError(f"the segment {each}")
        if not found.get("declared", {}).keys() <= _DECLARED:
            raise ValueError("declared")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"operation: {error!r}") from None
    return found


def operations_after(state: CollectionState, last: str) -> Steps[list[Operation] | None]:
    """Returns the operations after the one with the id `last`, "": all; None if it is not there.
    Errors: OSError; DataLoss."""
    found, pages = list(state.tail), list(state.pages)
    while True:
        ids = [each["id"] for each in found]
        if last in ids:
            return found[ids.index(last) + 1 :]
        if not pages:
            return None if last else found
        name, checksum = pages.pop()
        found = checked_page(name, checksum, (yield store("get", name))) + found


def checked_page(name: str, checksum: str, data: bytes) -> Any:
    """Returns the contents of an object of CollectionState.pages or Manifest.token_pages. Errors:
    DataLoss."""
    if xxhash.xxh64_hexdigest(data) != checksum:
        raise DataLoss(f"{name}: its checksum differs")
    return json.loads(data)


def files_of(state: CollectionState, pages: dict[str, set[str]]) -> Steps[set[str]]:
    """Returns the files that a state names. pages: the segments that each page names, for the
    pages that were read before. Errors: OSError; DataLoss."""
    found = _segments_of(state.tail)
    for name, checksum in state.pages:
        if name not in pages:
            data = yield store("get", name)
            pages[name] = _segments_of(checked_page(name, checksum, data))
        found |= {name} | pages[name]
    return found


def _segments_of(operations: Iterable[Operation]) -> set[str]:
    return {each["name"] for some in operations for each in some.get("segments", [])}

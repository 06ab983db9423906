"""Manifests: what a cluster holds, one after the other, in the storage.

The storage is the truth: a server is a cache of the operations that the newest manifest names, and
can be loaded again anywhere. There is one coordinator at a time, but the storage offers no
compare-and-swap, so two rules keep a coordinator that was replaced, and may still run, from losing
a commit:

1. A coordinator first writes a claim with a higher term than all others, and then reads the newest
   manifest: that of the highest term, and of this term the highest number. If there is one, it
   writes it again, with its own term, before it shows it.
2. A commit writes its manifest, and then lists the claims. Only if there is no later claim is it
   acknowledged.

If the list has no later claim, the next coordinator's list begins later than the write of the
manifest, so it continues from there. A manifest that arrives late is of a lower term, so no
client reads it after the next commit.

A manifest has at most TAIL_MAX operations of each collection, and names of objects with TAIL_MAX
earlier ones each: for each collection up to 60 KiB, and 100 bytes for every TAIL_MAX operations and
for every segment, and the text of the filters of its latest TAIL_MAX deletes and updates, with
the values of the updates. It has at most
TOKENS_MAX tokens of commits, and names of at most TOKEN_PAGES_MAX objects with TOKENS_MAX earlier
ones each: up to 64 KiB. An object of tokens is dropped TOKEN_SECONDS after it was written, or when
there are too many: a token is known for that time, or until 131,072 other commits if that is less.
A coordinator holds all of them in memory, about 40 MiB at most."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import xxhash

from nearfield._errors import Aborted, DataLoss, FailedPrecondition, InvalidArgument
from nearfield.ray._store import Store

Operation = dict[str, Any]
# The format of manifests that are written. Format 2 had no updates; format 1 had no format number
# and no checksum.
FORMAT = 3
TAIL_MAX = 256
TOKENS_MAX = 512
TOKEN_PAGES_MAX = 256  # 131,072 tokens
TOKEN_SECONDS = 24 * 3600.0  # by the clock of the coordinators
# The members of an operation, by kind, of a segment, and of "declared".
_MEMBERS = {"create": ["declared"], "drop": [], "filter": ["filter"]}
_MEMBERS["update"] = ["filter", "attributes", "payload"]
_MEMBERS |= {each: ["segments"] for each in ("insert", "upsert", "replace", "delete")}
_SEGMENT = {"name", "rows", "index"}
_DECLARED = {"dim", "metric", "dtype", "id_type", "attributes", "scan", "rows", "embedding_model"}
_READERS = 16  # objects of tokens that a new coordinator reads at the same time
_KEPT = 8  # newest manifests and claims; earlier ones are deleted


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
    """

    id: str
    created: int
    declared: dict[str, Any]
    rows: list[int]
    last: str = ""
    pages: list[list[str]] = field(default_factory=list)
    tail: list[Operation] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Returns the number of the operations."""
        return len(self.pages) * TAIL_MAX + len(self.tail)


@dataclass(frozen=True)
class Manifest:
    """The state of a cluster.

    number  counts the commits
    layout  increases with each change of `shards`
    shards  servers that share the 4,096 partitions
    tokens  of the latest commits, by token_key: what each returned, and operation_key
    token_pages  objects with earlier tokens, in their order: [name, XXH64, seconds since 1970]
    """

    term: int = 0
    number: int = 0
    layout: int = 0
    shards: int = 0
    collections: dict[str, CollectionState] = field(default_factory=dict)
    tokens: dict[str, list[Any]] = field(default_factory=dict)
    token_pages: list[list[Any]] = field(default_factory=list)

    @property
    def object_name(self) -> str:
        return f"manifests/{self.term:08}-{self.number:012}.json"

    def encode(self) -> bytes:
        """Returns two lines of JSON: the format with a checksum, and the members."""
        body = json.dumps(asdict(self), separators=(",", ":")).encode()
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
                if made["format"] not in (2, FORMAT):
                    known = f"this version reads the formats 1 to {FORMAT}"
                    raise FailedPrecondition(f"{name}: it has the format {made['format']}; {known}")
                if made["xxh64"] != _checksum(made["format"], body):
                    raise DataLoss(f"{name}: it is damaged: its checksum differs")
            found = json.loads(body if separator else data)
            states = {key: CollectionState(**each) for key, each in found["collections"].items()}
            return Manifest(**{**found, "collections": states})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataLoss(f"{name}: it is damaged: {error!r}") from None

    def following(self, name: str, state: CollectionState | None) -> Manifest:
        """Returns the next manifest, with this state of a collection; None: without it."""
        states = {key: value for key, value in self.collections.items() if key != name}
        if state is not None:
            states[name] = state
        return replace(self, number=self.number + 1, collections=states)


def _checksum(made: int, body: bytes) -> str:
    """Returns the checksum of a manifest: with its format, except in format 2."""
    return xxhash.xxh64_hexdigest(body if made == 2 else b"%d" % made + body)


def token_key(token: str, size: int = 10) -> str:
    """Returns what a manifest remembers of a token, whose length has no limit."""
    return hashlib.blake2b(token.encode(), digest_size=size).hexdigest()


def operation_key(name: str, kind: str) -> str:
    return token_key(f"{kind} {name}", 4)


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


def operations_after(store: Store, state: CollectionState, last: str) -> list[Operation] | None:
    """Returns the operations after the one with the id `last`, "": all; None if it is not there.
    Errors: OSError; DataLoss."""
    found = list(state.tail)
    pages = list(state.pages)
    while True:
        ids = [each["id"] for each in found]
        if last in ids:
            return found[ids.index(last) + 1 :]
        if not pages:
            return None if last else found
        found = read_page(store, *pages.pop()) + found


def read_page(store: Store, name: str, checksum: str) -> Any:
    """Returns the contents of an object of CollectionState.pages or Manifest.token_pages. Errors:
    OSError; DataLoss."""
    data = store.get(name)
    if xxhash.xxh64_hexdigest(data) != checksum:
        raise DataLoss(f"{name}: its checksum differs")
    return json.loads(data)


def files_of(store: Store, state: CollectionState, pages: dict[str, set[str]]) -> set[str]:
    """Returns the files that a state names. pages: the segments that each page names, for the
    pages that were read before. Errors: OSError; DataLoss."""
    found = _segments_of(state.tail)
    for name, checksum in state.pages:
        if name not in pages:
            pages[name] = _segments_of(read_page(store, name, checksum))
        found |= {name} | pages[name]
    return found


def _segments_of(operations: Iterable[Operation]) -> set[str]:
    return {each["name"] for some in operations for each in some.get("segments", [])}


def lease_now() -> float:
    """Returns the seconds of the clock of leases, which also counts while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def newest_claim(store: Store) -> dict[str, Any] | None:
    """Returns the claim of the newest coordinator, as ManifestLog writes it."""
    claims = store.list("terms")
    return dict(json.loads(store.get(claims[-1]))) if claims else None


def newest_manifest(store: Store) -> Manifest:
    """Returns the newest manifest; the empty one if there is none. Errors: OSError, those of decode
    and DataLoss if the file has the name of another manifest."""
    names = store.list("manifests")
    if not names:
        return Manifest()
    found = Manifest.decode(store.get(names[-1]), names[-1])
    if found.object_name != names[-1]:
        raise DataLoss(f"{names[-1]}: it is damaged: it has the contents of {found.object_name}")
    return found


class ManifestLog:
    """The manifests that one coordinator writes. Errors: OSError of the store; Aborted if another
    coordinator has claimed a later term.

    first    no coordinator has claimed the storage before
    checked  when the latest look that found no later claim began, by lease_now()"""

    def __init__(self, store: Store, name: str, address: str, cluster: str = "") -> None:
        self._store = store
        owner = uuid.uuid4().hex
        claims = store.list("terms")
        self.first = not claims
        self.term = 1 + (_term(claims[-1]) if claims else 0)
        self._claim = f"terms/{self.term:08}-{owner}.json"
        claim = {"term": self.term, "name": name, "cluster": cluster, "address": address}
        store.put(self._claim, json.dumps(claim).encode())
        self.check_claim()
        for each in claims[:-_KEPT]:
            store.delete(each)
        self._written = store.list("manifests")
        self._tokens: dict[str, dict[str, list[Any]]] = {}  # by object of Manifest.token_pages

    def check_claim(self) -> None:
        begin = lease_now()
        claims = self._store.list("terms")
        others = [name for name in claims if name != self._claim]
        if others and _term(others[-1]) >= self.term:
            raise Aborted(f"another coordinator has claimed the term {_term(others[-1])}")
        if self._claim not in claims:  # another folder is in its place, such as that of a mount
            raise OSError("it does not have the claim of this coordinator")
        self.checked = begin

    def append(self, manifest: Manifest) -> None:
        """Writes a manifest. After OSError it may be there or not: repeat the call."""
        assert manifest.term == self.term
        self._store.put(manifest.object_name, manifest.encode())
        self.check_claim()
        self._written.append(manifest.object_name)

    def forget_old(self) -> None:
        """Deletes manifests that no coordinator needs."""
        while len(self._written) > _KEPT:
            self._store.delete(self._written[0])
            del self._written[0]

    def done(self, manifest: Manifest, token: str, name: str, kind: str) -> Done | None:
        """Returns what the commit with this token returned; None if none is known. Errors:
        FailedPrecondition if it was of another collection or kind; OSError; DataLoss."""
        pages = manifest.token_pages
        missing = [page[:2] for page in pages if page[0] not in self._tokens]
        if missing:
            with ThreadPoolExecutor(_READERS) as pool:
                read = pool.map(lambda page: read_page(self._store, *page), missing)
                for (page, _), tokens in zip(missing, read, strict=True):
                    self._tokens[page] = tokens
        self._tokens = {page: self._tokens[page] for page, *_ in pages}
        key = token_key(token)
        for tokens in (manifest.tokens, *self._tokens.values()):
            if key in tokens:
                *record, operation = tokens[key]
                if operation != operation_key(name, kind):
                    raise FailedPrecondition("token: another operation has used it")
                return Done(*record)
        return None

    def with_token(
        self, manifest: Manifest, token: str, name: str, kind: str, done: Done
    ) -> Manifest:
        """Returns the manifest with the result of a commit; moves its tokens into an object if they
        are too many."""
        tokens, pages = manifest.tokens, manifest.token_pages
        if len(tokens) >= TOKENS_MAX:
            now = int(time.time())
            page = self._put_page(tokens)
            self._tokens[page[0]] = tokens
            pages = [each for each in pages if each[2] >= now - TOKEN_SECONDS]
            pages, tokens = [*pages, [*page, now]][-TOKEN_PAGES_MAX:], {}
        record = [*done, operation_key(name, kind)]
        return replace(manifest, tokens={**tokens, token_key(token): record}, token_pages=pages)

    def folded(self, state: CollectionState) -> CollectionState:
        """Moves the operations of a full tail into objects."""
        pages, tail = list(state.pages), state.tail
        while len(tail) >= TAIL_MAX:
            pages.append(self._put_page(tail[:TAIL_MAX]))
            tail = tail[TAIL_MAX:]
        return replace(state, pages=pages, tail=tail)

    def _put_page(self, contents: Any) -> list[str]:
        """Writes an object, as read_page reads it; returns its name and checksum."""
        data = json.dumps(contents).encode()
        name = f"log/{uuid.uuid4().hex}.json"
        self._store.put(name, data)
        return [name, xxhash.xxh64_hexdigest(data)]


def _term(name: str) -> int:
    return int(name.rpartition("/")[2].partition("-")[0])

"""Manifests: what a cluster holds, one after the other, in the storage.

The storage is the truth: a server only holds what the newest manifest says, and can be loaded again
anywhere. There is one coordinator at a time, but the storage offers no compare-and-swap, so two
rules keep a coordinator that was replaced, and may still run, from losing a commit:

1. A coordinator first writes a claim with a higher term than all others, and then reads the newest
   manifest: that of the highest term, and of this term the highest number.
2. A commit writes its manifest, and then lists the claims. Only if there is no later claim is it
   acknowledged.

If the list has no later claim, the next coordinator's list begins later than the write of the
manifest, so it continues from there. A manifest that arrives late is of a lower term, so no
client reads it after the next commit."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nearfield._errors import Aborted
from nearfield.ray._store import Store

_KEPT = 8  # newest manifests; earlier ones are deleted


@dataclass(frozen=True)
class CollectionState:
    """A collection at one manifest.

    created   number of the manifest that created it
    declared  arguments of create_collection
    rows      live rows of each shard
    log       the operations that make its rows, in order: {"number", "id", "upload": mode,
              "segments": names} or {"number", "id", "ids" or "filter"}. number: of the manifest
              that has it first.
    tokens    of the latest operations: the number and the rows that each returned
    """

    created: int
    declared: dict[str, Any]
    rows: list[int]
    log: list[dict[str, Any]]
    tokens: dict[str, list[int]]


@dataclass(frozen=True)
class Manifest:
    """The state of a cluster.

    number  counts the commits
    layout  counts the changes of `shards`
    shards  servers that share the 4,096 partitions
    """

    term: int = 0
    number: int = 0
    layout: int = 0
    shards: int = 0
    collections: dict[str, CollectionState] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes) -> Manifest:
        found = json.loads(data)
        states = found.pop("collections")
        return Manifest(
            collections={name: CollectionState(**state) for name, state in states.items()}, **found
        )

    def with_collection(self, name: str, state: CollectionState | None) -> Manifest:
        """Returns the next manifest, with this state of a collection; None: without it."""
        states = {**self.collections, name: state}
        left = {key: value for key, value in states.items() if value is not None}
        return replace(self, number=self.number + 1, collections=left)


def newest_claim(store: Store) -> dict[str, Any] | None:
    """Returns {"term", "owner", "address"} of the newest coordinator."""
    claims = store.list("terms")
    return dict(json.loads(store.get(claims[-1]))) if claims else None


class ManifestLog:
    """The manifests that one coordinator writes. Errors: OSError of the store; Aborted if another
    coordinator has claimed a later term."""

    def __init__(self, store: Store, address: str) -> None:
        self._store = store
        self._owner = uuid.uuid4().hex
        claims = store.list("terms")
        self.term = 1 + (_term(claims[-1]) if claims else 0)
        self._claim = f"terms/{self.term:08}-{self._owner}.json"
        claim = {"term": self.term, "owner": self._owner, "address": address}
        store.put(self._claim, json.dumps(claim).encode())
        self._check_claim()
        for name in claims[:-_KEPT]:
            store.delete(name)

    def _check_claim(self) -> None:
        claims = self._store.list("terms")
        others = [name for name in claims if name != self._claim]
        if others and _term(others[-1]) >= self.term:
            raise Aborted(f"another coordinator has claimed the term {_term(others[-1])}")
        if self._claim not in claims:  # another folder is in its place, such as that of a mount
            raise OSError("it does not have the claim of this coordinator")

    def newest(self) -> Manifest:
        """Returns the newest manifest; the empty one if there is none."""
        names = self._store.list("manifests")
        return Manifest.decode(self._store.get(names[-1])) if names else Manifest()

    def append(self, manifest: Manifest) -> None:
        """Writes a manifest. After OSError it may be there or not: repeat the call."""
        assert manifest.term == self.term
        self._store.put(_name(manifest), manifest.encode())
        self._check_claim()

    def forget_old(self) -> None:
        """Deletes manifests that no client needs."""
        for name in self._store.list("manifests")[:-_KEPT]:
            self._store.delete(name)


def _name(manifest: Manifest) -> str:
    return f"manifests/{manifest.term:08}-{manifest.number:012}.json"


def _term(name: str) -> int:
    return int(name.rpartition("/")[2].partition("-")[0])

"""The log: one manifest after the other, each of which is created once. The newest has the first
name of its folder:

    commits/<999,999,999,999 - number>.json

A coordinator commits by creating the manifest after the newest one. The storage lets exactly one
writer create it. Nothing depends on a clock, a lease, a list of the storage, or on there being only
one coordinator: of two, one loses and follows the other.

1. A name is never free again: an old manifest becomes an empty object. So a writer that was paused
   creates no second manifest of a number, and a reader that was paused sees that it is late.
2. A write that failed is in doubt: the same bytes are written again, until the storage has decided.
3. A manifest names the digest of the one before.
4. If all replicas of a shard refuse an operation that is in the log, although they staged it, its
   coordinator withdraws it by the next manifest, unless another one was faster. So a coordinator
   acknowledges what another one wrote only once there is a manifest after it. Until then it may
   show it: the withdrawal is a later manifest, as a delete would be.
5. A read is fresh if the manifest after the one that it shows was absent after the read began.

The methods are generators of requests, which the product and the tests' exploration of all orders
of such requests perform."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import nearfield
from nearfield._errors import DataLoss, Error, Unavailable
from nearfield.ray._manifest import CollectionState, Done, Manifest, Operation, operations_after
from nearfield.ray._steps import Steps, fleet, run, store
from nearfield.ray._store import Store
from nearfield.ray._tokens import Tokens, folded, token_key

NUMBER_MAX = 999_999_999_999
KEPT = 8  # newest manifests that are not empty
_TRIES = 50  # of a commit, while other coordinators are faster
_CHANGE_TRIES = 10  # of a resize or compaction


def object_name(number: int) -> str:
    return f"commits/{NUMBER_MAX - number:012}.json"


def _number_of(name: str) -> int:
    return NUMBER_MAX - int(name.rpartition("/")[2].partition(".")[0])


def _newest(number: int) -> Steps[tuple[int, bytes]]:
    """Finds the newest manifest, with at least this number; returns its number and data, b"" if
    there is no newer one."""
    found = b""
    while (data := (yield store("find", object_name(number + 1)))) is not None:
        if data:
            number, found = number + 1, data
        else:  # the given one is an old one
            name = yield store("first", "commits")
            number, found = _number_of(name), (yield store("get", name))
    return number, found


def newest_number(number: int) -> Steps[int]:
    """Returns the number of the manifest that is the newest at a moment of this call, at least
    `number`."""
    return (yield from _newest(number))[0]


class Log:
    """The log as one coordinator knows it. Errors: OSError of the storage; DataLoss.

    author   of the manifests that it writes
    head     the newest manifest that it knows
    opened   number of its first manifest, which no other coordinator has; 0: none yet
    pending  the manifest after the head, if its write is in doubt"""

    def __init__(self, author: str) -> None:
        self.author = author
        self.head = Manifest()
        self.opened = 0
        self.pending: Manifest | None = None
        self._digest = ""  # of the head
        self._tokens = Tokens()
        self._serial = 0
        self._retired = 1  # all before are empty

    def find(self) -> Steps[None]:
        """Finds the newest manifest, if there is one."""
        name = yield store("first", "commits")
        if name is not None:
            self.head, self._digest = Manifest(_number_of(name) - 1), ""
            yield from self.follow()

    def open(self, first: Manifest) -> Steps[None]:
        """Finds the newest manifest, and writes it again as the next one, of this author. first:
        what to continue if there is none."""
        won = yield from self.settle()
        if not won:
            self.head, self._digest = first, ""
            yield from self.find()
        while not won:
            won = yield from self.append(self.head)
        self.opened = self.head.number
        self._retired = max(1, self.opened - 2 * KEPT)

    def follow(self) -> Steps[None]:
        """Reads the manifests after the head."""
        number = self.head.number
        while (data := (yield store("find", object_name(number + 1)))) is not None:
            number += 1
            if not data:
                number, data = yield from _newest(number)
            name = object_name(number)
            found = Manifest.decode(data, name)
            if found.number != number:
                raise DataLoss(f"{name}: it is damaged: it has the number {found.number}")
            if self._digest and number == self.head.number + 1 and found.previous != self._digest:
                raise DataLoss(f"{name}: it does not follow the manifest before it")
            self.head, self._digest = found, digest_of(data)

    def append(self, manifest: Manifest) -> Steps[bool]:
        """Creates the manifest after the head, with these contents. Returns False if another
        coordinator was faster, after it has read what is there. After OSError: settle()."""
        self.pending = replace(
            manifest, number=self.head.number + 1, author=self.author, previous=self._digest
        )
        return (yield from self.settle())

    def settle(self) -> Steps[bool]:
        """Writes the manifest in doubt again, and follows the one that is there if it is another
        one. Returns whether there was one in doubt and it is there."""
        if self.pending is None:
            return False
        data = self.pending.encode()
        name = object_name(self.pending.number)
        won = yield store("put_new", name, data)
        if not won:  # an earlier try may have won
            won = (yield store("get", name)) == data
        if won:
            self.head, self._digest = self.pending, digest_of(data)
        self.pending = None
        if not won:
            yield from self.follow()
        return bool(won)

    def retire(self) -> Steps[None]:
        """Overwrites old manifests with empty objects: their names stay taken."""
        while self._retired <= self.head.number - KEPT:
            yield store("put", object_name(self._retired), b"")
            self._retired += 1

    # Commits.

    def commit(
        self, name: str, operation: Operation, token: str, created: int | None
    ) -> Steps[Done]:
        """Commits an operation; returns the result of the commit with this token, even of an
        earlier one. created: of the collection that is meant, if that is known."""
        for _ in range(_TRIES):
            yield from self.settle()
            yield fleet("load")
            before = self.head
            done = yield from self.done(token, name, operation["kind"])
            if done is not None:
                if done.number < before.number or before.author == self.author:
                    return done
                yield from self.append(before)
                continue
            self._serial += 1
            named = {**operation, "id": f"{self.author}-{self._serial}"}
            try:
                state = _checked(before, name, operation, created)
                rows, changed = yield fleet("stage", before, name, named)
                done = _result(before, state, operation["kind"], rows, changed)
                after = yield from self._after(name, named, rows, token, done)
                won = yield from self.append(after)
            except (OSError, Unavailable):
                yield fleet("abandon", named)
                raise
            except Error:
                yield from self.follow()
                if self.head is before:
                    raise
                continue  # what another one has committed may be the reason
            if not won:
                yield fleet("abandon", named, True)
                continue
            refused = yield fleet("apply", before, name, named)
            if refused is None:
                return done
            if (yield from self.append(before)):
                yield fleet("load")
                raise refused
            raise Unavailable(f"committed, but a shard refuses it: {refused}")
        raise Unavailable(f"other coordinators have committed {_TRIES} times before it")

    def _after(
        self, name: str, operation: Operation, rows: list[int], token: str, done: Done
    ) -> Steps[Manifest]:
        """Returns the contents of the manifest with an operation."""
        before, kind, by = self.head, operation["kind"], operation["id"]
        made: CollectionState | None = None
        if kind == "create":
            made = CollectionState(by, done.number, operation["declared"], rows)
        elif kind != "drop":
            state = yield from folded(before.collections[name], by)
            last = [state.last, state.rows, token_key(token)]
            tail = [*state.tail, operation]
            made = replace(state, rows=rows, last=by, tail=tail, before=last)
        after = before.with_state(name, made)
        return (yield from self._tokens.added(after, token, name, kind, done, by))

    def done(self, token: str, name: str, kind: str) -> Steps[Done | None]:
        """Returns what the commit with this token returned; None if none is known. Errors:
        FailedPrecondition if it was of another collection or kind."""
        return (yield from self._tokens.done(self.head, token, name, kind))

    def change(
        self, make: Callable[[Manifest], Steps[Manifest]]
    ) -> Steps[tuple[Manifest, Manifest]]:
        """Commits what is made of the newest manifest, again if another coordinator was faster;
        returns both. Errors: those of `make`; Aborted."""
        for _ in range(_CHANGE_TRIES):
            yield from self.settle()
            yield from self.follow()
            yield fleet("load")
            before = self.head
            made = yield from make(before)
            if (yield from self.append(made)):
                yield fleet("load")
                return before, self.head
        raise nearfield.Aborted("other coordinators were faster: try again")

    def withdraw(self, name: str) -> Steps[None]:
        """Commits the state of a collection before its last operation. Errors: Aborted;
        FailedPrecondition if that state is not known."""
        state = self.head.collections[name]
        if not state.tail or not state.before or state.before[2] not in self.head.tokens:
            reason = f"{name!r}: what was before its last commit is not known"
            raise nearfield.FailedPrecondition(reason)
        last, rows, token = state.before
        made = replace(state, last=last, rows=rows, tail=state.tail[:-1], before=[])
        tokens = {key: each for key, each in self.head.tokens.items() if key != token}
        if not (yield from self.append(replace(self.head.with_state(name, made), tokens=tokens))):
            raise nearfield.Aborted("another coordinator has committed meanwhile: try again")


def _checked(
    manifest: Manifest, name: str, operation: Operation, created: int | None
) -> CollectionState | None:
    """Returns the state of the collection that an operation is for."""
    state = manifest.collections.get(name)
    if operation["kind"] == "create":
        if state is not None:
            same = state.declared == operation["declared"]
            another = "" if same else " with another declaration"
            raise nearfield.AlreadyExists(f"the collection {name!r} exists{another}")
        return None
    if state is None:
        raise nearfield.NotFound(f"collection: there is no {name!r}")
    if created not in (None, state.created):
        raise nearfield.Aborted(f"the collection {name!r} is another one now")
    return state


def _result(
    before: Manifest, state: CollectionState | None, kind: str, rows: list[int], changed: int
) -> Done:
    number = before.number + 1
    if state is None:
        return Done(number, changed, replaced=0, created=number)
    uploads = kind in ("insert", "upsert", "replace")
    replaced = sum(state.rows) + changed - sum(rows) if uploads else 0
    return Done(number, changed, replaced, state.created)


def unchanged(manifest: Manifest) -> Steps[Manifest]:
    yield from ()
    return manifest


def laid_out(
    before: int, layout: int, shards: int, slots: Any, manifest: Manifest
) -> Steps[Manifest]:
    """Returns the next manifest with new servers, `slots`, whose layout takes the place of the
    layout `before`. Errors: Aborted."""
    if manifest.layout != before:
        raise nearfield.Aborted("another coordinator has changed the shards")
    rows = yield fleet("rows", manifest, shards, slots)
    collections = {}
    for name, state in manifest.collections.items():
        found, wanted = sum(rows[name]), sum(state.rows)
        if found != wanted:
            raise nearfield.Internal(f"{name}: the new shards have {found} of {wanted} rows")
        collections[name] = replace(state, rows=rows[name], before=[])
    return replace(manifest, layout=layout, shards=shards, collections=collections)


def compacted(
    name: str, state: CollectionState, segments: list[Any], by: str, manifest: Manifest
) -> Steps[Manifest]:
    """Returns the next manifest, in which the rows of a state, as segments, take the place of its
    operations. by: id of the compaction. Errors: Aborted."""
    now, after = manifest.collections.get(name), None
    if now is not None and now.id == state.id:
        after = yield from operations_after(now, state.last)
    if now is None or after is None:
        raise nearfield.Aborted(f"the collection {name!r} was dropped or compacted")
    base = {"id": state.last, "kind": "replace", "segments": segments}
    made = yield from folded(replace(now, pages=[], tail=[base, *after]), by)
    known = after and made.tail  # its end is the last operation, which may be withdrawn
    return manifest.with_state(name, replace(made, before=now.before if known else []))


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def newest_manifest(storage: Store) -> Manifest | None:
    """Returns the newest manifest; None if there is none. Errors: OSError; those of Log."""
    log = Log("")
    run(log.find(), store=storage)
    return log.head if log.head.layout else None

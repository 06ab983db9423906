"""Explores every order in which coordinators and readers of nearfield.ray may reach their storage.

The processes run the generators of the product (nearfield.ray._log). Between any two of their requests the explorer
lets every other process go on, end (as by kill -9, or a pause without end), or see a write fail that took effect, did
not, or takes effect much later. A process is nothing but the replies that it has got, so equal states are explored once.

The laws, in every order:
  a manifest never changes, except that it becomes empty, and the next one continues it
  each operation takes place once at most, and in the collection that it was meant for
  a manifest changes the operations of one collection at most
  what was acknowledged is in every later manifest, and a fresh read that begins later sees it
  a layout has one number of shards, and each collection a number of rows for each of them
  at the end, a new coordinator can serve what is there"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

from nearfield._errors import Error, ResourceExhausted, Unavailable
from nearfield.ray import _log
from nearfield.ray._log import Log, object_name
from nearfield.ray._manifest import CollectionState, Manifest
from nearfield.ray._steps import Request, Steps, performed

FIRST = Manifest(layout=1, shards=1)
NAMES = {2: "docs", 3: "more"}  # the collections, by the number of the manifest that creates each: setup()


class Violation(AssertionError):
    """A law that does not hold, and the steps that led there."""


class Event(NamedTuple):
    """A report of a process: ("ack", token, number), ("begin",) of a fresh read, ("read", number)."""

    kind: str
    arguments: tuple[Any, ...] = ()


class Failure(NamedTuple):
    """The reply of a request that failed."""

    reason: str


def meant(token: str) -> int | None:
    """Returns which collection an operation is for: "a@2" for the one that manifest 2 created."""
    return int(token.partition("@")[2]) if "@" in token else None


@lru_cache(maxsize=None)
def decoded(data: bytes) -> Manifest:
    return Manifest.decode(data)


def contents(state: CollectionState) -> list[str]:
    """Returns the tokens of the operations that a collection has. The segments of a compaction are such tokens."""
    return [token for each in state.tail for token in each.get("segments", [each.get("filter")])]


class Fleet:
    """The replicas of one coordinator. poison: tokens of operations that they refuse after they have staged them."""

    def __init__(self, log: Any, poison: Any) -> None:
        self._log, self._poison = log, frozenset(poison)
        self.loaded = True

    def load(self) -> None:
        held = [token for state in self._log.head.collections.values() for token in contents(state)]
        self.loaded = self._poison.isdisjoint(held)

    def stage(self, manifest: Manifest, name: str, operation: Any) -> tuple[list[int], int]:
        if not self.loaded:
            raise Unavailable("a shard has no server")
        return [0] * manifest.shards, 1

    def rows(self, manifest: Manifest, shards: int, slots: Any) -> dict[str, list[int]]:
        return {name: [0] * shards for name in manifest.collections}

    def abandon(self, operation: Any, again: bool = False) -> None:
        pass

    def apply(self, before: Manifest, name: str, operation: Any) -> Exception | None:
        return ResourceExhausted("full") if operation.get("filter") in self._poison else None


Process = Generator[Any, Any, None]


def coordinator(
    protocol: Any, author: str, *program: str, poison: Any = (), kinds: Any = {}, retires: bool = False, withdraws: bool = False
) -> Process:
    """Commits operations, each until it is acknowledged or refused. program: their tokens, or names of CHANGES, which are
    not repeated; kinds: by token, if they are not deletes by a filter; retires: makes old manifests empty; withdraws: an operator does so when it has no servers."""
    log = protocol.Log(author)
    fleet = Fleet(log, poison)
    while not log.opened:
        try:
            yield from performed(log.open(FIRST), fleet=fleet)
        except OSError:
            continue
    for token in program:
        if token in CHANGES:
            with contextlib.suppress(OSError, Error):
                yield from performed(CHANGES[token](protocol, log, fleet), fleet=fleet)
            continue
        kind, name = kinds.get(token, "filter"), NAMES[meant(token) or 2]
        operation = {"kind": kind, "filter": token} if kind == "filter" else {"kind": kind, "declared": {}}
        while True:
            try:
                done = yield from performed(log.commit(name, operation, token, meant(token)), fleet=fleet)
                if fleet.loaded:  # else no search can see it
                    yield Event("ack", (token, done.number))
                if retires:
                    yield from performed(log.retire(), fleet=fleet)
            except OSError:
                continue
            except Error:
                pass
            if withdraws:
                with contextlib.suppress(OSError, Error):
                    yield from performed(withdraw(log, fleet), fleet=fleet)
            break


def resize(shards: int, protocol: Any, log: Any, fleet: Fleet) -> Steps[None]:
    """As Coordinator._replace_servers, whose new servers are always ready."""
    before, after = yield from log.change(protocol.unchanged)
    yield from log.change(partial(protocol.laid_out, before.layout, after.number, shards, None))


def withdraw(log: Any, fleet: Fleet) -> Steps[None]:
    """As Coordinator.withdraw, of an operator, if the coordinator has no servers."""
    yield from log.follow()
    fleet.load()
    if not fleet.loaded:
        yield from log.withdraw("docs")


def compact(protocol: Any, log: Any, fleet: Fleet) -> Steps[None]:
    """As Coordinator.compact. The segments are the tokens of the operations that they have the rows of."""
    yield from log.settle()
    fleet.load()
    state = log.head.collections["docs"]
    if fleet.loaded and state.last:
        yield from log.change(partial(protocol.compacted, "docs", state, contents(state), "by"))


CHANGES: dict[str, Any] = {"resize to 2": partial(resize, 2), "resize to 3": partial(resize, 3), "compact": compact}


def reader(protocol: Any, number: int) -> Process:
    """Reads at the newest manifest. number: of the one that it knows."""
    yield Event("begin")
    try:
        found = yield from protocol.newest_number(number)
    except OSError:
        return
    yield Event("read", (found,))


class State(NamedTuple):
    """replies: of each process, None once it has ended. landing: writes that have not arrived yet. begun: the highest
    number that was acknowledged before the fresh read."""

    objects: tuple[tuple[str, bytes], ...] = ()
    landing: tuple[Request, ...] = ()
    replies: tuple[tuple[Any, ...] | None, ...] = ()
    faults: int = 0
    acknowledged: tuple[tuple[str, int], ...] = ()
    begun: int = 0


@dataclass
class Explorer:
    """processes: what makes each of them, with the protocol. faults: ends and failed writes in one order, at most. poison:
    as in Fleet, of the coordinator after the end."""

    processes: list[Callable[[Any], Process]]
    faults: int = 0
    poison: Any = ()
    retires: bool = False
    protocol: Any = _log
    known: dict[Any, Any] = field(default_factory=dict)  # the next request, by process and replies

    def explore(self) -> int:
        """Explores everything; returns the number of the states. Raises Violation."""
        start = setup()._replace(replies=((),) * len(self.processes))
        seen, waiting, path = {start}, [(start, 0, "")], []
        while waiting:
            state, depth, step = waiting.pop()
            path[depth:] = [step]
            ended = True
            for step, after in self._after(state, path):
                ended = False
                if after not in seen:
                    seen.add(after)
                    waiting.append((after, depth + 1, step))
            if ended:
                self._check_end(state, path)
        return len(seen)

    def _after(self, state: State, path: Any) -> Iterator[tuple[str, State]]:
        """Yields the possible next steps, with the state that each leads to."""
        requests = [(number, self._next(number, each)) for number, each in enumerate(state.replies) if each is not None]
        for number, request in requests:
            if isinstance(request, Request) and request.method in ("find", "get") and not self.retires:
                reply = _written(state, request, path)[1]
                if reply is not None:  # it is the same whenever it is read: no other order differs
                    yield f"{number}: {request.method}", _replied(state, number, reply)
                    return
        for place, request in enumerate(state.landing):
            left = state.landing[:place] + state.landing[place + 1 :]
            yield f"lands: {request.arguments[0]}", _written(state._replace(landing=left), request, path)[0]
        for number, request in requests:
            if isinstance(request, Event):
                yield f"{number}: {request}", _told(_replied(state, number, None), request, path)
            elif request is not None:
                yield from self._outcomes(state, number, request, path)

    def _outcomes(self, state: State, number: int, request: Request, path: Any) -> Iterator[tuple[str, State]]:
        """Yields the outcomes of a request."""
        name = f"{number}: {request.method} {request.arguments[0]}"
        after, reply = _written(state, request, path)
        yield name, _replied(after, number, reply)
        if state.faults == self.faults:
            return
        fault = state._replace(faults=state.faults + 1)
        yield f"{number} ends", _replied(fault, number, None, ended=True)
        failed = Failure("no answer")
        yield f"{name} fails", _replied(fault, number, failed)
        if request.method in ("put", "put_new"):
            late = fault._replace(landing=(*fault.landing, request))
            yield f"{name} fails, and lands later", _replied(late, number, failed)
            yield f"{name} fails, but lands", _replied(_written(fault, request, path)[0], number, failed)
            yield f"{number} ends, its write lands later", _replied(late, number, None, ended=True)

    def _next(self, number: int, replies: tuple[Any, ...]) -> Any:
        """Returns the next request of a process, None if it is done."""
        if (number, replies) not in self.known:
            self.known[number, replies] = self._replayed(number, replies)
        return self.known[number, replies]

    def _replayed(self, number: int, replies: tuple[Any, ...]) -> Any:
        process = self.processes[number](self.protocol)
        try:
            request = next(process)
            for reply in replies:
                failed = isinstance(reply, Failure)
                request = process.throw(OSError(reply.reason)) if failed else process.send(reply)
        except StopIteration:
            return None
        return request

    def _check_end(self, state: State, path: Any) -> None:
        """A new coordinator must be able to serve, if need be after the operator's command."""
        log = self.protocol.Log("last")
        fleet = Fleet(log, self.poison)
        state = _after_all(state, log.open(FIRST), fleet, path)
        fleet.load()
        if not fleet.loaded:
            state = _after_all(state, log.withdraw("docs"), fleet, path)
            fleet.load()
        if not fleet.loaded:
            raise Violation(f"no server can load the newest manifest\n{_lines(path)}")


def _after_all(state: State, steps: Steps[Any], fleet: Fleet, path: Any) -> State:
    process = performed(steps, fleet=fleet)
    reply: Any = None
    while True:
        try:
            request = process.send(reply)
        except StopIteration:
            return state
        state, reply = _written(state, request, path)


def _replied(state: State, number: int, reply: Any, ended: bool = False) -> State:
    replies = list(state.replies)
    replies[number] = None if ended else (*(replies[number] or ()), reply)
    return state._replace(replies=tuple(replies))


def _written(state: State, request: Request, path: Any) -> tuple[State, Any]:
    """Performs a request; returns the state and the reply."""
    objects, method, arguments = dict(state.objects), request.method, request.arguments
    if method == "find":
        return state, objects.get(arguments[0])
    if method == "get":
        return state, objects[arguments[0]]
    if method == "get_all":
        return state, [objects[name] for name in arguments[0]]
    if method == "first":
        return state, min((name for name in objects if name.startswith(arguments[0])), default=None)
    if method == "delete":
        return state._replace(objects=tuple(sorted((k, v) for k, v in objects.items() if k != arguments[0]))), None
    name, data = arguments
    if method == "put_new" and name in objects:
        return state, False
    if name.startswith("commits/"):
        _check_manifest(state, objects, name, data, path)
    objects[name] = data
    return state._replace(objects=tuple(sorted(objects.items()))), True


def _check_manifest(state: State, objects: dict[str, bytes], name: str, data: bytes, path: Any) -> None:
    if not data:
        return
    made = decoded(data)
    if made.number <= max((number for _, number in state.acknowledged), default=0):
        raise Violation(f"manifest {made.number} was written next to another one\n{_lines(path)}")
    before = objects.get(object_name(made.number - 1))
    if before is None and made.number > 1:
        raise Violation(f"manifest {made.number} follows nothing\n{_lines(path)}")
    others = [decoded(each) for key, each in objects.items() if key.startswith("commits/") and each]
    if any(each.layout == made.layout and each.shards != made.shards for each in others):
        raise Violation(f"the layout {made.layout} has two numbers of shards\n{_lines(path)}")
    if before and _changed(decoded(before), made) > 1:
        raise Violation(f"manifest {made.number} changes several collections\n{_lines(path)}")
    for held in made.collections.values():
        if len(held.rows) != made.shards:
            raise Violation(f"manifest {made.number} has rows of {len(held.rows)} of {made.shards} shards\n{_lines(path)}")
        tokens = contents(held)
        if len(tokens) != len(set(tokens)):
            raise Violation(f"an operation took place twice: {tokens}\n{_lines(path)}")
        if any(meant(token) != held.created for token in tokens):
            raise Violation(f"an operation took place in another collection: {tokens}\n{_lines(path)}")
    for token, number in state.acknowledged:
        if made.number > number and _is_missing(token, made):
            raise Violation(f"{token}, acknowledged at {number}, is not in {made.number}\n{_lines(path)}")


def _changed(before: Manifest, after: Manifest) -> int:
    """Returns the number of collections whose operations differ."""
    held = [{name: (state.id, contents(state)) for name, state in each.collections.items()} for each in (before, after)]
    return sum(held[0].get(name) != held[1].get(name) for name in held[0].keys() | held[1].keys())


def _told(state: State, event: Event, path: Any) -> State:
    newest = max((number for _, number in state.acknowledged), default=0)
    if event.kind == "begin":
        return state._replace(begun=newest)
    if event.kind == "read":
        if event.arguments[0] < state.begun:
            raise Violation(f"a fresh read shows {event.arguments[0]}, but {state.begun} was acknowledged\n{_lines(path)}")
        return state
    token, number = event.arguments
    _check_acknowledged(state, token, number, path)
    return state._replace(acknowledged=tuple(sorted({*state.acknowledged, (token, number)})))


def _check_acknowledged(state: State, token: str, number: int, path: Any) -> None:
    numbered = {each: data for each, data in state.objects if each.startswith("commits/") and data}
    newest = decoded(numbered[min(numbered)])
    if _is_missing(token, newest):
        raise Violation(f"{token} was acknowledged at {number}, but is not in the log\n{_lines(path)}")
    if any(other == token and at != number for other, at in state.acknowledged):
        raise Violation(f"{token} was acknowledged with two numbers\n{_lines(path)}")


def _is_missing(token: str, manifest: Manifest) -> bool:
    """Returns True if a collection exists without an operation that it had."""
    held = [each for each in manifest.collections.values() if each.created == meant(token)]
    return any(token not in contents(state) for state in held)


def setup() -> State:
    """Returns a storage with the empty collections."""
    log = Log("setup")
    fleet, state = Fleet(log, ()), State()
    state = _after_all(state, log.open(FIRST), fleet, ())
    for name in NAMES.values():
        state = _after_all(state, log.commit(name, {"kind": "create", "declared": {}}, f"-create {name}", None), fleet, ())
    return state


def _lines(path: Any) -> str:
    return "\n".join(path)

"""How a client of a cluster reaches its coordinator, its storage and its shards."""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from nearfield._blocking import run
from nearfield._errors import DeadlineExceeded, NotFound, Unavailable
from nearfield._retry import BlockingClock, Retries, RetryPolicy
from nearfield.ray._checks import Checks
from nearfield.ray._log import newest_number
from nearfield.ray._manifest import Done, Operation
from nearfield.ray._rpc import WAITING, Caller, Unreachable
from nearfield.ray._segment import put_tables
from nearfield.ray._shard_calls import HEDGE_SECONDS, PASSING, Ask, Late, ShardCalls, View
from nearfield.ray._steps import run as run_steps
from nearfield.ray._store import Store

T = TypeVar("T")

_PAUSE_SECONDS = 0.05  # before another try
_WAIT_SECONDS = 5.0  # for which one call waits for another view
_REPEATED = ("view", "status", "waiting", "ready", "commit")  # calls that are safe to repeat
_CHECK_SECONDS = 0.1  # between two checks of searches that need not be fresh


def _retries(deadline: float) -> Retries:
    """Returns the tries of a call to a coordinator, which may have moved: until the deadline."""
    policy = RetryPolicy(backoff_max=_PAUSE_SECONDS)
    return Retries(policy, BlockingClock(), deadline, math.inf, answered=lambda: True)


class ClusterCalls:
    """Calls with the deadlines and repetitions of a Client, whose arguments these are.
    Thread safety: any number of threads."""

    def __init__(self, storage: str, *, timeout: float = 30.0, cluster: str | None = None) -> None:
        self._store = Store(storage)
        self._timeout = timeout
        self._cluster = cluster
        self._lock = threading.Lock()
        self._shard_calls = ShardCalls()
        self._views = Checks(partial(self._refresh, wait_max=0.0))
        self._newest = Checks(self._newest_number)
        self._caller: Caller | None = None
        self._turn = 0  # of the coordinators, if there are several
        self._view: View | None = None
        self._checked = 0.0  # when the last check of the view began
        self._number_min = 0  # of this client's own commits

    def close(self) -> None:
        """Ends the connections, once the calls that run have ended."""
        self._shard_calls.close()
        self._views.close()
        self._newest.close()
        if self._caller is not None:
            self._caller.close()

    def put(self, tables: Iterable[Any]) -> list[dict[str, Any]]:
        """Writes the segments of an operation. Errors: Unavailable; those of `tables`."""

        def put(name: str, data: bytes) -> None:
            try:
                self._store.put(name, data)
            except OSError as error:
                raise Unavailable(f"storage: {error}") from None

        return put_tables(put, tables)

    def deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else timeout)

    def call(self, method: str, timeout: float | None, **arguments: Any) -> Any:
        """Calls the coordinator. A call without an answer is repeated, with the next coordinator if
        there is one, unless it must not take effect twice, or at another cluster."""
        deadline = self.deadline(timeout)
        repeated = method in _REPEATED
        if not repeated:
            self.call("status", timeout)  # finds the coordinator of now
        retries = _retries(deadline)
        while True:
            caller = None
            try:
                caller = self._coordinator()
                return caller.call(method, deadline - time.monotonic(), **arguments)
            except (Unreachable, DeadlineExceeded) as error:
                with self._lock:
                    if caller is self._caller:
                        self._caller, self._turn = None, self._turn + 1
                unsent = caller is None or WAITING in error.message
                if isinstance(error, DeadlineExceeded) or not (unsent or repeated):
                    raise
                run(retries.wait(error))

    def commit(
        self, name: str, what: Operation, token: Any, deadline: float, created: Any = None
    ) -> Done:
        """Commits an operation, once for its token, by the deadline."""
        arguments = {"name": name, "operation": what, "created": created}
        arguments["token"] = token or uuid.uuid4().hex
        retries = _retries(deadline)
        while True:
            try:
                done = Done(*self.call("commit", deadline - time.monotonic(), **arguments))
            except (Unavailable, DeadlineExceeded) as error:
                run(retries.wait(error))
                continue
            with self._lock:
                self._number_min = max(self._number_min, done.number)
            return done

    def _coordinator(self) -> Caller:
        caller, wanted = self._caller, self._cluster
        if caller is not None:
            return caller
        try:
            found = self._store.get_all(self._store.list("coordinators"))
        except OSError as error:
            raise Unreachable(f"storage: {error}") from None
        cards = sorted(map(json.loads, found), key=lambda card: -card["opened"])
        cards = [card for card in cards if wanted in (None, card["name"], card["cluster"])]
        if not cards:
            named = "" if wanted is None else f" {wanted!r}"
            raise Unreachable(f"no cluster{named} runs on this storage")
        with self._lock:
            if self._caller is None:
                card = cards[self._turn % len(cards)]
                self._caller = Caller(card["address"], card["cluster"])
            return self._caller

    # Views: what the coordinator shows.

    def _current(self, deadline: float, number: int = 0) -> View:
        """Returns a view of the manifest `number` or a later one, and of all own commits."""
        while True:
            wanted, view = max(number, self._number_min), self._view
            if view is not None and view["number"] >= wanted:
                return view
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"the coordinator did not show manifest {wanted} in time")
            found = self._refresh(deadline, _WAIT_SECONDS, wanted)
            if found["number"] < wanted:  # too many calls wait at the coordinator, or for too long
                threading.Event().wait(_PAUSE_SECONDS)

    def _refresh(self, deadline: float, wait_max: float, number: int = 0) -> View:
        """Returns the view of the coordinator at a moment of this call, or after up to `wait_max`
        seconds in which it did not become another one, of the manifest `number` or a later one."""
        left = deadline - time.monotonic()
        have = self._view["have"] if self._view is not None else None
        wait = max(0.0, min(wait_max, left / 2))
        found = self.call("view", left, have=have, wait=wait, number=number)
        with self._lock:
            if found and (self._view is None or _follows(found, self._view)):
                self._view = found
                self._shard_calls.forget_others(found)
            assert self._view is not None
            return self._view

    def _newest_number(self, deadline: float) -> int:
        """Returns the number of the newest manifest of the storage."""
        view, retries = self._view, _retries(deadline)
        assert view is not None
        while True:
            try:
                return run_steps(newest_number(view["number"]), store=self._store)
            except OSError as error:
                run(retries.wait(Unavailable(f"storage: {error}")))

    def _look(self, deadline: float) -> Future[View] | None:
        """Refreshes the view in the background, now and then."""
        now = time.monotonic()
        if now < self._checked + _CHECK_SECONDS:
            return None
        self._checked = now
        return self._views.join(min(deadline, now + HEDGE_SECONDS))

    def read(
        self,
        name: str,
        timeout: float | None,
        fresh: bool,
        ask: Ask[T],
        shards_in: Callable[[View], Sequence[int]] = lambda view: range(len(view["shards"])),
    ) -> tuple[View, list[T]]:
        """Asks the shards, by default all, at one manifest; returns it and their answers. A part
        that a server does not give is requested from another replica, and then all parts again,
        until the deadline; there is no answer with some of the parts. fresh: at a manifest that was
        the newest at a moment of this call."""
        deadline = self.deadline(timeout)
        view = self._current(deadline)
        newest = self._newest.join(deadline) if fresh else None
        failed = False  # the view was shown after a part had failed
        patient = False  # waits for late servers, instead of changing the view again
        while True:
            self._look(deadline)
            try:
                if name not in view["collections"]:
                    raise NotFound(f"collection: there is no {name!r}")
                newer = None if patient else partial(self._newer, deadline)
                parts = self._shard_calls.ask_all(view, name, shards_in(view), ask, deadline, newer)
            except Late:
                view, patient = self._current(deadline), True
                continue
            except PASSING as error:
                gone = failed and name not in view["collections"]
                if gone and (newest is None or self._confirmed(view, newest, deadline) is view):
                    raise
                view, failed = self._after(view, deadline, error), True
                continue
            if newest is None:
                return view, parts
            confirmed = self._confirmed(view, newest, deadline)
            if confirmed is view:
                return view, parts
            view, newest = confirmed, None

    def _confirmed(self, view: View, newest: Future[int], deadline: float) -> View:
        """Returns the view if it is of the newest manifest, else a later one."""
        wait([newest], max(0.0, deadline - time.monotonic()))
        if not newest.done():
            raise DeadlineExceeded("the storage did not answer in time")
        number = newest.result()
        return view if number <= view["number"] else self._current(deadline, number)

    def _newer(self, deadline: float) -> View | None:
        """Returns the view of now, if the coordinator answers at once."""
        check = self._look(deadline)
        if check is not None:
            wait([check], _CHECK_SECONDS)
        return self._view

    def _after(self, view: View, deadline: float, error: Exception) -> View:
        """Returns the present view after an error, once it has changed or a short time has passed.
        Raises the error at the deadline."""
        if time.monotonic() + _PAUSE_SECONDS >= deadline:
            raise error
        try:
            found = self._refresh(deadline, 2 * _PAUSE_SECONDS, view["number"])
        except (Unavailable, DeadlineExceeded):
            raise error from None
        if found is view:
            threading.Event().wait(_PAUSE_SECONDS)
        return found


def _follows(found: View, view: View) -> bool:
    """Returns True if a view is not older than another one."""
    (coordinator, serial), (another, before) = found["have"], view["have"]
    if found["number"] != view["number"]:
        return bool(found["number"] > view["number"])
    return bool(coordinator != another or serial > before)

"""How a client of a cluster reaches its coordinator, its storage and its shards."""

from __future__ import annotations

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
from nearfield.ray._manifest import Done, newest_claim
from nearfield.ray._rpc import Caller, Unreachable
from nearfield.ray._segment import put_tables
from nearfield.ray._shard_calls import HEDGE_SECONDS, PASSING, Ask, Late, ShardCalls, View
from nearfield.ray._store import Store
from nearfield.ray._view_checks import ViewChecks

T = TypeVar("T")

_PAUSE_SECONDS = 0.05  # before another try
_WAIT_SECONDS = 5.0  # for which one call waits for another view
_CHECK_SECONDS = 0.1  # between two checks of searches that need not be fresh


def _retries(deadline: float) -> Retries:
    """Returns the tries of a call to a coordinator, which may have moved: until the deadline."""
    policy = RetryPolicy(backoff_max=_PAUSE_SECONDS)
    return Retries(policy, BlockingClock(), deadline, math.inf, answered=lambda: True)


class ClusterCalls:
    """Calls with the deadlines and repetitions of a Client, whose arguments these are.
    Thread safety: any number of threads."""

    def __init__(self, storage: str, *, timeout: float = 30.0) -> None:
        self._store = Store(storage)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._shard_calls = ShardCalls()
        self._checks = ViewChecks(partial(self._refresh, wait_max=0.0))
        self._caller: Caller | None = None
        self._view: View | None = None
        self._checked = 0.0  # when the last check began
        self._number_min = 0  # of this client's own commits

    def close(self) -> None:
        """Ends the connections, once the calls that run have ended."""
        self._shard_calls.close()
        self._checks.close()
        with self._lock:
            if self._caller is not None:
                self._caller.close()

    def put(self, tables: Iterable[Any]) -> list[dict[str, Any]]:
        """Writes the segments of an operation."""
        try:
            return put_tables(self._store, tables)
        except OSError as error:
            raise Unavailable(f"storage: {error}") from None

    def deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else timeout)

    def call(self, method: str, timeout: float | None, **arguments: Any) -> Any:
        """Calls the coordinator. A call without an answer is repeated, with the next coordinator if
        there is one."""
        deadline = self.deadline(timeout)
        retries = _retries(deadline)
        while True:
            caller = None
            try:
                caller = self._coordinator()
                return caller.call(method, deadline - time.monotonic(), **arguments)
            except (Unreachable, DeadlineExceeded) as error:
                with self._lock:
                    if caller is self._caller:
                        self._caller = None
                if isinstance(error, DeadlineExceeded):
                    raise
                run(retries.wait(error))

    def commit(
        self,
        name: str,
        operation: dict[str, Any],
        token: str | None,
        timeout: float | None,
        created: int | None = None,
    ) -> Done:
        """Commits an operation, once for its token, by the deadline."""
        deadline = self.deadline(timeout)
        arguments = {"name": name, "operation": operation, "created": created}
        arguments["token"] = token or uuid.uuid4().hex
        retries = _retries(deadline)
        while True:
            try:
                left = deadline - time.monotonic()
                done = Done(*self.call("commit", left, **arguments))
            except (Unavailable, DeadlineExceeded) as error:
                run(retries.wait(error))
                continue
            with self._lock:
                self._number_min = max(self._number_min, done.number)
            return done

    def _coordinator(self) -> Caller:
        caller = self._caller
        if caller is not None:
            return caller
        try:
            claim = newest_claim(self._store)
        except OSError as error:
            raise Unreachable(f"storage: {error}") from None
        if claim is None:
            raise Unreachable("no cluster has used this storage")
        with self._lock:
            if self._caller is None:
                self._caller = Caller(claim["address"])
            return self._caller

    # Views: what the coordinator shows.

    def _current(self, deadline: float) -> View:
        """Returns a view that has this client's own commits."""
        while self._view is None or self._view["number"] < self._number_min:
            if time.monotonic() > deadline:
                raise DeadlineExceeded("the coordinator did not show the last commit in time")
            self._refresh(deadline, _WAIT_SECONDS)
        return self._view

    def _refresh(self, deadline: float, wait_max: float) -> View:
        """Returns the view of the coordinator at a moment of this call, or after up to `wait_max`
        seconds in which it did not change."""
        view = self._view
        left = deadline - time.monotonic()
        have = view["have"] if view is not None else None
        found = self.call("view", left, have=have, wait=max(0.0, min(wait_max, left / 2)))
        with self._lock:
            if found and (self._view is None or found["have"] > self._view["have"]):
                self._view = found
                self._shard_calls.forget_others(found)
            assert self._view is not None
            return self._view

    def _check(self, fresh: bool, deadline: float) -> Future[View] | None:
        """Refreshes the view in the background, for all searches that have begun by then; for a
        search that need not be fresh, only now and then."""
        now = time.monotonic()
        if not fresh and now < self._checked + _CHECK_SECONDS:
            return None
        self._checked = now
        return self._checks.join(deadline if fresh else min(deadline, now + HEDGE_SECONDS))

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
        checked = False  # the view was shown at a moment of this call
        patient = False  # waits for late servers, instead of changing the view again
        while True:
            check = None if checked else self._check(fresh, deadline)
            try:
                if name not in view["collections"]:
                    raise NotFound(f"collection: there is no {name!r}")
                newer = None if patient else partial(self._newer, deadline)
                parts = self._shard_calls.ask_all(view, name, shards_in(view), ask, deadline, newer)
            except Late:
                view, patient = self._current(deadline), True
                continue
            except PASSING as error:
                if checked and name not in view["collections"]:
                    raise
                view = self._after(view, deadline, error)
                checked = True
                continue
            if check is None or not fresh:
                return view, parts
            wait([check], max(0.0, deadline - time.monotonic()))
            if not check.done():
                raise DeadlineExceeded("the coordinator did not answer in time")
            newest = check.result()
            checked = True
            if newest["number"] == view["number"]:
                return view, parts
            view = newest

    def _newer(self, deadline: float) -> View | None:
        """Returns the view of now, if the coordinator answers at once."""
        check = self._check(False, deadline)
        if check is not None:
            wait([check], _CHECK_SECONDS)
        return self._view

    def _after(self, view: View, deadline: float, error: Exception) -> View:
        """Returns the present view after an error, once it has changed or a short time has passed.
        Raises the error at the deadline."""
        if time.monotonic() + _PAUSE_SECONDS >= deadline:
            raise error
        try:
            found = self._refresh(deadline, 2 * _PAUSE_SECONDS)
        except (Unavailable, DeadlineExceeded):
            raise error from None
        if found is view:
            threading.Event().wait(_PAUSE_SECONDS)
        return found

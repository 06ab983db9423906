"""View checks: questions to the coordinator whether a manifest is still the newest, which the
concurrent searches of a client share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from nearfield.ray._shard_calls import View

_AT_ONCE = 2  # requests, so that a search waits for about half of one before its own


class ViewChecks:
    """The view checks of one client. A check serves only searches that began before its request
    was sent, so that its view has every commit that was acknowledged before they began. Thread
    safety: any number of threads.

    refresh  sends a request, by a deadline; returns the view of a moment after the call began"""

    def __init__(self, refresh: Callable[[float], View]) -> None:
        self._refresh = refresh
        self._threads = ThreadPoolExecutor(_AT_ONCE)
        self._lock = threading.Lock()
        self._next: Future[View] | None = None  # the check that has not been sent
        self._deadline = 0.0  # of `_next`: the latest one of its searches
        self._running = 0

    def join(self, deadline: float) -> Future[View]:
        """Returns the next check, for a search that has begun. It may end after the deadline."""
        with self._lock:
            if self._next is None:
                self._next, self._deadline = Future(), deadline
            self._deadline = max(self._deadline, deadline)
            if self._running < _AT_ONCE:
                self._threads.submit(self._run)
                self._running += 1
            return self._next

    def _run(self) -> None:
        """Sends checks, as long as searches have joined one."""
        while True:
            with self._lock:
                check, self._next, deadline = self._next, None, self._deadline
                if check is None:
                    self._running -= 1
                    return
            try:
                check.set_result(self._refresh(deadline))
            except BaseException as error:
                check.set_exception(error)

    def close(self) -> None:
        """Ends the checks, once the requests that run have ended."""
        self._threads.shutdown(cancel_futures=True)

"""Checks that the concurrent reads of a client share, such as for a newer manifest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
_AT_ONCE = 2  # checks, so that a read waits for about half of one before its own


class Checks(Generic[T]):
    """Checks of one kind. One serves only reads that began before it did. Thread safety: any number
    of threads.

    check  makes a check, by a deadline"""

    def __init__(self, check: Callable[[float], T]) -> None:
        self._check = check
        self._threads = ThreadPoolExecutor(_AT_ONCE)
        self._lock = threading.Lock()
        self._next: Future[T] | None = None  # the check that has not begun
        self._deadline = 0.0  # of `_next`: the latest one of its reads
        self._running = 0

    def join(self, deadline: float) -> Future[T]:
        """Returns the next check, for a read that has begun. It may end after the deadline."""
        with self._lock:
            if self._next is None:
                self._next, self._deadline = Future(), deadline
            self._deadline = max(self._deadline, deadline)
            if self._running < _AT_ONCE:
                self._threads.submit(self._run)
                self._running += 1
            return self._next

    def _run(self) -> None:
        """Makes checks, as long as reads have joined one."""
        while True:
            with self._lock:
                check, self._next, deadline = self._next, None, self._deadline
                if check is None:
                    self._running -= 1
                    return
            try:
                check.set_result(self._check(deadline))
            except BaseException as error:
                check.set_exception(error)

    def close(self) -> None:
        """Ends the checks, once those that run have ended."""
        self._threads.shutdown(cancel_futures=True)

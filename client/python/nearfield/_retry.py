"""When a failed call is tried again, and after how long. Independent of gRPC's two APIs.

client/cpp/retry.h says what gRPC's own retryPolicy cannot do.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nearfield._connection import NOT_RUNNING
from nearfield._errors import DeadlineExceeded, Error, ResourceExhausted, Unavailable

# For this long after the first of them, tries with `always` do not use up `tries_max`.
ALWAYS_WITHIN_S = 10.0
# Between tries that use up no limit, also with backoff_first=0.
UNCOUNTED_WAIT_MIN_S = 0.05


@dataclass(frozen=True)
class RetryPolicy:
    """How often and after how long calls that can be repeated safely are tried again.

    tries_max        tries in all, at least 1; 1: no retry
    backoff_first    seconds before the second try; doubles with each try
    backoff_max      seconds; the maximum of the doubled wait
    unavailable_max  seconds for which a call waits for a server that has answered this client
                     before, and is Unavailable now, as during a restart: tries_max does not limit
                     its tries. None: until the call's deadline, or for the client's timeout if it
                     has none. 0: tries_max limits them too
    """

    tries_max: int = 4
    backoff_first: float = 0.05
    backoff_max: float = 2.0
    unavailable_max: float | None = None

    def __post_init__(self) -> None:
        if self.tries_max < 1:
            raise ValueError(f"retry.tries_max: {self.tries_max}; it must be at least 1")
        if self.unavailable_max is not None and not self.unavailable_max >= 0:
            raise ValueError(
                f"retry.unavailable_max: {self.unavailable_max}; it must be at least 0 seconds"
            )


class Clock(Protocol):
    """The clock of deadlines and waits; tests replace it."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class BlockingClock:
    """The steady clock; a wait blocks the thread."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncClock(BlockingClock):
    """The steady clock; a wait suspends the task."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Retries:
    """The tries of one call.

    Retried: UNAVAILABLE, RESOURCE_EXHAUSTED with a hint of the server, and tries with `always`.
    The wait doubles from try to try, is drawn at random from its upper half, and is never shorter
    than the hint. A wait that would exceed the deadline is not begun; one for a server is shortened
    to half of the time that is left.
    Source: the rules of client/cpp/retry.cc, except for RetryPolicy.unavailable_max.

    timeout   seconds for which a call without a deadline waits for a server
    answered  returns True if the server has answered this client before
    """

    def __init__(
        self,
        policy: RetryPolicy,
        clock: Clock,
        deadline: float | None,
        timeout: float,
        answered: Callable[[], bool],
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._deadline = deadline
        until_the_end = timeout if deadline is None else math.inf
        limit = policy.unavailable_max
        self._unavailable_max = until_the_end if limit is None else limit
        self._answered = answered
        self._backoff = policy.backoff_first
        self._tries = 0
        self._since: dict[bool, float] = {}  # the first try with or without `always`, not counted
        self._told: Error | None = None

    def time_left(self) -> float | None:
        """Returns the seconds until the deadline, at least 0; None if there is none."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock.now())

    async def wait(self, error: Error, *, always: bool = False) -> None:
        """Waits before the next try. If the call has failed, raises the error that says most about
        the reason: `error`, of the last try, or that of a try before it."""
        if self._told is None or not self._says_less(error):
            self._told = error
        seconds = self._wait_after(error, always)
        if seconds is None:
            raise self._told from None
        await self._clock.sleep(seconds)

    def _says_less(self, error: Error) -> bool:
        if isinstance(error, DeadlineExceeded):  # without an answer: too little time was left
            return error.request_id is None
        # gRPC reports one address of a host, such as ::1 of localhost: a try that met a server
        # says more than one that was refused.
        return not self._answered() and NOT_RUNNING in error.message

    def _wait_after(self, error: Error, always: bool) -> float | None:
        """Returns the seconds to wait before the next try, or None if the call has failed."""
        away = isinstance(error, Unavailable)
        hinted = isinstance(error, ResourceExhausted) and error.retry_after is not None
        if not (always or away or hinted):
            return None
        wait_min = error.retry_after or 0.0
        waits = away and not always and self._waits_for_server()
        if always or waits:
            now = self._clock.now()
            limit = ALWAYS_WITHIN_S if always else self._unavailable_max
            if now - self._since.setdefault(always, now) >= limit:
                return None
            wait_min = max(wait_min, UNCOUNTED_WAIT_MIN_S)
        else:
            self._tries += 1
            if self._tries >= self._policy.tries_max:
                return None
        # Random, so that many clients that were refused together do not retry together.
        wait = max(random.uniform(self._backoff / 2, self._backoff), wait_min)
        left = self.time_left()
        if left is not None and wait >= left:
            wait = max(left / 2, wait_min)
            if not waits or wait >= left:
                return None
        self._backoff = min(self._backoff * 2, self._policy.backoff_max)
        return wait

    def _waits_for_server(self) -> bool:
        """Returns True if tries that find the server unavailable are not counted."""
        return self._unavailable_max > 0 and self._policy.tries_max > 1 and self._answered()

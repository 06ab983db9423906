"""The connection of an AsyncClient that opened a data directory in this process: blocking calls on
a pool of threads, so that the event loop never waits. Thread safety: one event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from nearfield._duplex import AsyncDuplex
from nearfield._library import Interrupted
from nearfield._local_transport import LocalCall, LocalTransport
from nearfield._methods import Method, Request, Response
from nearfield._retry import AsyncClock, Clock
from nearfield._transport import Metadata

T = TypeVar("T")
# Calls that run at the same time; more wait for a thread. Concurrent searches share passes.
CALLS_MAX = 32


class AsyncLocalStream(Generic[Response]):
    def __init__(self, call: LocalCall, run: Callable[..., Any]) -> None:
        self._call = call
        self._run = run

    async def read(self) -> Response | None:
        message: Response | None = await self._run(lambda: next(self._call, None))
        return message

    def cancel(self) -> None:
        self._call.cancel()


class AsyncLocalTransport:
    peer = None

    def __init__(self, inner: LocalTransport, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or AsyncClock()
        self._inner = inner
        self._threads = ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="nearfield-call")

    def _run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def unary(
        self,
        method: Method[Any, Response],
        data: bytes,
        timeout: float | None,
        metadata: Metadata,
    ) -> tuple[Response, str | None]:
        cancelled = threading.Event()
        deadline = None if timeout is None else self.clock.now() + timeout
        interrupted = Interrupted(lambda _: cancelled.is_set())

        def call() -> tuple[Response, str | None]:
            left = None if deadline is None else max(0.0, deadline - self.clock.now())
            return self._inner.call(method, data, self._inner.options(left, metadata, interrupted))

        try:
            return await self._run(call)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def stream(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        metadata: Metadata,
    ) -> AsyncLocalStream[Response]:
        call = self._inner.begin(method, method.serialize(request), timeout, metadata)
        return AsyncLocalStream(call, self._run)

    def duplex(
        self, method: Method[Request, Response], timeout: float | None, metadata: Metadata
    ) -> AsyncDuplex[Request, Response]:
        return AsyncDuplex(self._inner.open_duplex(method, timeout, metadata))

    async def compute(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        await asyncio.to_thread(self._inner.close_now)
        self._threads.shutdown(wait=False)

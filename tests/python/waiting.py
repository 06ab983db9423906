"""An asynchronous client that is used like a blocking one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import nearfield


class Waiting:
    """An AsyncClient, or a handle of one, used like its blocking twin: calls run on `loop`."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            if inspect.isasyncgen(result):
                return self._iterate(result)
            return self._wrap(self._wait(result) if inspect.isawaitable(result) else result)

        return call

    def _wait(self, awaitable: Any) -> Any:
        async def run() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(120)

    def _wrap(self, value: Any) -> Any:
        is_handle = isinstance(value, nearfield.AsyncCollection)
        return Waiting(value, self._loop) if is_handle else value

    def _iterate(self, generator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._wait(generator.__anext__())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._wait(generator.aclose())

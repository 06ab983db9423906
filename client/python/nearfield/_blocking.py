"""Runs the coroutines of the shared implementation to their end, for the blocking clients.

Over a blocking transport a coroutine never suspends: its first step is its last.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a blocking client was used with an asynchronous transport")


def blocking(
    function: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Makes the blocking method of a class whose `_inner` has this asynchronous method."""

    @functools.wraps(function)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(function(self._inner, *args, **kwargs))

    return call


def blocking_after(
    first: Callable[[A, Sequence[Any], Mapping[str, Any]], T | None],
    function: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """As `blocking`, but asks `first` with the arguments. If that returns None, makes the call."""
    otherwise = blocking(function)

    @functools.wraps(function)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found = first(self._inner, args, kwargs)
        return otherwise(self, *args, **kwargs) if found is None else found

    return call


def blocking_as(
    wrap: Callable[[A], W], function: Callable[Concatenate[Any, P], Coroutine[Any, Any, A]]
) -> Callable[Concatenate[Any, P], W]:
    """As `blocking`, for a method that returns a handle: wraps it."""

    @functools.wraps(function)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> W:
        return wrap(run(function(self._inner, *args, **kwargs)))

    return call


def blocking_iterator(
    function: Callable[Concatenate[A, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """As `blocking`, for a method that yields. Closing the iterator ends the call."""

    @functools.wraps(function)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return _drive(function(self._inner, *args, **kwargs))

    return call


def _drive(source: AsyncGenerator[T, None]) -> Iterator[T]:
    try:
        while True:
            try:
                item = run(_next(source))
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(_close(source))


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await source.__anext__()


async def _close(source: AsyncGenerator[T, None]) -> None:
    await source.aclose()

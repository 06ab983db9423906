"""Protocols as generators of requests, so that the product performs them one after the other, and
the tests explore every order in which several processes may perform theirs."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Request(NamedTuple):
    """A call of a method of the storage (nearfield.ray._store.Store) or of the fleet of replicas
    (nearfield.ray._coordinator)."""

    of: str  # "store" or "fleet"
    method: str
    arguments: tuple[Any, ...]


Steps = Generator[Request, Any, T]


def performed(steps: Steps[T], **targets: Any) -> Steps[T]:
    """Performs the requests of these targets, and passes the others on."""
    resume: Any = steps.send
    value: Any = None
    while True:
        try:
            request = resume(value)
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            if request.of in targets:
                value = getattr(targets[request.of], request.method)(*request.arguments)
            else:
                value = yield request
            resume = steps.send
        except Exception as error:
            resume, value = steps.throw, error


def run(steps: Steps[T], **targets: Any) -> T:
    """Performs all requests; returns what the generator returns."""
    try:
        request = next(performed(steps, **targets))
    except StopIteration as end:
        result: T = end.value
        return result
    raise KeyError(request.of)


def store(method: str, *arguments: Any) -> Request:
    return Request("store", method, arguments)


def fleet(method: str, *arguments: Any) -> Request:
    return Request("fleet", method, arguments)

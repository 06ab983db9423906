"""Dataclasses whose fields are read from a message when they are first used: the answer to a
search costs only what its caller looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nearfield._attributes import Attribute

T = TypeVar("T")
# Reads a field from a message, given the declared attributes.
Reader = Callable[[Any, Mapping[str, Attribute]], Any]


class _Field:
    """A field that was not read yet. Once it is, Python finds it in the object first."""

    def __init__(self, name: str, read: Reader) -> None:
        self._name = name
        self._read = read

    def __get__(self, answer: Any, owner: Any = None) -> Any:
        if answer is None:
            return self
        value = self._read(answer._message, answer._declared)
        answer.__dict__[self._name] = value
        return value


def lazy(**readers: Reader) -> Callable[[type[T]], type[T]]:
    """Lets a dataclass read these fields from a message: apply it after @dataclass. Objects of its
    constructor are as before."""

    def extend(kind: type[T]) -> type[T]:
        for name, read in readers.items():
            setattr(kind, name, _Field(name, read))
        return kind

    return extend


def from_message(kind: type[T], message: Any, declared: Mapping[str, Attribute], **known: Any) -> T:
    """Returns an object that keeps the message. known: the fields that are not read from it."""
    answer = object.__new__(kind)
    known["_message"] = message
    known["_declared"] = declared
    object.__setattr__(answer, "__dict__", known)  # of a frozen dataclass
    return answer

"""Arguments: unknown names are refused, because a call without them does something else, and
numbers of a wrong type or sign, which the messages of protobuf do not name."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np


def refuse_unknown(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError for a name that is not known. The message has a similar name and all known
    ones. owner: what has the arguments, such as "a search"."""
    unknown = sorted(set(given).difference(known))
    if unknown:
        similar = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        names = ", ".join(sorted(known)) or "none"
        raise TypeError(f"{unknown[0]}: no argument of {owner}{hint} (known: {names})")


def whole(name: str, value: Any, limit: str, bits: int = 32) -> int:
    """Returns a whole number that fits into an unsigned integer of these bits. limit: what the
    server accepts, as text. Raises TypeError or ValueError, with the argument and its value."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: {value!r}; a whole number is needed, {limit}")
    if not 0 <= number < 2**bits:
        raise ValueError(f"{name} = {number}, must be {limit}")
    return number


def real(name: str, value: Any) -> float:
    """Returns a number as a float. Raises TypeError with the argument and its value."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: {value!r}; a number is needed")
    return float(value)


def read_at(min_epoch: int | None, at_epoch: int | None, incarnation: int | None) -> dict[str, Any]:
    """Returns the fields of a request that name an epoch."""
    given = {"min_epoch": min_epoch, "at_epoch": at_epoch, "incarnation": incarnation}
    return {
        name: None if value is None else whole(name, value, "0 .. 2**64 - 1", 64)
        for name, value in given.items()
    }

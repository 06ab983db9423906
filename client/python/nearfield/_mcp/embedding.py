"""The function of --embed, from a text to a vector."""

from __future__ import annotations

import difflib
import importlib
import inspect
import reprlib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from nearfield._records import CollectionInfo

Embed = Callable[[str], Sequence[float]]


def load(name: str) -> Embed:
    """Returns the function of --embed. Raises ValueError if there is none."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ValueError(f"--embed: {name!r}; write MODULE:FUNCTION")
    if module.endswith(".py"):
        raise ValueError(f"--embed: {name!r}; write {Path(module).stem}:{function}, without .py")
    sys.path.append(str(Path.cwd()))  # a program that pip has installed does not look there
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        raise ValueError(f"--embed: {module}: {type(error).__name__}: {error}") from error
    embed: Embed | None = getattr(loaded, function, None)
    if not callable(embed):
        names = [each for each, value in vars(loaded).items() if callable(value)]
        similar = difflib.get_close_matches(function, names, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise ValueError(f"--embed: {loaded!r} has no function {function!r}{hint}")
    return embed


def vector_of(embed: Embed, text: str) -> list[float]:
    """Returns the vector that the function makes of a text. Raises TypeError for another result."""
    found = embed(text)
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise TypeError("the function is asynchronous; write one that returns the vector, with def")
    try:
        array = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != 1:
        raise TypeError(f"the function returned {reprlib.repr(found)}, not a list of numbers")
    return [float(each) for each in array]


def check(name: str, embed: Embed, collections: Iterable[CollectionInfo]) -> None:
    """Calls the function once. Raises ValueError, with the name that --embed has, unless it makes
    vectors for the collections."""
    try:
        dim = len(vector_of(embed, "a text"))
    except Exception as error:
        raise ValueError(
            f"--embed: {name}, called with a text: {type(error).__name__}: {error}"
        ) from error
    for each in collections:
        if each.dim != dim:
            raise ValueError(
                f"--embed: {name} makes {dim} numbers; the collection {each.name} has dim"
                f" {each.dim}"
            )

"""Arguments: unknown names are refused, because a call without them does something else, and
numbers of a wrong type or sign, which the messages of protobuf do not name."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")
# Names that other clients have for an argument, and the names that may be meant.
_OTHER_NAMES = {
    **dict.fromkeys(("top_k", "topk", "limit", "n", "n_results", "num_results"), ("k",)),
    **dict.fromkeys(("where", "query_filter"), ("filter",)),
    **dict.fromkeys(("if_filter", "condition"), ("if_",)),
    **dict.fromkeys(("query", "query_vector", "embedding"), ("vector",)),
    **dict.fromkeys(("metadata", "metadatas", "documents"), ("payloads", "payload")),
    **dict.fromkeys(("token", "api_key", "key"), ("token_file",)),
    **dict.fromkeys(("port", "host", "url", "uri"), ("address",)),
}


def check_names(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function that refuses arguments as refuse_unknown does. Python's own message has the
    name of an internal class, and no similar name."""
    named = inspect.signature(function).parameters.values()
    accepted = {each.name for each in named}
    known = [name for name in accepted if not name.startswith("_") and name != "self"]
    owner = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    if any(each.kind is each.VAR_KEYWORD for each in named):
        return function

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not kwargs.keys() <= accepted:
            refuse_unknown(f"{owner}()", kwargs.keys() - accepted, known)
        return function(*args, **kwargs)

    return call


def check_names_of(owner: type[T]) -> type[T]:
    """Applies check_names to the constructor and the public methods of a class."""
    for name, value in list(vars(owner).items()):
        if inspect.isfunction(value) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, check_names(value))
    return owner


def flag(name: str, value: Any) -> bool:
    """Returns a bool. Raises TypeError for any other value: a text would count as True."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: {value!r}; True or False is needed")
    return bool(value)


def upload_token(token: Any) -> bytes:
    if isinstance(token, bytes):
        return token
    if not isinstance(token, str):
        raise TypeError(f"token: {token!r}; a text is needed")
    return token.encode()


def several(field: str, given: Any, kind: type = str) -> list[Any]:
    """Returns the members of an argument that takes several values. Raises TypeError for one value:
    the members of a text are its characters. kind: the type of a value"""
    one = isinstance(given, (str, bytes, Mapping, kind))
    if one or not isinstance(given, Iterable):
        is_one = " is one value" if one else ""
        raise TypeError(f"{field}: {reprlib.repr(given)}{is_one}; give a list")
    return list(given)


def refuse_unknown(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError for a name that is not known. The message has a similar name and all known
    ones. owner: what has the arguments, such as "a search"."""
    unknown = sorted(set(given).difference(known))
    if unknown:
        meant = [each for each in _OTHER_NAMES.get(unknown[0], ()) if each in known]
        similar = meant or difflib.get_close_matches(unknown[0], known, n=1)
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


_NO_NUMBERS = (bool, np.bool_, str, bytes, np.datetime64, np.timedelta64)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def real(name: str, value: Any) -> float:
    """Returns a number as a float. Raises TypeError or ValueError, with the argument and its
    value."""
    no_number = isinstance(value, _NO_NUMBERS) or not hasattr(value, "__float__")
    if no_number or np.ndim(value) > 0:
        raise TypeError(f"{name}: {value!r}; a number is needed")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name}: {reprlib.repr(value)} does not fit into a double") from None


def real32(name: str, value: Any) -> float:
    """As real, for a field of 32 bits: refuses a finite number that they do not hold."""
    number = real(name, value)
    if np.isfinite(number) and abs(number) > _FLOAT32_MAX:
        raise ValueError(f"{name} = {number}, must fit into 32 bits: at most {_FLOAT32_MAX}")
    return number


def text(name: str, value: Any, kind: str = "a text") -> str:
    """Returns a text that has a UTF-8 form. Raises TypeError or ValueError with the argument."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: {value!r}; {kind} is needed")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: {value!r} has a half of a surrogate pair") from None
    return value


def texts(name: str, value: Any, kind: str = "a text") -> list[str]:
    """Returns the texts of a list; of one text a list. Raises TypeError or ValueError."""
    if isinstance(value, str):
        return [text(name, value, kind)]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: {reprlib.repr(value)}; a list is needed, {kind} in each place")
    return [text(f"{name}[{i}]", each, kind) for i, each in enumerate(value)]


def read_at(min_epoch: int | None, at_epoch: int | None, incarnation: int | None) -> dict[str, Any]:
    """Returns the fields of a request that name an epoch."""
    return epochs(min_epoch=min_epoch, at_epoch=at_epoch, incarnation=incarnation)


def epochs(**given: int | None) -> dict[str, Any]:
    """Returns fields of a request that are epochs or incarnations."""
    return {
        name: None if value is None else whole(name, value, "0 .. 2**64 - 1", 64)
        for name, value in given.items()
    }

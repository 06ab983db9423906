"""Filters as Python expressions.

    from nearfield import F
    (F.year >= 2020) & ~F.lang.isin(["de", "fr"]) | F.id.isin([7, 8])
    F("year >= $1 and not lang in $2", 2020, ["de", "fr"])

`F.name` is a declared attribute, and F["name"] too, for names that are not identifiers or that
Python reserves. `F.id` is the row's id; an attribute named id is F["id"].

A filter is sent as text, in which $1, $2, ... stand for its values: no value is ever a part of the
text. The server checks the values against the declared types; here their Python types decide how
they are sent: bool, int (int64), float (double), str (keyword, or a time as text), and datetime,
date and numpy.datetime64 (timestamp).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from nearfield._attributes import MEMBERS, Attribute, AttributeType, convert, time_of
from nearfield._proto import common_pb2 as common
from nearfield._values import check_texts, id_list, to_ids

# A part of a text that is quoted, or that names an argument.
_QUOTED_OR_ARGUMENT = re.compile(
    r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|\$(\w+)""", re.DOTALL
)


_TYPES: tuple[tuple[Any, AttributeType], ...] = (
    (bool, "bool"),
    (int, "int64"),
    (float, "double"),
    (str, "keyword"),
    ((dt.date, np.datetime64), "timestamp"),
)
# Values of several types that are those of one: an int among times is microseconds.
_MIXED: tuple[tuple[AttributeType, set[AttributeType]], ...] = (
    ("double", {"double", "int64"}),
    ("timestamp", {"timestamp", "int64", "keyword"}),
)


@dataclass(frozen=True, eq=False, repr=False)
class Filter:
    """A condition on a row. `&`, `|` and `~` combine conditions; compare `(F.a == 1) & (F.b == 2)`
    with parentheses, because `&` binds more tightly than `==`. Semantics and limits: common.proto,
    "Filters". A row without the attribute passes no comparison, including !=; ~ is plain
    negation."""

    _pieces: tuple[str, ...]  # the text: before, between and after the arguments
    _arguments: tuple[common.FilterArgument, ...] = ()
    _joined: str = ""  # the word that joins its conditions, "and" or "or"; "?": perhaps any

    def __and__(self, other: Filter) -> Filter:
        return _join("and", self, other)

    def __or__(self, other: Filter) -> Filter:
        return _join("or", self, other)

    def __rand__(self, other: Any) -> NoReturn:
        _refuse_operator(other, "&")

    def __ror__(self, other: Any) -> NoReturn:
        _refuse_operator(other, "|")

    def __invert__(self) -> Filter:
        first, *rest = self._inside("not")
        return Filter((f"not {first}", *rest), self._arguments)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a filter has no truth value: write & for and, | for or, ~ for not, and"
            " (F.x >= 1) & (F.x < 5) for 1 <= F.x < 5"
        )

    def __repr__(self) -> str:
        return f"<filter {self.text}>"

    @property
    def text(self) -> str:
        """The text that is sent, with $1, $2, ... for the values."""
        numbered = (f"${i}{piece}" for i, piece in enumerate(self._pieces[1:], 1))
        return self._pieces[0] + "".join(numbered)

    def set(self, request: Any, prefix: str = "") -> None:
        """Sets filter_text and filter_args of a request. prefix: of the names of these fields."""
        setattr(request, f"{prefix}filter_text", self.text)
        getattr(request, f"{prefix}filter_args").extend(self._arguments)

    def _inside(self, word: str) -> tuple[str, ...]:
        """Returns the pieces, in brackets if `word` would bind more tightly than they do."""
        if self._joined in ("", word):
            return self._pieces
        first, *rest = self._pieces
        *start, last = (f"({first}", *rest)
        return (*start, f"{last})")


#: A filter: an expression of F, a dict (_filter_forms.py), or the text that the command accepts.
FilterLike: TypeAlias = Filter | Mapping[str, Any] | str


def _refuse_operator(operand: Any, sign: str) -> NoReturn:
    """Raises the error for `F.a > 1 & F.b < 2`, which Python reads as `F.a > (1 & F.b) < 2`."""
    raise TypeError(
        f"{operand!r} {sign} ...: it is not a filter; write parentheses around comparisons, as in"
        f" (F.year >= 2020) {sign} (F.price < 5)"
    )


def _join(word: str, left: Filter, right: Filter) -> Filter:
    for each in (left, right):
        if not isinstance(each, Filter):
            _refuse_operator(each, "&" if word == "and" else "|")
    *start, last = left._inside(word)
    first, *rest = right._inside(word)
    pieces = (*start, f"{last} {word} {first}", *rest)
    return Filter(pieces, left._arguments + right._arguments, word)


def parse(text: str, values: tuple[Any, ...]) -> Filter:
    """Returns the filter of a text in which $1, $2, ... stand for the values."""
    pieces, arguments, named, end = [], [], set(), 0
    for found in _QUOTED_OR_ARGUMENT.finditer(text):
        if found[1] is None:
            continue
        number = int(found[1]) if found[1].isdecimal() else 0
        if not 1 <= number <= len(values):
            given = f"{len(values)} value{'s' * (len(values) != 1)} given"
            raise ValueError(f"filter: {found[0]} in {text!r}: {given}")
        pieces.append(text[end : found.start()])
        arguments.append(_argument(values[number - 1], f"filter: {found[0]}"))
        named.add(number)
        end = found.end()
    for number, value in enumerate(values, 1):
        if number not in named:
            raise ValueError(f"filter: {value!r}: the text {text!r} has no ${number}")
    return Filter((*pieces, text[end:]), tuple(arguments), "?")


def _argument(value: Any, field: str) -> common.FilterArgument:
    """Returns one value, or the values of a list. Raises TypeError or ValueError with the field."""
    is_one = isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable)
    values = [value] if is_one else list(value)
    kinds: set[AttributeType] = {_type_of(each, field) for each in values}
    for kind, takes in _MIXED:
        if kind in kinds and kinds <= takes:
            kinds = {kind}
    if len(kinds) > 1:
        raise TypeError(f"{field}: {value!r}; the values are of several types")
    members = {}
    for kind in kinds:
        attribute = Attribute("", kind)
        typed = [convert(attribute, time_of(attribute, each, field), field) for each in values]
        if kind == "keyword":
            check_texts(field, typed)
        members[f"{MEMBERS[kind]}_values"] = typed
    return common.FilterArgument(values=common.AttributeValues(**members))


def _type_of(value: Any, field: str) -> AttributeType:
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    raise TypeError(f"{field}: {value!r}; give a bool, int, float, str, datetime or date")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _of_value(name: str, sign: str, value: Any) -> Filter:
    field = f"F.{name}"
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        raise TypeError(f"{field}: {value!r}; give one value, or use isin, any or all")
    return Filter((f"{_quoted(name)} {sign} ", ""), (_argument(value, field),))


def _of_values(name: str, word: str, values: Iterable[Any]) -> Filter:
    field = f"F.{name}"
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{field}: {values!r}; give a list of values")
    return Filter((f"{_quoted(name)} {word} ", ""), (_argument(list(values), field),))


def _of_ids(ids: Any) -> Filter:
    return Filter(("id in ", ""), (common.FilterArgument(ids=id_list(to_ids(ids, "F.id"))),))


class _Operand:
    """An attribute or the id: a part of a comparison, which is no filter itself."""

    __slots__ = ()

    def __and__(self, other: Any) -> NoReturn:
        _refuse_operator(self, "&")

    def __or__(self, other: Any) -> NoReturn:
        _refuse_operator(self, "|")

    def __rand__(self, other: Any) -> NoReturn:
        _refuse_operator(other, "&")

    def __ror__(self, other: Any) -> NoReturn:
        _refuse_operator(other, "|")

    def __contains__(self, value: Any) -> NoReturn:
        raise TypeError(f"{value!r} in {self!r}: for a list write {self!r}.any([{value!r}])")

    def __invert__(self) -> NoReturn:
        raise TypeError(f"~{self!r}: compare first, for a bool {self!r} == False")


class Field(_Operand):
    """A declared attribute in a filter."""

    __slots__ = ("_name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"F.{self._name}"

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]
        self._refuse_none("==", value, f"~F.{self._name}.exists()")
        return _of_value(self._name, "==", value)

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]
        self._refuse_none("!=", value, f"F.{self._name}.exists()")
        return _of_value(self._name, "!=", value)

    def _refuse_none(self, sign: str, value: object, instead: str) -> None:
        if value is None:
            text = f"F.{self._name} {sign} None: a row without a value passes no comparison"
            raise TypeError(f"{text}; write {instead}")

    def __lt__(self, value: Any) -> Filter:
        return _of_value(self._name, "<", value)

    def __le__(self, value: Any) -> Filter:
        return _of_value(self._name, "<=", value)

    def __gt__(self, value: Any) -> Filter:
        return _of_value(self._name, ">", value)

    def __ge__(self, value: Any) -> Filter:
        return _of_value(self._name, ">=", value)

    def isin(self, values: Iterable[Any]) -> Filter:
        """The attribute has one of the values; of none, no row passes."""
        return _of_values(self._name, "in", values)

    def any(self, values: Iterable[Any]) -> Filter:
        """The list holds one of the values, or the attribute has it; of none, no row passes."""
        return _of_values(self._name, "any", values)

    def all(self, values: Iterable[Any]) -> Filter:
        """The list holds all of the values, in any order; of none, as exists()."""
        return _of_values(self._name, "all", values)

    def exists(self) -> Filter:
        """The row has a value; an empty list is a value."""
        return Filter((f"exists({_quoted(self._name)})",))

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no truth value; for a bool: {self!r} == True")


class IdField(_Operand):
    """The id of a row in a filter."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "F.id"

    def isin(self, ids: Any) -> Filter:
        """The row's id is one of these; ids that name no row are ignored."""
        return _of_ids(ids)

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]
        return _of_ids([value])

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]
        return ~(self == value)


class Fields:
    """The namespace `F`."""

    __slots__ = ()

    @property
    def id(self) -> IdField:
        return IdField()

    def __getattr__(self, name: str) -> Field:
        if name.startswith("_"):  # no attribute begins so, but Python asks for such names
            raise AttributeError(name)
        return Field(name)

    def __getitem__(self, name: str) -> Field:
        return Field(name)

    def __call__(self, text: str, *values: Any) -> Filter:
        """Returns the filter that a text says, with the grammar of common.proto, "Filters". $1, $2,
        ... stand for the values: one value each, or a list after in, any and all."""
        return parse(text, values)


F = Fields()
"""Makes filters: F.year >= 2020, F["id"] for an attribute called id, F("year >= $1", 2020)."""

"""Filters as Python expressions.

    from nearfield import F
    (F.year >= 2020) & ~F.lang.isin(["de", "fr"]) | F.id.isin([7, 8])

`F.name` is a declared attribute, and F["name"] too, for names that are not identifiers or that
Python reserves. `F.id` is the row's id; an attribute named id is F["id"].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from nearfield._attributes import MEMBERS, Attribute, convert
from nearfield._proto import common_pb2 as common
from nearfield._values import id_list, to_ids

Declared: TypeAlias = Mapping[str, Attribute]


class Filter:
    """A condition on a row. `&`, `|` and `~` combine conditions; compare `(F.a == 1) & (F.b == 2)`
    with parentheses, because `&` binds more tightly than `==`. Semantics and limits: common.proto,
    message Filter. A row without the attribute passes no comparison, including !=; ~ is plain
    negation."""

    def __and__(self, other: Filter) -> Filter:
        return _combine("and_", self, other)

    def __or__(self, other: Filter) -> Filter:
        return _combine("or_", self, other)

    def __rand__(self, other: Any) -> NoReturn:
        _refuse_operator(other, "&")

    def __ror__(self, other: Any) -> NoReturn:
        _refuse_operator(other, "|")

    def __invert__(self) -> Filter:
        return _Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a filter has no truth value: write & for and, | for or, ~ for not, and"
            " (F.x >= 1) & (F.x < 5) for 1 <= F.x < 5"
        )

    def message(self, declared: Declared) -> common.Filter:
        """Returns the filter with values of the declared types. Raises TypeError or ValueError for
        a value of another type, and for an attribute that is not declared."""
        raise NotImplementedError


#: A filter: an expression of F, a dict (_filter_forms.py), or the text that the command accepts.
FilterLike: TypeAlias = Filter | Mapping[str, Any] | str


def _refuse_operator(operand: Any, sign: str) -> NoReturn:
    """Raises the error for `F.a > 1 & F.b < 2`, which Python reads as `F.a > (1 & F.b) < 2`."""
    raise TypeError(
        f"{operand!r} {sign} ...: it is not a filter; write parentheses around comparisons, as in"
        f" (F.year >= 2020) {sign} (F.price < 5)"
    )


def _combine(kind: str, left: Filter, right: Filter) -> Filter:
    parts: list[Filter] = []
    for each in (left, right):
        if not isinstance(each, Filter):
            _refuse_operator(each, "&" if kind == "and_" else "|")
        # a & b & c is one list, not a tree: the depth of filters is limited.
        if isinstance(each, _Group) and each.kind == kind:
            parts.extend(each.parts)
        else:
            parts.append(each)
    return _Group(kind, tuple(parts))


@dataclass(frozen=True, eq=False)
class _Group(Filter):
    kind: str
    parts: tuple[Filter, ...]

    def message(self, declared: Declared) -> common.Filter:
        filters = [each.message(declared) for each in self.parts]
        found = common.Filter()
        getattr(found, self.kind).filters.extend(filters)
        return found


@dataclass(frozen=True, eq=False)
class _Not(Filter):
    inner: Filter

    def message(self, declared: Declared) -> common.Filter:
        return common.Filter(not_=self.inner.message(declared))


@dataclass(frozen=True, eq=False)
class _Comparison(Filter):
    name: str
    op: str
    value: Any

    def message(self, declared: Declared) -> common.Filter:
        attribute = _declaration(self.name, declared)
        value = convert(attribute, self.value, f"F.{self.name}")
        member = f"{MEMBERS[attribute.type]}_value"
        return common.Filter(
            comparison=common.Comparison(
                attribute=self.name,
                op=f"COMPARISON_OPERATOR_{self.op}",
                value=common.AttributeValue(**{member: value}),
            )
        )


@dataclass(frozen=True, eq=False)
class _Values(Filter):
    kind: str
    name: str
    values: tuple[Any, ...]

    def message(self, declared: Declared) -> common.Filter:
        attribute = _declaration(self.name, declared)
        if not self.values:  # which the server refuses
            every = self.kind == "list_all"
            return _Exists(self.name).message(declared) if every else _nothing(declared)
        values = [convert(attribute, value, f"F.{self.name}") for value in self.values]
        member = f"{MEMBERS[attribute.type]}_values"
        condition = common.ValueCondition(
            attribute=self.name, values=common.AttributeValues(**{member: values})
        )
        found = common.Filter()
        getattr(found, self.kind).CopyFrom(condition)
        return found


@dataclass(frozen=True, eq=False)
class _Exists(Filter):
    name: str

    def message(self, declared: Declared) -> common.Filter:
        return common.Filter(exists=common.Exists(attribute=self.name))


@dataclass(frozen=True, eq=False)
class _Ids(Filter):
    ids: Any

    def message(self, declared: Declared) -> common.Filter:
        return common.Filter(has_id=id_list(self.ids)) if len(self.ids) else _nothing(declared)


def _nothing(declared: Declared) -> common.Filter:
    """Returns a filter that no row passes: it has an id, and does not have it."""
    texts = getattr(declared, "id_type", "uint64") == "string"
    one = _Ids(["x"] if texts else np.zeros(1, np.uint64))
    return (one & ~one).message(declared)


def _declaration(name: str, declared: Declared) -> Attribute:
    if name not in declared:
        known = ", ".join(f"{each.name}:{each.text}" for each in declared.values()) or "none"
        raise ValueError(f"F.{name}: the collection declares no such attribute; it has {known}")
    return declared[name]


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
        return _Comparison(self._name, "EQUAL", value)

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]
        self._refuse_none("!=", value, f"F.{self._name}.exists()")
        return _Comparison(self._name, "NOT_EQUAL", value)

    def _refuse_none(self, sign: str, value: object, instead: str) -> None:
        if value is None:
            text = f"F.{self._name} {sign} None: a row without a value passes no comparison"
            raise TypeError(f"{text}; write {instead}")

    def __lt__(self, value: Any) -> Filter:
        return _Comparison(self._name, "LESS", value)

    def __le__(self, value: Any) -> Filter:
        return _Comparison(self._name, "LESS_EQUAL", value)

    def __gt__(self, value: Any) -> Filter:
        return _Comparison(self._name, "GREATER", value)

    def __ge__(self, value: Any) -> Filter:
        return _Comparison(self._name, "GREATER_EQUAL", value)

    def isin(self, values: Iterable[Any]) -> Filter:
        """The attribute has one of the values; of none, no row passes."""
        return self._condition("in_", values)

    def any(self, values: Iterable[Any]) -> Filter:
        """The list holds one of the values; of none, no row passes."""
        return self._condition("list_any", values)

    def all(self, values: Iterable[Any]) -> Filter:
        """The list holds all of the values, in any order."""
        return self._condition("list_all", values)

    def exists(self) -> Filter:
        """The row has a value; an empty list is a value."""
        return _Exists(self._name)

    def _condition(self, kind: str, values: Iterable[Any]) -> Filter:
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise TypeError(f"F.{self._name}: {values!r}; give a list of values")
        return _Values(kind, self._name, tuple(values))

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
        return _Ids(to_ids(ids, "F.id"))

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]
        return _Ids(to_ids([value], "F.id"))

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


F = Fields()
"""Makes filters of attributes: F.year >= 2020, F["id"] for an attribute called id."""

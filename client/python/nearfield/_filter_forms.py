"""The forms of filters that calls accept: expressions of F, dicts and text.

A dict has the operators that the vector stores of LangChain and LlamaIndex know:

    {"year": 2020}                            equal; for a list attribute: it holds the value
    {"year": {"$gte": 2020, "$lt": 2024}}     also $eq, $ne, $gt, $lte, $in, $nin, $all, $exists
    {"lang": "en", "tags": {"$in": ["x"]}}    both
    {"$or": [{"year": 2020}, {"$not": {"lang": "en"}}]}    also $and

A row without the attribute passes only {"year": None}, {"$exists": False} and $not. A time may also
be a text, as in filters that are texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from nearfield._attributes import Attribute
from nearfield._filter import Declared, F, Field, Filter, FilterLike
from nearfield._proto import common_pb2 as common
from nearfield._time_text import parse_time


def set_filter(request: Any, value: FilterLike | None, declared: Declared | None) -> None:
    """Sets `filter` or `filter_text` of a request. declared: the attributes of the collection;
    needed by every filter but a text."""
    if value is None:
        return
    if isinstance(value, str):
        request.filter_text = value
    else:
        request.filter.CopyFrom(filter_of(value).message({} if declared is None else declared))


def filter_of(value: Filter | Mapping[str, Any]) -> Filter:
    """Returns the expression of a dict. Raises TypeError or ValueError for anything else."""
    if isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            f"filter: {value!r}; an expression such as F.year >= 2020, a dict such as"
            ' {"year": {"$gte": 2020}}, or a text'
        )
    if not value:
        raise ValueError("filter: {} has no condition: it does not say which rows pass")
    return reduce(
        and_, [each for name, given in value.items() for each in _conditions(name, given)]
    )


def _conditions(name: str, given: Any) -> list[Filter]:
    """Returns the conditions of one member of a dict, which all must hold."""
    if not isinstance(name, str):
        raise TypeError(f"filter: {name!r}; the keys are names of attributes, $and, $or or $not")
    if name in ("$and", "$or"):
        if not isinstance(given, (list, tuple)) or not given:
            raise TypeError(f"filter: {name}: {given!r}; give a list of filters")
        return [reduce(and_ if name == "$and" else or_, map(filter_of, given))]
    if name == "$not":
        return [~filter_of(given)]
    if name.startswith("$"):
        raise ValueError(f"filter: {name!r} is no operator of filters; {_KNOWN}")
    compared = given if isinstance(given, Mapping) else {"$eq": given}
    if not compared:
        raise ValueError(f"filter: {name}: {{}} has no condition; {_KNOWN}")
    for operator, value in compared.items():
        if operator not in _OPERATORS:
            raise ValueError(f"filter: {name}: {operator!r} is no operator; {_KNOWN}")
        if _has_many(value) != (operator in _OF_MANY):
            kind = "one value" if _has_many(value) else "a list of values"
            raise TypeError(f"filter: {name}: {value!r}; {operator} compares with {kind}; {_KNOWN}")
    return [
        _Condition(name, operator, tuple(value) if operator in _OF_MANY else value)
        for operator, value in compared.items()
    ]


def _has_many(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


@dataclass(frozen=True, eq=False)
class _Condition(Filter):
    """One comparison of a dict. The declared type says what it means."""

    name: str
    operator: str
    value: Any

    def message(self, declared: Declared) -> common.Filter:
        value, attribute = self.value, declared.get(self.name)
        if attribute is not None and self.operator in _OF_MANY:
            value = [time_of(attribute, each, f"filter: {self.name}") for each in value]
        elif attribute is not None:
            value = time_of(attribute, value, f"filter: {self.name}")
        is_list = attribute is not None and attribute.is_list
        return _OPERATORS[self.operator](F[self.name], value, is_list).message(declared)


def time_of(attribute: Attribute, value: Any, where: str) -> Any:
    """Returns a value for an attribute; a text for a timestamp as its microseconds. Raises
    ValueError, with `where`, for a text that is no time."""
    if attribute.type != "timestamp" or not isinstance(value, str):
        return value
    try:
        return parse_time(value)
    except ValueError as error:
        raise ValueError(f"{where}: {value!r} {error}") from None


def _equal(field: Field, value: Any, is_list: bool) -> Filter:
    if value is None:
        return ~field.exists()
    return field.any([value]) if is_list else field == value


def _in(field: Field, values: Any, is_list: bool) -> Filter:
    return field.any(values) if is_list else field.isin(values)


def _exists(field: Field, value: Any, is_list: bool) -> Filter:
    if not isinstance(value, bool):
        raise TypeError(f"filter: $exists: {value!r}, must be True or False")
    return field.exists() if value else ~field.exists()


_OPERATORS: dict[str, Callable[[Field, Any, bool], Filter]] = {
    "$eq": _equal,
    "$ne": lambda field, value, is_list: field.exists() & ~_equal(field, value, is_list),
    "$gt": lambda field, value, is_list: field > value,
    "$gte": lambda field, value, is_list: field >= value,
    "$lt": lambda field, value, is_list: field < value,
    "$lte": lambda field, value, is_list: field <= value,
    "$in": _in,
    "$nin": lambda field, values, is_list: field.exists() & ~_in(field, values, is_list),
    "$all": lambda field, values, is_list: field.all(values),
    "$exists": _exists,
}
_OF_MANY = ("$in", "$nin", "$all")
_KNOWN = f"the operators are {', '.join(_OPERATORS)}, and of filters $and, $or and $not"

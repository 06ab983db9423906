"""The forms of filters that calls accept: expressions of F, dicts and text.

A dict has the operators that the vector stores of LangChain and LlamaIndex know:

    {"year": 2020}                            equal; for a list attribute: it holds the value
    {"year": {"$gte": 2020, "$lt": 2024}}     also $eq, $ne, $gt, $lte, $in, $nin, $all, $exists
    {"lang": "en", "tags": {"$in": ["x"]}}    both
    {"$or": [{"year": 2020}, {"$not": {"lang": "en"}}]}    also $and

A row without the attribute passes only {"year": None}, {"$exists": False} and $not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from nearfield._filter import Declared, F, Field, Filter, FilterLike
from nearfield._proto import common_pb2 as common


def set_filter(request: Any, value: FilterLike | None, declared: Declared | None) -> None:
    """Sets `filter` or `filter_text` of a request. declared: the attributes of the collection;
    needed by every filter but a text."""
    if value is None:
        return
    if isinstance(value, str):
        request.filter_text = value
    else:
        request.filter.CopyFrom(filter_of(value).message(declared or {}))


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
        raise ValueError("filter: {} has no condition; leave the filter out")
    return reduce(
        and_, [each for name, given in value.items() for each in _conditions(name, given)]
    )


def _conditions(name: str, given: Any) -> list[Filter]:
    """Returns the conditions of one member of a dict, which all must hold."""
    if name in ("$and", "$or"):
        if not isinstance(given, (list, tuple)) or not given:
            raise TypeError(f"filter: {name}: {given!r}; give a list of filters")
        return [reduce(and_ if name == "$and" else or_, map(filter_of, given))]
    if name == "$not":
        return [~filter_of(given)]
    compared = given if isinstance(given, Mapping) else {"$eq": given}
    if not compared:
        raise ValueError(f"filter: {name}: {{}} has no condition; {_KNOWN}")
    for operator, value in compared.items():
        if name.startswith("$") or operator not in _OPERATORS:
            raise ValueError(f"filter: {name}: {operator!r} is no operator; {_KNOWN}")
        if isinstance(value, (list, tuple, set)) != (operator in ("$in", "$nin", "$all")):
            kind = "one value" if isinstance(value, (list, tuple, set)) else "a list of values"
            raise TypeError(f"filter: {name}: {value!r}; {operator} compares with {kind}; {_KNOWN}")
    return [_Condition(name, operator, value) for operator, value in compared.items()]


@dataclass(frozen=True, eq=False)
class _Condition(Filter):
    """One comparison of a dict. The declared type says what it means."""

    name: str
    operator: str
    value: Any

    def message(self, declared: Declared) -> common.Filter:
        is_list = self.name in declared and declared[self.name].is_list
        made = _OPERATORS[self.operator](F[self.name], self.value, is_list)
        return made.message(declared)


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
_KNOWN = f"the operators are {', '.join(_OPERATORS)}, $and, $or, $not"

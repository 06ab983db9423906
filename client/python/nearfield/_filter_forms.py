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
from functools import reduce
from operator import and_, or_
from typing import Any

from nearfield._filter import F, Field, Filter, FilterLike


def set_filter(request: Any, value: FilterLike | None, prefix: str = "") -> None:
    """Sets the filter of a request. prefix: as in Filter.set."""
    if isinstance(value, str):
        setattr(request, f"{prefix}filter_text", value)
    elif value is not None:
        filter_of(value).set(request, prefix)


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
    return [_OPERATORS[operator](F[name], value) for operator, value in compared.items()]


def _has_many(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _equal(field: Field, value: Any) -> Filter:
    return ~field.exists() if value is None else field.any([value])


def _exists(field: Field, value: Any) -> Filter:
    if not isinstance(value, bool):
        raise TypeError(f"filter: $exists: {value!r}, must be True or False")
    return field.exists() if value else ~field.exists()


_OPERATORS: dict[str, Callable[[Field, Any], Filter]] = {
    "$eq": _equal,
    "$ne": lambda field, value: field.exists() & ~_equal(field, value),
    "$gt": lambda field, value: field > value,
    "$gte": lambda field, value: field >= value,
    "$lt": lambda field, value: field < value,
    "$lte": lambda field, value: field <= value,
    "$in": lambda field, values: field.any(values),
    "$nin": lambda field, values: field.exists() & ~field.any(values),
    "$all": lambda field, values: field.all(values),
    "$exists": _exists,
}
_OF_MANY = ("$in", "$nin", "$all")
_KNOWN = f"the operators are {', '.join(_OPERATORS)}, and of filters $and, $or and $not"

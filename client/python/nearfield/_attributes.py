"""Declared attributes and their values: the rules by which Python values become typed ones.

Nothing is converted that could change: an int is a double only if it is exactly one, a float is
never an int64, and a datetime needs a zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from nearfield._proto import common_pb2 as common
from nearfield._time_text import parse_time
from nearfield._values import enum_name, enum_value

AttributeType = Literal["int64", "double", "bool", "keyword", "timestamp"]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROSECOND = dt.timedelta(microseconds=1)
EXPIRES = ":expires"
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
# The member of AttributeValues for each type, without its suffix.
MEMBERS: dict[str, str] = {name: name for name in get_args(AttributeType)} | {
    "timestamp": "timestamp_us"
}
_PYTHON_TYPES: dict[Any, AttributeType] = {
    int: "int64",
    float: "double",
    bool: "bool",
    str: "keyword",
    dt.datetime: "timestamp",
}


@dataclass(frozen=True)
class Attribute:
    """A declared attribute of a collection.

    name     matches [a-z][a-z0-9_]{0,62}
    type     int64, double, bool, keyword or timestamp
    is_list  a row has a list of values
    expires  the server deletes a row after this time
    """

    name: str
    type: AttributeType
    is_list: bool = False
    expires: bool = False

    @property
    def text(self) -> str:
        """The type as the command writes it, such as "keyword[]" or "timestamp:expires"."""
        return self.type + "[]" * self.is_list + EXPIRES * self.expires


#: Declarations: {"year": "int64", "tags": "keyword[]"}, {"year": int, "tags": [str]}, or a list of
#: Attribute.
AttributesLike: TypeAlias = Mapping[str, Any] | Sequence[Attribute]

RESERVED = ("id", "score", "vector", "payload", "query")


def column_name(attribute: Attribute) -> str:
    """Returns the name of an attribute's column: one that is called like a part of the row gets
    the prefix "attribute_"."""
    return f"attribute_{attribute.name}" if attribute.name in RESERVED else attribute.name


def declare(attributes: AttributesLike) -> list[Attribute]:
    if not isinstance(attributes, Mapping):
        for each in attributes:
            if not isinstance(each, Attribute):
                raise TypeError(f"attributes: {each!r}; a dict of types, or a list of Attribute")
        return list(attributes)
    return [declaration(name, kind) for name, kind in attributes.items()]


def declaration(name: str, kind: Any) -> Attribute:
    """Returns a declaration. kind: "keyword[]", "timestamp:expires", or as Python types: [str]."""
    expires = isinstance(kind, str) and kind.endswith(EXPIRES)
    kind = kind.removesuffix(EXPIRES) if expires else kind
    is_list = isinstance(kind, list) and len(kind) == 1
    inner = kind[0] if is_list else kind
    if isinstance(inner, str) and inner.endswith("[]") and not is_list:
        is_list, inner = True, inner[:-2]
    inner = _PYTHON_TYPES.get(inner, inner) if isinstance(inner, type) else inner
    if inner not in get_args(AttributeType):
        raise ValueError(
            f"attributes[{name!r}]: {kind!r}; one of {', '.join(get_args(AttributeType))}, a list"
            ' such as "keyword[]" or [str], "timestamp:expires", or int, float, bool, str, datetime'
        )
    return Attribute(name, inner, is_list, expires)


def attribute_message(attribute: Attribute) -> common.AttributeSpec:
    kind = enum_value("ATTRIBUTE_TYPE_", common.AttributeType, attribute.type, attribute.name)
    return common.AttributeSpec(
        name=attribute.name, type=kind, is_list=attribute.is_list, expires=attribute.expires
    )


def read_attribute(message: common.AttributeSpec) -> Attribute:
    kind: Any = enum_name("ATTRIBUTE_TYPE_", common.AttributeType, message.type)
    return Attribute(message.name, kind, message.is_list, message.expires)


def convert(attribute: Attribute, value: Any, field: str) -> Any:
    """Returns one value as the int, float, bool or str that a message holds.
    Raises TypeError or ValueError, naming the field, the value and the declared type."""
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    kind = attribute.type
    if kind == "timestamp":
        return microseconds(value, field)
    if kind == "double" and isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
        if number != value and number == number:
            raise ValueError(f"{field}: {value} is not exactly a double")
        return number
    accepted = {"int64": int, "bool": bool, "keyword": str}.get(kind)
    if accepted is None or type(value) is not accepted:
        raise TypeError(f"{field}: {value!r}; the attribute is declared {attribute.text}")
    if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{field}: {value} does not fit into int64")
    return value


def time_of(attribute: Attribute, value: Any, where: str) -> Any:
    """Returns a value for an attribute; a text for a timestamp as its microseconds. Raises
    ValueError, with `where`, for a text that is no time."""
    if attribute.type != "timestamp" or not isinstance(value, str):
        return value
    try:
        return parse_time(value)
    except ValueError as error:
        raise ValueError(f"{where}: {value!r} {error}") from None


def microseconds(value: Any, field: str) -> int:
    """Returns a time as microseconds since 1970-01-01T00:00:00Z. value: a datetime with a zone, a
    date (its midnight in UTC), a numpy.datetime64 (in UTC), or microseconds."""
    if isinstance(value, dt.datetime):
        if value.utcoffset() is None:
            raise ValueError(
                f"{field}: {value!r} has no zone; use for example"
                " value.replace(tzinfo=datetime.timezone.utc)"
            )
        if getattr(value, "nanosecond", 0):  # of pandas
            raise ValueError(f"{field}: {value!r} has parts of a microsecond; round it first")
        return (value - EPOCH) // MICROSECOND
    if isinstance(value, dt.date):
        return (value - EPOCH.date()) // MICROSECOND
    if isinstance(value, np.datetime64):
        return int(datetime64_us(np.array([value]), field)[0])
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{field}: {value!r}; the attribute is declared timestamp")
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{field}: {value} does not fit into int64")
    return value


def datetime64_us(array: Any, field: str) -> Any:
    """Returns numpy.datetime64 [n] as int64 microseconds. Refuses a part of a microsecond."""
    if np.isnat(array).any():
        raise ValueError(f"{field}: NaT is not a time; give None for a row without a value")
    exact = array.astype("datetime64[us]")
    if (exact.astype(array.dtype) != array).any():
        if array.dtype < exact.dtype:  # of a larger unit, which has no parts
            raise ValueError(f"{field}: times beyond 64 bits of microseconds since 1970")
        raise ValueError(f"{field}: times have parts of a microsecond; round them first")
    return exact.astype(np.int64)


def timedelta64_us(value: np.timedelta64, field: str) -> float:
    """Returns a span of time as microseconds. Refuses NaT, and years and months."""
    if np.isnat(value):
        raise ValueError(f"{field}: NaT is not a span of time")
    try:
        return float(value / np.timedelta64(1, "us"))
    except TypeError:
        raise ValueError(f"{field}: {value!r} has no fixed length; give days or less") from None


def read_values(values: common.AttributeValues) -> list[Any]:
    """Returns values of any type; times as datetimes in UTC."""
    for member in MEMBERS.values():
        if found := list(getattr(values, f"{member}_values")):
            return [read_time(each) for each in found] if member == "timestamp_us" else found
    return []


def read_time(value: int) -> dt.datetime | np.datetime64 | int:
    """Returns microseconds as a datetime in UTC; as a numpy.datetime64 outside of its years; the
    lowest time, which is NaT there, as the number that it is."""
    try:
        return EPOCH + value * MICROSECOND
    except OverflowError:
        return value if value == INT64_MIN else np.datetime64(value, "us")

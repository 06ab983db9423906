"""One attribute of many rows as an AttributeColumn: packed from Python and NumPy values, cut into
blocks, and read from replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._attributes import (
    MEMBERS,
    Attribute,
    convert,
    datetime64_us,
    read_time,
)
from nearfield._proto import common_pb2 as common

# Types whose lists NumPy converts as a whole, because no value of them could change.
_WHOLE = {"int64": ({int}, np.int64), "double": ({float}, np.float64), "bool": ({bool}, np.bool_)}


@dataclass
class Column:
    """The values of one attribute for `rows` rows.

    values   of the rows that have one, in row order; the values of all lists one after the other
    present  bool [rows]: which rows have a value; None: all
    sizes    of a list attribute: the number of values of each row that has a list
    """

    attribute: Attribute
    rows: int
    values: NDArray[Any] | list[str]
    present: NDArray[np.bool_] | None = None
    sizes: NDArray[np.uint32] | None = field(default=None)

    @cached_property
    def _rows_before(self) -> NDArray[np.int64]:
        """For each row the number of rows with a value before it; [rows + 1]."""
        present = np.ones(self.rows, np.bool_) if self.present is None else self.present
        return np.concatenate(([0], np.cumsum(present, dtype=np.int64)))

    @cached_property
    def _values_before(self) -> NDArray[np.int64]:
        sizes = np.zeros(0, np.uint32) if self.sizes is None else self.sizes
        return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))

    def message(self, begin: int, end: int) -> common.AttributeColumn | None:
        """Returns the column of the rows [begin, end); None if no row has a value."""
        first, last = int(self._rows_before[begin]), int(self._rows_before[end])
        if first == last:
            return None
        column = common.AttributeColumn(attribute=self.attribute.name)
        if last - first < end - begin and self.present is not None:
            bits = np.packbits(self.present[begin:end], bitorder="little")
            column.presence = bits.tobytes()
        if self.sizes is not None:
            column.list_sizes.extend(self.sizes[first:last].tolist())
            first, last = int(self._values_before[first]), int(self._values_before[last])
        values = self.values[first:last]
        member = getattr(column.values, f"{MEMBERS[self.attribute.type]}_values")
        member.extend(values if isinstance(values, list) else values.tolist())
        return column


def make_column(attribute: Attribute, data: Any, rows: int, records: bool = False) -> Column | None:
    """Packs `rows` values, of which None is a missing one. data: a NumPy array or a sequence; for
    a list attribute a sequence of sequences. records: the values are of rows, perhaps made of a
    DataFrame: see from_record. Returns None if no row has a value."""
    name = f"attributes[{attribute.name!r}]"
    if len(data) != rows:
        raise ValueError(f"{name}: {len(data)} values for {rows} rows")
    if isinstance(data, np.ndarray) and data.ndim == 1 and not attribute.is_list:
        if data.dtype.kind == "M":
            return _times(attribute, data, name)
        packed = _whole_array(attribute, data)
        if packed is not None:
            return Column(attribute, rows, packed)
    items = data.tolist() if isinstance(data, np.ndarray) else list(data)
    if records:
        items = [from_record(attribute, item) for item in items]
    there = [item for item in items if item is not None]
    if not there:
        return None
    present = None
    if len(there) < rows:
        present = np.fromiter((item is not None for item in items), np.bool_, rows)
    sizes = None
    if attribute.is_list:
        for item in there:
            if isinstance(item, (str, bytes)) or not hasattr(item, "__len__"):
                raise TypeError(f"{name}: {item!r}; the attribute is declared {attribute.text}")
        sizes = np.fromiter(map(len, there), np.uint32, len(there))
        there = [value for item in there for value in item]
    return Column(attribute, rows, pack(attribute, there, name), present, sizes)


def column_message(
    attribute: Attribute, column: Column | None, rows: int
) -> common.AttributeColumn:
    """Returns the column of all rows; None: no row has a value."""
    message = None if column is None else column.message(0, rows)
    if message is None:
        presence = bytes(-(-rows // 8))
        message = common.AttributeColumn(attribute=attribute.name, presence=presence)
    return message


def is_gap(value: Any) -> bool:
    """Returns True for None, and for what pandas has for a missing value: NaN, NaT and NA."""
    if isinstance(value, (float, np.floating, np.datetime64)):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NaTType", "NAType")


def from_record(attribute: Attribute, value: Any) -> Any:
    """Returns a value of a row as a table of Arrow would have it: None for a gap, and an int for a
    float of the same value, because pandas makes floats of a column of integers with gaps."""
    if is_gap(value):
        return None
    if attribute.type != "int64":
        return value
    if attribute.is_list and isinstance(value, (list, tuple, np.ndarray)):
        return [_exact_int(each) for each in value]
    return _exact_int(value)


def _exact_int(value: Any) -> Any:
    exact = isinstance(value, (float, np.floating)) and value.is_integer()
    return int(value) if exact else value


def pack(attribute: Attribute, values: list[Any], name: str) -> NDArray[Any] | list[str]:
    """Checks values that are all there, and packs them into an array, or a list of keywords."""
    types = set(map(type, values))
    if attribute.type == "keyword":
        if types <= {str}:
            return values
        return [convert(attribute, value, name) for value in values]
    whole = _WHOLE.get(attribute.type)
    if whole is not None and types == whole[0]:
        try:
            return np.array(values, whole[1])
        except OverflowError:
            pass  # the conversion below names the value
    wire = whole[1] if whole is not None else np.int64
    return np.array([convert(attribute, value, name) for value in values], wire)


def _times(attribute: Attribute, data: NDArray[Any], name: str) -> Column | None:
    """Packs numpy.datetime64 [rows], which are in UTC; a NaT is a missing value."""
    if attribute.type != "timestamp":
        raise TypeError(f"{name}: {data.dtype}; the attribute is declared {attribute.text}")
    present = ~np.isnat(data)
    if not present.any():
        return None
    values = datetime64_us(data[present], name)
    return Column(attribute, len(data), values, None if present.all() else present)


def _whole_array(attribute: Attribute, data: NDArray[Any]) -> NDArray[Any] | None:
    """Packs an array without looking at its values one by one; None if they have to be."""
    kind, wanted = data.dtype.kind, attribute.type
    if wanted == "int64" and (kind == "i" or (kind == "u" and data.dtype.itemsize < 8)):
        return data.astype(np.int64, copy=False)
    if wanted == "double" and kind == "f":
        return data.astype(np.float64, copy=False)
    if wanted == "bool" and kind == "b":
        return data
    return None


@dataclass(frozen=True)
class ReadColumn:
    """A column of a reply."""

    message: common.AttributeColumn
    rows: int
    attribute: Attribute

    def present(self) -> NDArray[np.bool_]:
        if not self.message.HasField("presence"):
            return np.ones(self.rows, np.bool_)
        bits = np.frombuffer(self.message.presence, np.uint8)
        return np.unpackbits(bits, count=self.rows, bitorder="little").astype(np.bool_)

    def flat(self) -> list[Any]:
        """Returns the values of all rows that have one; times as microseconds."""
        return list(getattr(self.message.values, f"{MEMBERS[self.attribute.type]}_values"))

    def python(self) -> list[Any]:
        """Returns one value per row; None if it has none. Times are datetimes in UTC."""
        values: list[Any] = self.flat()
        if self.attribute.type == "timestamp":
            values = [read_time(value) for value in values]
        return _spread(self, values)

    def raw(self) -> list[Any]:
        """As python(), but times are microseconds since 1970."""
        return _spread(self, self.flat())


def _spread(column: ReadColumn, values: Sequence[Any]) -> list[Any]:
    if column.attribute.is_list:
        lists, begin = [], 0
        for size in column.message.list_sizes:
            lists.append(list(values[begin : begin + size]))
            begin += size
        values = lists
    following = iter(values)
    return [next(following) if there else None for there in column.present()]


def read_columns(
    columns: Sequence[common.AttributeColumn], rows: int, declared: Mapping[str, Attribute]
) -> tuple[ReadColumn, ...]:
    """Reads the columns of a reply. declared: the attributes at any epoch; the values show those of
    the epoch that was read, in which an attribute may have had another type."""
    return tuple(ReadColumn(each, rows, _attribute_of(each, declared)) for each in columns)


def _attribute_of(column: common.AttributeColumn, declared: Mapping[str, Attribute]) -> Attribute:
    name, values, has_sizes = column.attribute, column.values, bool(column.list_sizes)
    known = declared.get(name)
    if known is not None and known.is_list >= has_sizes:
        if not values.ByteSize():  # only the declaration shows the type
            return known
        if known.is_list == has_sizes and getattr(values, f"{MEMBERS[known.type]}_values"):
            return known
    for attribute_type in ("int64", "double", "bool", "keyword"):
        if getattr(values, f"{attribute_type}_values"):
            return Attribute(name, attribute_type, has_sizes)
    return Attribute(name, "timestamp", has_sizes)

"""Attribute columns from Arrow arrays, and declarations from Arrow types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nearfield._attributes import Attribute
from nearfield._columns import Column


def arrow_column(attribute: Attribute, array: pa.Array) -> Column | None:
    """Packs an Arrow array, of which null is a missing value. Returns None if no row has one.
    Raises TypeError for another type, and ValueError for a value that would change."""
    name = f"attributes[{attribute.name!r}]"
    rows, present, sizes = len(array), None, None
    if array.null_count == rows:
        return None
    if array.null_count:
        present = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.drop_null()
    if _is_list(array.type) != attribute.is_list:
        raise TypeError(f"{name}: {array.type}; the attribute is declared {attribute.text}")
    if attribute.is_list:
        sizes = array.value_lengths().to_numpy(zero_copy_only=False).astype(np.uint32)
        array = array.flatten()
        if array.null_count:
            raise ValueError(f"{name}: a list holds a null")
    return Column(attribute, rows, _values(attribute, array, name), present, sizes)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _values(attribute: Attribute, array: pa.Array, name: str) -> Any:
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    accepted, wire = {
        # pandas holds integers as floats if some are missing: exact ones are accepted.
        "int64": (pa.types.is_integer(kind) or pa.types.is_floating(kind), pa.int64()),
        "double": (pa.types.is_floating(kind) or pa.types.is_integer(kind), pa.float64()),
        "bool": (pa.types.is_boolean(kind), pa.bool_()),
        "keyword": (pa.types.is_string(kind) or pa.types.is_large_string(kind), None),
        "timestamp": (
            pa.types.is_timestamp(kind) or pa.types.is_date(kind),
            pa.timestamp("us", tz="UTC"),
        ),
    }[attribute.type]
    if pa.types.is_null(kind) and not len(array):  # lists that are all empty
        return [] if wire is None else np.zeros(0, np.int64)
    if not accepted:
        raise TypeError(f"{name}: {kind}; the attribute is declared {attribute.text}")
    if wire is None:
        return array.to_pylist()
    if pa.types.is_timestamp(kind) and kind.tz is None:
        raise ValueError(f"{name}: {kind} has no zone; make one with tz, for example UTC")
    try:
        if attribute.type == "timestamp":
            # A date becomes its midnight in UTC.
            array = array.cast(pa.timestamp("us")) if pa.types.is_date(kind) else array.cast(wire)
            return array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return array.cast(wire).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name}: {error}") from None


def declare_from(schema: pa.Schema, skip: set[str]) -> list[Attribute]:
    """Returns the declarations of the columns of a table that attributes can hold, without those
    named in `skip`."""
    found = []
    for each in schema:
        kind, is_list = each.type, _is_list(each.type)
        inner = kind.value_type if is_list else kind
        if pa.types.is_dictionary(inner):
            inner = inner.value_type
        attribute_type = _attribute_type(inner)
        if each.name not in skip and attribute_type is not None:
            found.append(Attribute(each.name, attribute_type, is_list))
    return found


def _attribute_type(kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "keyword"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp"
    return None

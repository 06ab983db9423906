"""Attribute columns from Arrow arrays, and declarations from Arrow types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nearfield._arrow import is_list, plain, plain_type
from nearfield._attributes import Attribute
from nearfield._columns import Column


def arrow_column(attribute: Attribute, array: pa.Array) -> Column | None:
    """Packs an Arrow array, of which null is a missing value. Returns None if no row has one.
    Raises TypeError for another type, and ValueError for a value that would change."""
    name = f"attributes[{attribute.name!r}]"
    array, present, sizes = plain(array), None, None
    rows = len(array)
    if array.null_count == rows:
        return None
    if array.null_count:
        present = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.drop_null()
    if is_list(array.type) != attribute.is_list:
        raise TypeError(f"{name}: {array.type}; the attribute is declared {attribute.text}")
    if attribute.is_list:
        sizes = array.value_lengths().to_numpy(zero_copy_only=False).astype(np.uint32)
        array = array.flatten()
        if array.null_count:
            raise ValueError(f"{name}: a list holds a null")
    return Column(attribute, rows, _values(attribute, array, name), present, sizes)


def _values(attribute: Attribute, array: pa.Array, name: str) -> Any:
    kind = array.type
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
    """Returns the declarations of the columns of a table, without those named in `skip`. Raises
    TypeError for a column that no attribute can hold."""
    found = []
    for each in schema:
        if each.name in skip:
            continue
        kind = plain_type(each.type)
        in_list = is_list(kind)
        attribute_type = _attribute_type(kind.value_type if in_list else kind)
        if attribute_type is None:
            raise TypeError(
                f"column {each.name!r}: {each.type}; no attribute can hold it: leave it out, or"
                " declare the attributes with attributes="
            )
        found.append(Attribute(each.name, attribute_type, in_list))
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

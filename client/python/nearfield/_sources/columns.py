"""Columns that were given as arguments or in batches: arrays of NumPy and Arrow, columns of pandas
and polars, and lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nearfield._columns import Column, is_gap, make_column
from nearfield._sources.places import placed
from nearfield._sources.source import Spec


def package(data: Any) -> str:
    """Returns the name of the package that the type of `data` belongs to."""
    return type(data).__module__.partition(".")[0]


def column_data(name: str, data: Any, rows: int, unit: str = "vectors") -> Any:
    """Returns a column of attributes as something that can be sliced: an array of NumPy or Arrow,
    or a list. A column of pandas or polars becomes Arrow's, as that of a DataFrame does, so its
    gaps are rows without a value. unit: of `rows`, for errors."""
    name = f"attributes[{name!r}]"
    if package(data) in ("pandas", "polars"):
        import pyarrow as pa

        try:
            data = data.to_arrow() if hasattr(data, "to_arrow") else pa.Array.from_pandas(data)
        except (TypeError, ValueError) as error:
            raise placed(error, name) from None
    elif not hasattr(data, "to_pylist") and hasattr(data, "to_numpy"):
        data = data.to_numpy()
    arrow = hasattr(data, "to_pylist")
    if not (arrow or isinstance(data, (np.ndarray, Sequence))) or isinstance(data, (str, bytes)):
        raise TypeError(f"{name}: {data!r}; a column is an array or a list")
    if len(data) != rows:
        raise ValueError(f"{name}: {len(data)} values for {rows} {unit}")
    return data


def column_packer(
    spec: Spec, name: str, data: Any, records: bool = False
) -> Callable[[int], Column | None]:
    """Returns the function that packs the first n values. data: as of column_data; records: as
    make_column."""
    attribute = spec.attribute(name)

    def pack(n: int) -> Column | None:
        if package(data) == "pyarrow":
            from nearfield._sources.arrow_columns import arrow_column

            return spec.checked_column(arrow_column(attribute, data[:n]))
        return spec.checked_column(make_column(attribute, data[:n], n, records))

    return pack


def values_of(data: Any) -> list[Any]:
    """Returns the payloads in a column as a list; None for a gap of pandas."""
    if hasattr(data, "to_pylist"):
        return list(data.to_pylist())
    if package(data) == "pandas":
        return [None if is_gap(value) else value for value in data]
    return list(data)

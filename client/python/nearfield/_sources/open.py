"""Chooses the source for what was given to upload()."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nearfield._blocks import Batch
from nearfield._sources import files
from nearfield._sources.arrays import array_source
from nearfield._sources.columns import package
from nearfield._sources.csv_files import read_csv
from nearfield._sources.json_lines import read_jsonl
from nearfield._sources.places import located, naming, placed, rows_from
from nearfield._sources.rows import RowReader, column_batches, is_column_batch, matrix
from nearfield._sources.source import Source, Spec
from nearfield._sources.spool import spooled

KINDS = (
    "a NumPy array, an Arrow table, a DataFrame, an iterable of rows or batches, or a file"
    f" .parquet, .csv, .jsonl, {', '.join(files.OPENERS)}, .hdf5"
)


def open_source(spec: Spec, data: Any) -> Source:
    """Returns the rows of `data`. May read all of it, if their number is not known otherwise."""
    if isinstance(data, (str, Path)):
        return _file_source(spec, Path(data))
    if isinstance(data, np.ndarray):
        return array_source(spec, data)
    if is_table(data):
        from nearfield._sources.tables import reader_source, table_source

        if hasattr(data, "read_next_batch"):
            empty = data.schema.empty_table()
            return reader_source(spec, data, empty)
        return table_source(spec, as_table(data))
    if isinstance(data, Mapping):
        if not is_column_batch(data):
            raise TypeError(f"data: one row; give {KINDS}")
        _check_alone(spec)
        return spooled(column_batches(spec, [data]))
    if not isinstance(data, Iterable):
        raise TypeError(f"data: {type(data).__name__}; give {KINDS}")
    return _iterable_source(spec, data)


def _check_alone(spec: Spec) -> None:
    """Refuses arguments about rows that have members: nothing may be ignored."""
    for name in ("ids", "vectors", "attributes", "payloads"):
        if getattr(spec, name) is not None:
            raise TypeError(f"{name}: these rows have members: id, vector, payload, attributes")


def is_table(data: Any) -> bool:
    if type(data).__name__ == "Series":  # a column
        return False
    return hasattr(data, "__arrow_c_stream__") or package(data) in ("pyarrow", "pandas")


def as_table(data: Any) -> Any:
    """Returns a record batch, a DataFrame, or anything else that exports Arrow, as a table."""
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if package(data) == "pandas":
        try:
            return pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            for name in data.columns:
                _check_frame_column(name, data[name])
            raise
    return data if isinstance(data, pa.Table) else pa.table(data)


def _check_frame_column(name: Any, column: Any) -> None:
    """Raises an error with the row of the first value of a column of pandas that has another type
    than those before it."""
    import pyarrow as pa

    def convert(rows: int) -> Any:
        try:
            return pa.Array.from_pandas(column[:rows])
        except (TypeError, ValueError) as error:
            raise placed(error, f"column {name!r}") from None

    located(convert, len(column), rows_from(0))


def _iterable_source(spec: Spec, data: Iterable[Any]) -> Source:
    following = iter(data)
    try:
        first = next(following)
    except StopIteration:
        if spec.ids is not None and not isinstance(spec.ids, str) and len(spec.ids):
            raise ValueError(f"ids: {len(spec.ids)} for 0 vectors") from None
        return Source(0, 0, lambda: iter(()))
    items = chain([first], following)
    if isinstance(first, Mapping):
        _check_alone(spec)
    if is_column_batch(first):
        return spooled(column_batches(spec, items))
    if isinstance(first, Mapping):
        reader = RowReader(spec, place=rows_from(0), records=True)
        return replace(spooled(reader.batches(enumerate(items))), numbered="id" not in first)
    if is_table(first):
        from nearfield._sources.tables import reader_source

        return reader_source(spec, map(as_table, items), as_table(first))
    if isinstance(data, (list, tuple)):
        dim = spec.info.dim
        found = located(lambda n: matrix(data[:n], dim), len(data), rows_from(0))
        return array_source(spec, found)
    raise TypeError(f"data: an iterable of {type(first).__name__}; give {KINDS}")


def suffix_of(path: Path) -> str:
    """Returns the suffix of a file's name without that of its compression."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _file_source(spec: Spec, path: Path) -> Source:
    with naming(path):
        source = _open_file(spec, path)
    if not source.rows:
        source.close()
        raise ValueError(f"{path}: holds no row")

    def batches() -> Iterator[Batch]:
        with naming(path):
            yield from source.batches()

    return replace(source, batches=batches)


def _open_file(spec: Spec, path: Path) -> Source:
    suffix = suffix_of(path)
    if suffix in (".jsonl", ".ndjson", ".csv"):
        reader = RowReader(spec, place=lambda line: f"{path}:{line}", records=False)
        if suffix == ".csv":
            return spooled(reader.batches(read_csv(spec, path)))
        _check_alone(spec)
        return spooled(reader.batches(read_jsonl(path, spec.info.declared)))
    if suffix == ".parquet":
        from nearfield._sources.tables import parquet_source

        return parquet_source(spec, path)
    vectors, close = open_vectors(path, spec.vectors)
    hdf5 = suffix in HDF5
    source = array_source(replace(spec, vectors=None) if hdf5 else spec, vectors)
    return replace(source, close=close)


HDF5 = (".hdf5", ".h5")


def open_vectors(path: Path, dataset: str | None) -> tuple[Any, Callable[[], None]]:
    """Opens a file of vectors [rows, dim]; returns them, and what closes the file."""
    suffix = suffix_of(path)
    if suffix in HDF5:
        vectors, file = files.open_hdf5(path, dataset or "train")
        return vectors, file.close
    if suffix not in files.OPENERS:
        raise ValueError(f"data: {path}; give {KINDS}")
    return files.OPENERS[suffix](path), lambda: None

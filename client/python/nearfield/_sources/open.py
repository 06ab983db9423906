"""Chooses the source for what was given to upload()."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nearfield._blocks import Batch
from nearfield._sources import files
from nearfield._sources.arrays import array_source
from nearfield._sources.rows import column_batch, is_column_batch, row_batches
from nearfield._sources.source import Source, Spec
from nearfield._sources.spool import spooled

KINDS = (
    "a NumPy array, an Arrow table, a DataFrame, an iterable of rows or batches, or a file"
    " .parquet, .npy, .fbin, .fvecs, .hdf5, .jsonl"
)


def open_source(spec: Spec, data: Any) -> Source:
    """Returns the rows of `data`. May read all of it, if their number is not known otherwise."""
    if isinstance(data, (str, Path)):
        return _file_source(spec, Path(data))
    if isinstance(data, np.ndarray):
        return array_source(spec, data)
    if _is_table(data):
        from nearfield._sources.tables import reader_source, table_source

        if hasattr(data, "read_next_batch"):
            empty = data.schema.empty_table()
            return reader_source(spec, data, empty)
        return table_source(spec, as_table(data))
    if isinstance(data, Mapping):
        if not is_column_batch(data):
            raise TypeError(f"data: one row; give {KINDS}")
        _check_alone(spec)
        return spooled([column_batch(spec, data)])
    if not isinstance(data, Iterable):
        raise TypeError(f"data: {type(data).__name__}; give {KINDS}")
    return _iterable_source(spec, data)


def _check_alone(spec: Spec) -> None:
    """Refuses arguments about rows that have members: nothing may be ignored."""
    for name in ("ids", "vectors", "attributes", "payloads"):
        if getattr(spec, name) is not None:
            raise TypeError(f"{name}: these rows have members: id, vector, payload, attributes")


def _is_table(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or type(data).__module__.partition(".")[0] in (
        "pyarrow",
        "pandas",
    )


def as_table(data: Any) -> Any:
    """Returns a record batch, a DataFrame, or anything else that exports Arrow, as a table."""
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    return data if isinstance(data, pa.Table) else pa.table(data)


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
        return spooled(column_batch(spec, each) for each in items)
    if isinstance(first, Mapping):
        return spooled(row_batches(spec, items))
    if _is_table(first):
        from nearfield._sources.tables import reader_source

        return reader_source(spec, map(as_table, items), as_table(first))
    if isinstance(data, (list, tuple)):
        return array_source(spec, np.array(data))
    raise TypeError(f"data: an iterable of {type(first).__name__}; give {KINDS}")


def _file_source(spec: Spec, path: Path) -> Source:
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        _check_alone(spec)
        return spooled(_named(path, row_batches(spec, files.read_jsonl(path))))
    if suffix == ".npy":
        return array_source(spec, files.open_npy(path))
    if suffix == ".fbin":
        return array_source(spec, files.open_fbin(path))
    if suffix == ".fvecs":
        return array_source(spec, files.open_fvecs(path))
    if suffix in (".hdf5", ".h5"):
        dataset, file = files.open_hdf5(path, spec.vectors or "train")
        source = array_source(replace(spec, vectors=None), dataset)
        return Source(source.rows, source.payload_bytes, source.batches, file.close)
    if suffix == ".parquet":
        from nearfield._sources.tables import parquet_source

        return parquet_source(spec, path)
    raise ValueError(f"data: {path}; the name must end as in {KINDS}")


def _named(path: Path, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Adds the name of the file to errors of its rows."""
    try:
        yield from batches
    except (TypeError, ValueError) as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path}: {text}") from None

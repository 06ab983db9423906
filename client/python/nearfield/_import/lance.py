"""LanceDB: the folder of a database, or of one of its tables (NAME.lance)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearfield._import.found import Choice, Found, ImportRefused, Part, chosen
from nearfield._sources.source import BATCH_ROWS

SUFFIX = ".lance"


def open_lance(path: Path, choice: Choice) -> Found:
    """Opens a table. A column of lists of floats of one size is the vectors; the ids are the column
    id, or --ids names another one, or the rows are numbered."""
    import lancedb
    import pyarrow as pa

    from nearfield._arrow import matrix_of, plain

    if path.suffix == SUFFIX:
        folder, choice = path.parent, Choice(path.stem, choice.vector, choice.ids)
    else:
        folder = path
    names = [each.stem for each in folder.glob(f"*{SUFFIX}")]
    name = chosen(path, "table", "--from", choice.collection, names)
    table = lancedb.connect(str(folder)).open_table(name)
    schema: pa.Schema = table.schema
    vectors = {
        each.name: each.type
        for each in schema
        if pa.types.is_fixed_size_list(each.type) and pa.types.is_floating(each.type.value_type)
    }
    vector = chosen(path, "column of vectors", "--vector", choice.vector, list(vectors))
    kind = vectors[vector]
    ids = _id_column(path, choice, schema)
    rest = [each for each in schema.names if each not in (vector, ids)]

    def parts() -> Iterator[Part]:
        columns = [each for each in (ids, vector, *rest) if each is not None]
        for batch in table.search().select(columns).to_batches(batch_size=BATCH_ROWS):
            fields = batch.select(rest).to_pylist() if rest else None
            yield Part(
                None if ids is None else _checked(path, ids, plain(batch.column(ids)).to_pylist()),
                _floats(matrix_of(batch.column(vector), vector, kind.list_size)),
                fields,
                fields,
            )

    dtype = "float16" if kind.value_type == pa.float16() else "float32"
    return Found(name, kind.list_size, dtype=dtype, parts=parts)


def _id_column(path: Path, choice: Choice, schema: Any) -> str | None:
    import pyarrow as pa

    fits = [
        each.name
        for each in schema
        if pa.types.is_integer(each.type) or pa.types.is_string(each.type)
    ]
    if choice.ids:
        return chosen(path, "column of integers or texts", "--ids", choice.ids, fits)
    return "id" if "id" in fits else None


def _checked(path: Path, name: str, ids: list[Any]) -> list[Any]:
    if None in ids:
        raise ImportRefused(f"{path}: column {name!r}: a row has no id")
    return ids


def _floats(vectors: Any) -> Any:
    """Doubles are rounded to float32."""
    return vectors if vectors.dtype == np.float16 else np.asarray(vectors, np.float32)

"""Arrow tables, record batches and Parquet files. Imported only if pyarrow is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nearfield._arrow import matrix_of, plain
from nearfield._blocks import Batch
from nearfield._sources.columns import column_packer
from nearfield._sources.places import located, rows_from, with_id
from nearfield._sources.plan import Plan, plan_of
from nearfield._sources.source import BATCH_ROWS, Parts, Source, Spec
from nearfield._sources.spool import spooled


def table_source(spec: Spec, table: pa.Table) -> Source:
    plan = plan_of(spec, table.schema.names)
    chosen = table.select(plan.names())
    return _source(spec, plan, table.num_rows, lambda _: _parts(chosen))


def reader_source(spec: Spec, batches: Iterable[Any], first: pa.RecordBatch | pa.Table) -> Source:
    """Record batches of an unknown number."""
    plan = plan_of(spec, first.schema.names)

    def packed() -> Iterator[Batch]:
        begin = 0
        for each in batches:
            same = each.schema.names == first.schema.names
            part_plan = plan if same else plan_of(spec, each.schema.names)
            for part in _parts(each):
                yield _batch(spec, part_plan, begin, part)
                begin += len(part)

    return spooled(packed())


def _parts(item: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches([item]) if isinstance(item, pa.RecordBatch) else item
    return (part for part in table.to_batches(max_chunksize=BATCH_ROWS) if len(part))


def parquet_source(spec: Spec, path: Path) -> Source:
    """Reads a Parquet file row group by row group, and only the columns that are needed."""
    with pq.ParquetFile(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)

    return _source(spec, plan_of(spec, names), rows, read)


def _source(
    spec: Spec, plan: Plan, rows: int, read: Callable[[list[str]], Iterable[pa.RecordBatch]]
) -> Source:
    """read: returns record batches with at least these columns."""

    def batches() -> Iterator[Batch]:
        begin = 0
        for each in read(plan.names()):
            yield _batch(spec, plan, begin, each)
            begin += len(each)

    # The server wants to know the size of all payloads first. They are made twice, which is cheaper
    # than keeping them.
    payload_bytes = begin = 0
    if plan.payloads is not None:
        for each in read([plan.id, *plan.paid()]):
            place = with_id(rows_from(begin), _id_reader(each.column(plan.id)))
            pack = _payload_packer(spec, plan, each)
            payload_bytes += sum(map(len, located(pack, len(each), place)))
            begin += len(each)
    return Source(rows, payload_bytes, batches)


def _batch(spec: Spec, plan: Plan, begin: int, batch: pa.RecordBatch) -> Batch:
    ids, vectors = batch.column(plan.id), batch.column(plan.vector)
    parts = Parts(
        ids=lambda n: spec.checked_ids(_ids(ids[:n], plan.id)),
        vectors=lambda n: spec.encoded(matrix_of(vectors[:n], plan.vector, spec.info.dim)),
        payloads=None if plan.payloads is None else _payload_packer(spec, plan, batch),
        columns=[
            column_packer(spec, name, batch.column(column))
            for name, column in plan.attributes.items()
        ],
    )
    return spec.batch(len(batch), rows_from(begin), parts)


def _id_reader(column: pa.Array) -> Callable[[int], Any]:
    return lambda row: column[row].as_py()


def _ids(column: pa.Array, name: str) -> Any:
    if column.null_count:
        raise ValueError(f"column {name!r}: no id")
    column = plain(column)
    return column.to_numpy() if pa.types.is_integer(column.type) else column.to_pylist()


def _payload_packer(spec: Spec, plan: Plan, batch: pa.RecordBatch) -> Callable[[int], list[bytes]]:
    def pack(n: int) -> list[bytes]:
        part = batch[:n]
        if isinstance(plan.payloads, str):
            return spec.payloads_of(part.column(plan.payloads).to_pylist())
        return spec.payloads_of(part.select(plan.payloads).to_pylist())

    return pack

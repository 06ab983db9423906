"""Arrow tables, record batches and Parquet files. Imported only if pyarrow is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nearfield._arrow import column_name, matrix_of
from nearfield._blocks import Batch
from nearfield._sources.arrow_columns import arrow_column
from nearfield._sources.source import (
    BATCH_ROWS,
    Source,
    Spec,
    compact_json,
    name_of_column,
    payload_bytes,
)
from nearfield._sources.spool import spooled


@dataclass(frozen=True)
class Plan:
    """Which columns of a table are what.

    id, vector  names of columns
    attributes  column by attribute
    payloads    one column, stored as it is; or several, stored as a JSON object
    """

    id: str
    vector: str
    attributes: dict[str, str]
    payloads: str | list[str] | None

    def names(self) -> list[str]:
        return list(dict.fromkeys([self.id, self.vector, *self.attributes.values(), *self._paid()]))

    def _paid(self) -> list[str]:
        if self.payloads is None:
            return []
        return [self.payloads] if isinstance(self.payloads, str) else list(self.payloads)


def plan_of(spec: Spec, schema: pa.Schema) -> Plan:
    """By default the columns id, vector and payload, and every declared attribute that has a column
    of its name; further columns are refused. An attribute named like a part of the row, such as id,
    has the column attribute_id, as in an export, or one of its name that is not that part."""
    payloads = spec.payloads
    plan = Plan(
        name_of_column("ids", spec.ids, "id"),
        name_of_column("vectors", spec.vectors, "vector"),
        {},
        payloads if payloads is None or isinstance(payloads, str) else list(payloads),
    )
    attributes = spec.attributes
    if attributes is None:
        parts = set(plan.names())
        attributes = {each.name: column_name(each) for each in spec.info.attributes}
        for name, column in attributes.items():
            if column not in schema.names and name not in parts:
                attributes[name] = name
        attributes = {name: each for name, each in attributes.items() if each in schema.names}
    if not isinstance(attributes, Mapping):
        attributes = {name: name for name in attributes}
    plan.attributes.update(attributes)
    if payloads is None and "payload" in set(schema.names).difference(plan.names()):
        plan = replace(plan, payloads="payload")
    for name in plan.attributes:
        spec.attribute(name)
    for name in plan.names():
        if name not in schema.names:
            raise ValueError(f"no column {name!r}; the columns are {', '.join(schema.names)}")
    unused = [name for name in schema.names if name not in plan.names()]
    if unused and spec.attributes is None:
        raise ValueError(
            f"column {unused[0]!r}: no id, vector, payload or attribute ({spec.known()}); add it to"
            " payloads=, or name the attributes to take: attributes=[...]"
        )
    return plan


def table_source(spec: Spec, table: pa.Table) -> Source:
    plan = plan_of(spec, table.schema)
    chosen = table.select(plan.names())

    def batches() -> Iterator[Batch]:
        return (_batch(spec, plan, each) for each in _parts(chosen))

    return Source(table.num_rows, _payload_total(plan, chosen.to_batches), batches)


def reader_source(spec: Spec, batches: Iterable[Any], first: pa.RecordBatch | pa.Table) -> Source:
    """Record batches of an unknown number."""
    plan = plan_of(spec, first.schema)
    return spooled(
        _batch(spec, plan if each.schema == first.schema else plan_of(spec, each.schema), part)
        for each in batches
        for part in _parts(each)
    )


def _parts(item: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches([item]) if isinstance(item, pa.RecordBatch) else item
    return (part for part in table.to_batches(max_chunksize=BATCH_ROWS) if len(part))


def parquet_source(spec: Spec, path: Path) -> Source:
    """Reads a Parquet file row group by row group, and only the columns that are needed."""
    plan = plan_of(spec, pq.read_schema(path))

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)

    def batches() -> Iterator[Batch]:
        return (_batch(spec, plan, each) for each in read(plan.names()))

    rows = pq.read_metadata(path).num_rows
    return Source(rows, _payload_total(plan, lambda: read(plan._paid())), batches)


def _payload_total(plan: Plan, read: Callable[[], Iterable[pa.RecordBatch]]) -> int:
    """Returns the size of all payloads, which the server wants to know first. Makes them twice,
    which is cheaper than keeping them."""
    if plan.payloads is None:
        return 0
    return sum(len(each) for batch in read() for each in _payloads(plan, batch) or ())


def _batch(spec: Spec, plan: Plan, batch: pa.RecordBatch) -> Batch:
    columns = (
        arrow_column(spec.attribute(name), batch.column(column))
        for name, column in plan.attributes.items()
    )
    return Batch(
        spec.checked_ids(_ids(batch.column(plan.id), plan.id)),
        spec.encoded(matrix_of(batch.column(plan.vector), plan.vector)),
        _payloads(plan, batch),
        [column for column in columns if column is not None],
    )


def _ids(column: pa.Array, name: str) -> Any:
    if column.null_count:
        raise ValueError(f"column {name!r}: row {column.is_valid().index(False)} has no id")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.to_numpy() if pa.types.is_integer(column.type) else column.to_pylist()


def _payloads(plan: Plan, batch: pa.RecordBatch) -> list[bytes] | None:
    if plan.payloads is None:
        return None
    if isinstance(plan.payloads, str):
        return [payload_bytes(value) for value in batch.column(plan.payloads).to_pylist()]
    return [compact_json(row) for row in batch.select(plan.payloads).to_pylist()]

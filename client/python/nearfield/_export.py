"""Writes all rows of one epoch to a Parquet file. Imports pyarrow when it is used."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial as partial_of
from pathlib import Path
from typing import Any

from nearfield._attributes import Attribute
from nearfield._records import CollectionInfo
from nearfield._results import ScanPage
from nearfield._transport import Transport


@dataclass(frozen=True)
class Exported:
    """rows_count: rows that were written; epoch: the state of the collection that they show;
    incarnation: of the epoch."""

    rows_count: int
    epoch: int
    incarnation: int


@dataclass(frozen=True)
class Layout:
    """The columns of an export."""

    info: CollectionInfo
    vectors: bool
    payload: bool
    attributes: tuple[Attribute, ...]

    def schema(self) -> Any:
        import pyarrow as pa

        from nearfield._arrow import arrow_type, column_name

        info = self.info
        fields = [pa.field("id", pa.string() if info.id_type == "string" else pa.uint64())]
        if self.vectors:
            # bfloat16 is widened to float32, which is exact.
            number = pa.float16() if info.dtype == "float16" else pa.float32()
            fields.append(pa.field("vector", pa.list_(number, info.dim)))
        if self.payload:
            fields.append(pa.field("payload", pa.binary()))
        fields += [pa.field(column_name(each), arrow_type(each)) for each in self.attributes]
        return pa.schema(fields)


async def write_export(
    transport: Transport,
    path: Path,
    layout: Layout,
    pages: AsyncGenerator[ScanPage, None],
) -> Exported:
    """Writes the pages to `path`, which gets its name when it is complete."""
    import pyarrow.parquet as pq

    schema, rows, epoch, incarnation = layout.schema(), 0, 0, 0
    partial = path.with_name(path.name + ".partial")
    writer = pq.ParquetWriter(partial, schema)
    try:
        async for page in pages:
            table = _table(page, schema)
            await transport.compute(partial_of(writer.write_table, table))
            rows += len(page)
            epoch, incarnation = page.epoch, page.incarnation
        writer.close()
        partial.replace(path)
    finally:
        await pages.aclose()
        writer.close()
        partial.unlink(missing_ok=True)
    return Exported(rows, epoch, incarnation)


def _table(page: ScanPage, schema: Any) -> Any:
    """Returns a page with all columns of the schema: an empty page has none of its own."""
    return page.to_arrow().cast(schema) if len(page) else schema.empty_table()

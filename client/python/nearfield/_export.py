"""Writes all rows of one epoch to a file of Parquet or JSON lines, with pyarrow."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial as partial_of
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from nearfield._attributes import Attribute, column_name
from nearfield._export_lines import LinesFile
from nearfield._records import CollectionInfo
from nearfield._results import ScanPage
from nearfield._sources.json_lines import members
from nearfield._sources.open import suffix_of
from nearfield._transport import Transport

# The size of a row group of a Parquet file. Pages are smaller, and small groups are slow to read.
GROUP_BYTES = 64 << 20

#: Payloads in a file: none, bytes, text, or a column for each of these members of a JSON object.
PayloadForm: TypeAlias = bool | Literal["text"] | Sequence[str]


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
    payload: PayloadForm
    attributes: tuple[Attribute, ...]

    def members(self) -> list[str]:
        """Returns the members of payloads that have columns of their own."""
        return [] if isinstance(self.payload, (bool, str)) else list(self.payload)

    def schema(self) -> Any:
        import pyarrow as pa

        from nearfield._arrow import arrow_type

        info = self.info
        fields = [pa.field("id", pa.string() if info.id_type == "string" else pa.uint64())]
        if self.vectors:
            # bfloat16 is widened to float32, which is exact.
            number = pa.float16() if info.dtype == "float16" else pa.float32()
            fields.append(pa.field("vector", pa.list_(number, info.dim)))
        if isinstance(self.payload, (bool, str)) and self.payload:
            fields.append(pa.field("payload", pa.binary() if self.payload is True else pa.string()))
        fields += [pa.field(name, pa.string()) for name in self.members()]
        fields += [pa.field(column_name(each), arrow_type(each)) for each in self.attributes]
        names = [each.name for each in fields]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"payload: the member {name!r} is also another column")
        return pa.schema(fields)


class _File(Protocol):
    def write(self, page: ScanPage) -> None: ...

    def close(self) -> None: ...


def check_layout(path: Path, layout: Layout) -> None:
    """Raises ValueError for a file that cannot hold the rows."""
    payload, suffix = layout.payload, suffix_of(path)
    if isinstance(payload, str) and payload != "text":
        raise ValueError(f'payload: {payload!r}; True, False, "text" or a list of members')
    if suffix == ".parquet" and path.suffix != ".gz":
        layout.schema()
        return
    if suffix not in (".jsonl", ".ndjson"):
        raise ValueError(f"{path}: an export is a file .parquet, .jsonl or .jsonl.gz")
    if not isinstance(payload, bool):
        raise ValueError(f"payload: {payload!r}; a file .jsonl has each payload as it is stored")
    for name in ("id", "vector", "payload"):
        if name in (each.name for each in layout.attributes):
            raise ValueError(f"{path}: an attribute {name!r} needs a file .parquet")


async def write_export(
    transport: Transport,
    path: Path,
    layout: Layout,
    pages: AsyncGenerator[ScanPage, None],
) -> Exported:
    """Writes the pages to `path`, which gets its name when it is complete."""
    rows, epoch, incarnation = 0, 0, 0
    partial = path.with_name(path.name + ".partial")
    parquet = suffix_of(path) == ".parquet"
    file: _File = _ParquetFile(partial, layout) if parquet else LinesFile(partial, path)
    try:
        async for page in pages:
            await transport.compute(partial_of(file.write, page))
            rows += len(page)
            epoch, incarnation = page.epoch, page.incarnation
        await transport.compute(file.close)
        partial.replace(path)
    finally:
        try:
            await pages.aclose()
            file.close()
        finally:
            partial.unlink(missing_ok=True)
    return Exported(rows, epoch, incarnation)


class _ParquetFile:
    def __init__(self, path: Path, layout: Layout) -> None:
        import pyarrow.parquet as pq

        self._layout = layout
        self._schema = layout.schema()
        # A dictionary of ids, vectors or payloads would cost time and save nothing.
        repeated = [
            column_name(each) + ".list.element" * each.is_list for each in layout.attributes
        ]
        self._writer = pq.ParquetWriter(path, self._schema, use_dictionary=repeated or False)
        self._tables: list[Any] = []

    def write(self, page: ScanPage) -> None:
        if len(page):  # an empty page has no columns
            self._tables.append(self._table(page))
        if sum(each.nbytes for each in self._tables) >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._tables:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        table, self._tables = pa.concat_tables(self._tables), []
        self._writer.write_table(table, row_group_size=len(table))

    def _table(self, page: ScanPage) -> Any:
        import pyarrow as pa

        table = page.to_arrow()
        if isinstance(self._layout.payload, bool):
            return table.cast(self._schema)
        texts = [_text(page, row) for row in range(len(page))]
        columns: dict[str, list[str | None]] = {"payload": texts}
        if names := self._layout.members():
            found = [_members(page, row, text) for row, text in enumerate(texts)]
            columns = {name: [each.get(name) for each in found] for name in names}
        table = table.drop_columns(["payload"])
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values, pa.string()))
        return table.select(self._schema.names).cast(self._schema)


def _text(page: ScanPage, row: int) -> str | None:
    """Returns a payload as text; None if it is empty."""
    try:
        return page.payloads[row].decode() or None
    except UnicodeDecodeError:
        raise ValueError(f"id {page._id(row)!r}: its payload is not UTF-8") from None


def _members(page: ScanPage, row: int, text: str | None) -> dict[str, str | None]:
    """Returns the members of a payload: texts as they are, and other values as JSON."""
    try:
        found = list(members(text)) if text else []
    except ValueError as error:
        raise ValueError(f"id {page._id(row)!r}: its payload is no JSON object: {error}") from None
    return {
        name: value if value is None or isinstance(value, str) else shown
        for name, value, shown in found
    }

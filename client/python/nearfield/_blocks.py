"""Batches of rows, and how they are cut into the blocks of an upload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._columns import Column
from nearfield._errors import InvalidArgument
from nearfield._proto import common_pb2 as common
from nearfield._proto import ingest_pb2 as ingest
from nearfield._values import Ids, dtype_value, id_list

# The size of a block. Larger blocks gain nothing, and take longer to arrive than the server waits
# on a slow line.
BLOCK_BYTES = 2 << 20


@dataclass
class Batch:
    """Rows as columns of the same length, ready to be sent.

    ids       uint64 [n] or n texts
    vectors   [n, D] in the wire type of the collection
    payloads  n bytes, or None: no row has one
    columns   attributes that some row has
    """

    ids: Ids
    vectors: NDArray[Any]
    payloads: list[bytes] | None = None
    columns: list[Column] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = len(self.ids)
        if len(self.vectors) != rows:
            raise ValueError(f"vectors: {len(self.vectors)} rows for {rows} ids")
        if self.payloads is not None and len(self.payloads) != rows:
            raise ValueError(f"payloads: {len(self.payloads)} for {rows} ids")

    def __len__(self) -> int:
        return len(self.ids)

    def request(self, begin: int, end: int, dtype: common.DataType) -> ingest.UploadRequest:
        """Returns the message with the block of the rows [begin, end)."""
        request = ingest.UploadRequest()
        block = request.block
        block.ids.MergeFrom(id_list(self.ids[begin:end]))
        block.vectors.dtype = dtype
        block.vectors.data = self.vectors[begin:end].tobytes()
        if self.payloads is not None:
            block.payloads.extend(self.payloads[begin:end])
        columns = (column.message(begin, end) for column in self.columns)
        block.attributes.extend(column for column in columns if column is not None)
        return request


def cut(
    batches: Iterable[Batch], dtype: str, bytes_max: int, rows_skipped: int = 0
) -> Iterator[tuple[int, ingest.UploadRequest]]:
    """Yields (rows, message with a block of at most `bytes_max`), without the first `rows_skipped`
    rows. Raises InvalidArgument for one row that is larger."""
    wire, first = dtype_value(dtype), 0
    for batch in batches:
        begin = min(rows_skipped, len(batch))
        rows_skipped -= begin
        rows_per_block = _first_guess(batch, bytes_max)
        while begin < len(batch):
            end = min(begin + rows_per_block, len(batch))
            request = batch.request(begin, end, wire)
            size = request.ByteSize()
            # Rows differ in size: halve until the block fits.
            while size > bytes_max:
                if end - begin == 1:
                    raise InvalidArgument(
                        f"row {first + begin} takes {size} bytes, a block may take {bytes_max}"
                    )
                rows_per_block = (end - begin) // 2
                end = begin + rows_per_block
                request = batch.request(begin, end, wire)
                size = request.ByteSize()
            yield end - begin, request
            begin = end
        first += len(batch)


def _first_guess(batch: Batch, bytes_max: int) -> int:
    """Returns the rows that probably fit into a block, from the sizes of a few of them."""
    sample = np.linspace(0, len(batch) - 1, num=min(len(batch), 16), dtype=np.int64)
    row_bytes = batch.vectors.dtype.itemsize * batch.vectors.shape[1] + 16
    ids, payloads = batch.ids, batch.payloads
    varying = 0
    for i in sample.tolist():
        varying += len(ids[i]) if isinstance(ids, list) else 8
        varying += len(payloads[i]) if payloads is not None else 0
    attributes = sum(
        len(column.values) * (24 if isinstance(column.values, list) else 8)
        for column in batch.columns
    ) // max(1, len(batch))
    rows = int(bytes_max * 0.9) // int(row_bytes + attributes + varying // max(1, len(sample)))
    return max(1, rows)

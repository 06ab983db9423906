"""The calls of a collection that read and change rows."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearfield import _methods as methods
from nearfield._arguments import check_names_of, epochs, flag, read_at, upload_token, whole
from nearfield._blocks import BLOCK_BYTES
from nearfield._changes import Deleted, Updated, Uploaded
from nearfield._columns import read_columns
from nearfield._core import Core
from nearfield._errors import AlreadyExists, InvalidArgument
from nearfield._export import Exported, Layout, PayloadForm, check_layout, write_export
from nearfield._filter import FilterLike
from nearfield._filter_forms import set_filter
from nearfield._handle import Handle
from nearfield._pages import scan_pages
from nearfield._proto import common_pb2 as common
from nearfield._proto import ingest_pb2 as ingest
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._results import Counted, FetchResult, Pinned, ScanPage
from nearfield._search import attribute_names
from nearfield._sources.open import open_source
from nearfield._sources.places import placed
from nearfield._sources.source import Spec
from nearfield._update import Changes, run_update
from nearfield._upload import Plan, run_upload
from nearfield._upload_progress import Progress, progress_of
from nearfield._values import IdsLike, decode, enum_value, id_list, read_ids, to_ids

UploadMode = Literal["insert", "upsert", "replace"]
ZeroRows = Literal["refuse", "accept"]
Names = Sequence[str] | Literal["*"]


@check_names_of
class RowCalls(Handle):
    """Reads, uploads and deletes of one collection."""

    async def fetch(
        self,
        ids: IdsLike,
        *,
        payload: bool = True,
        vectors: bool = True,
        attributes: Names = (),
        min_epoch: int | None = None,
        at_epoch: int | None = None,
        incarnation: int | None = None,
        timeout: float | None = None,
    ) -> FetchResult:
        """Returns rows by id, at most Limits.fetch_ids_max: vectors bit for bit, payloads,
        attributes. Ids that name no row are in `missing`. An empty list returns no rows."""
        deadline = self._core.deadline(timeout)
        at = read_at(min_epoch, at_epoch, incarnation)
        wanted = to_ids(ids)
        if not len(wanted):
            counted = await self.count(**at, timeout=timeout)
            none = np.zeros((0, 0), np.float32) if vectors else None
            no_ids = read_ids(common.IdList())
            return FetchResult(no_ids, [], none, (), no_ids, counted.epoch, counted.incarnation)
        declared = await self._declared(deadline) if attributes else {}
        request = retrieval.FetchRequest(
            collection=self.name,
            ids=id_list(wanted),
            with_payload=flag("payload", payload),
            with_vectors=flag("vectors", vectors),
            **at,
            attributes=attribute_names(attributes),
        )
        reply, _ = await self._core.read(methods.FETCH, self.name, request, deadline)
        found = read_ids(reply.ids)
        return FetchResult(
            found,
            list(reply.payloads),
            decode(reply.vectors, len(found)) if vectors else None,
            read_columns(reply.attributes, len(found), declared),
            read_ids(reply.missing),
            reply.epoch,
            reply.incarnation,
        )

    async def count(
        self,
        filter: FilterLike | None = None,
        *,
        min_epoch: int | None = None,
        at_epoch: int | None = None,
        incarnation: int | None = None,
        timeout: float | None = None,
    ) -> Counted:
        """Returns the number of rows; with a filter, of those that pass it."""
        deadline = self._core.deadline(timeout)
        request = retrieval.CountRequest(
            collection=self.name,
            **read_at(min_epoch, at_epoch, incarnation),
        )
        set_filter(request, filter)
        reply, _ = await self._core.read(methods.COUNT, self.name, request, deadline)
        return Counted(reply.rows_count, reply.epoch, reply.incarnation)

    async def pin_epoch(
        self,
        *,
        at_epoch: int | None = None,
        min_epoch: int | None = None,
        incarnation: int | None = None,
        timeout: float | None = None,
    ) -> Pinned:
        """Keeps an epoch on the server as for a cursor, so that later reads with at_epoch find it.
        Repeat the call to keep it longer; each read of the epoch also does."""
        request = retrieval.PinEpochRequest(
            collection=self.name, **read_at(min_epoch, at_epoch, incarnation)
        )
        deadline = self._core.deadline(timeout)
        reply, _ = await self._core.read(methods.PIN_EPOCH, self.name, request, deadline)
        return Pinned(reply.epoch, reply.incarnation, reply.rows_count, reply.kept_ms)

    async def delete(
        self,
        ids: IdsLike | None = None,
        *,
        filter: FilterLike | None = None,
        timeout: float | None = None,
    ) -> Deleted:
        """Deletes rows by id, at most Limits.fetch_ids_max, or by a filter: atomically, as one
        epoch. Ids that name no row are ignored, and an empty list deletes nothing."""
        if (ids is None) == (filter is None):
            raise TypeError("give either ids or filter=")
        deadline = self._core.deadline(timeout)
        request = ingest.DeleteRequest(collection=self.name)
        if ids is not None:
            wanted = to_ids(ids)
            if not len(wanted):
                info = await self._core.info(self.name, deadline, fresh=True)
                return Deleted(0, info.epoch, info.incarnation)
            request.ids.CopyFrom(id_list(wanted))
        set_filter(request, filter)
        reply, _ = await self._core.call(methods.DELETE, request, deadline)
        self._core.wrote(self.name, reply.incarnation, reply.epoch)
        return Deleted(reply.rows_deleted, reply.epoch, reply.incarnation)

    async def update(
        self,
        ids: IdsLike | None = None,
        *,
        filter: FilterLike | None = None,
        attributes: Changes | None = None,
        payloads: Any = None,
        if_: FilterLike | None = None,
        if_epoch: int | None = None,
        incarnation: int | None = None,
        token: str | bytes | None = None,
        timeout: float | None = None,
    ) -> Updated:
        """Changes attributes and payloads of rows, atomically, as one epoch; their vectors stay.

        ids         at most Limits.fetch_ids_max, each once; an empty list changes nothing
        filter      instead of ids: all rows that pass get the same values
        attributes  {"year": 2020}, the value of all rows; with ids also a column, {"year": [2020,
                    None]}, which is the only form for lists; or a dict of each row, [{"year": 2020,
                    "payload": ...}, {}], which keeps what it does not name. None: no value
        payloads    with ids a list of one value for each, as in upload(), where None removes it;
                    with filter= one value, where b"" removes it
        if_         with ids: a filter; a row that does not pass at the epoch before keeps its
                    values, and is in `refused`, so if_=F.version == 7 is a compare and set
        if_epoch    change something only if this is the current epoch; incarnation: of this epoch
        token       makes the call repeatable: with the same token again the rows do not change, and
                    the reply is the first one; with another request it is refused. The last
                    10,000 of a collection are known. The server needs a data directory
        Retried only with a token. Raises FailedPrecondition for another epoch or incarnation."""
        if (ids is None) == (filter is None):
            raise TypeError("give either ids or filter=")
        if ids is None and isinstance(payloads, (list, tuple)):
            raise TypeError(
                f"payloads: {payloads!r:.60}; with filter= one value for all rows, not a list"
            )
        deadline = self._core.deadline(timeout)
        request = ingest.UpdateRequest(
            collection=self.name,
            **epochs(if_epoch=if_epoch, incarnation=incarnation),
            update_token=None if token is None else upload_token(token),
        )
        set_filter(request, filter)
        try:
            set_filter(request, if_, "if_")
        except (TypeError, ValueError) as error:
            raise placed(error, "if_") from None
        wanted = None if ids is None else to_ids(ids)
        return await run_update(self._core, request, wanted, attributes, payloads, deadline)

    async def upload(
        self,
        data: Any,
        *,
        ids: Any = None,
        vectors: str | None = None,
        attributes: Mapping[str, Any] | Sequence[str] | None = None,
        payloads: Any = None,
        mode: UploadMode = "insert",
        zero_rows: ZeroRows = "refuse",
        token: str | None = None,
        progress: bool | Callable[[Progress], None] = False,
        block_bytes: int = BLOCK_BYTES,
        timeout: float | None = None,
    ) -> Uploaded:
        """Uploads rows as one atomic, durable commit: all are visible afterwards, or none.

        data        a NumPy array [rows, dim]; an Arrow table, record batch or reader; a frame of
                    pandas or polars; a file .parquet, .csv, .jsonl, .npy, .fbin, .fvecs or .hdf5
                    (the dataset "train"); or an iterable of rows {"id": 7, "vector": [...],
                    "payload": {...}, "year": 2020}, or of batches: columns of these names, frames
        ids         with an array or binary file: the ids, by default 0, 1, 2, ...; with a table:
                    the name of their column, by default "id"
        vectors     with a table: the name of the column, by default "vector"; HDF5: the dataset
        attributes  with an array: {"year": column}, None where a row has none; with a table: names
                    of columns, or {attribute: column}; by default every declared attribute that
                    has a column of its name, and other columns are an error; one that is named id,
                    vector, payload, score or query has the column attribute_id ..., as in an export
        payloads    with an array: one value per row: bytes, text, or anything that JSON can hold;
                    with a table: a column, by default "payload", or several as a JSON object
        mode        what happens to ids that exist: insert refuses, upsert replaces the row, replace
                    replaces the collection
        zero_rows   "accept" stores rows of zeros under metric cosine; each search has them last
        token       makes the upload resumable: after a broken connection it continues;
                    after the end of the process, repeat it with the same token and data
        progress    True: a bar (tqdm); or a function that gets a Progress after each block, and
                    when the server has confirmed all rows, before the commit
        timeout     seconds of the whole upload; without one there is none

        Iterables and files of text are first read into a temporary file, because the server
        reserves the memory when the upload begins. Vectors of another type are rounded to nearest
        even. Errors about a row name its number, from 0. Cost: a few blocks of memory."""
        core = self._core
        clock = core.transport.clock
        deadline = core.deadline(timeout, math.inf)
        opening = deadline if deadline is not None else clock.now() + core.options.timeout
        wire_mode = enum_value("UPLOAD_MODE_", ingest.UploadMode, mode, "mode")
        wire_zero_rows = enum_value("ZERO_ROWS_", ingest.ZeroRows, zero_rows, "zero_rows")
        limits = await core.limits(opening)
        info = await core.info(self.name, opening, fresh=True)
        spec = Spec(info, ids, vectors, attributes, payloads, limits)
        source = await core.transport.compute(lambda: open_source(spec, data))
        on_progress, close_progress = progress_of(progress)
        plan = Plan(
            collection=self.name,
            dtype=info.dtype,
            mode=wire_mode,
            zero_rows=wire_zero_rows,
            source=source,
            token=None if token is None else upload_token(token),
            block_bytes=min(block_bytes, limits.upload_block_bytes_max),
            deadline=deadline,
            opening_timeout=core.options.timeout,
            on_progress=on_progress,
        )
        try:
            return await _run_upload(core, plan, data, source.numbered)
        finally:
            close_progress()
            source.close()

    async def scan(
        self,
        *,
        filter: FilterLike | None = None,
        payload: bool = True,
        vectors: bool = True,
        attributes: Names = "*",
        rows_max: int | None = None,
        min_epoch: int | None = None,
        at_epoch: int | None = None,
        incarnation: int | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[ScanPage, None]:
        """Yields every row of one epoch in the order of the ids, in pages; continues after the last
        one if the connection is lost. page.to_arrow() is a table."""
        deadline = self._core.deadline(timeout, math.inf)
        request = retrieval.ScanRequest(
            collection=self.name,
            with_payload=flag("payload", payload),
            with_vectors=flag("vectors", vectors),
            attributes=attribute_names(attributes),
            **read_at(min_epoch, at_epoch, incarnation),
            rows_max=None if rows_max is None else whole("rows_max", rows_max, "1 or more", 64),
        )
        set_filter(request, filter)
        declared = await self._declared(deadline) if attributes else {}
        async for page in scan_pages(self._core, request, declared, deadline):
            yield page

    async def export(
        self,
        path: str | Path,
        *,
        filter: FilterLike | None = None,
        payload: PayloadForm = True,
        vectors: bool = True,
        attributes: Names = "*",
        rows_max: int | None = None,
        timeout: float | None = None,
    ) -> Exported:
        """Writes every row of one epoch to a file in the order of the ids: the columns id, vector,
        payload and the attributes. upload() reads it. Needs pyarrow.

        path     .parquet; .jsonl or .jsonl.gz, which the command reads too
        payload  True: as bytes; "text": as text; names: a column of texts for each of these members
                 of JSON objects, in which other values than texts are JSON. Both .parquet only."""
        info = await self._core.info(self.name, self._core.deadline(timeout), fresh=True)
        chosen = info.attributes
        if not isinstance(attributes, str):
            chosen = tuple(each for each in chosen if each.name in attributes)
        layout = Layout(info, vectors, payload or False, chosen)
        check_layout(Path(path), layout)
        pages = self.scan(
            filter=filter,
            payload=bool(payload),
            vectors=vectors,
            attributes=attributes,
            rows_max=rows_max,
            timeout=timeout,
        )
        return await write_export(self._core.transport, Path(path), layout, pages)


async def _run_upload(core: Core, plan: Plan, data: Any, numbered: bool) -> Uploaded:
    """Runs an upload. If its rows are in a file, errors about them name it. numbered: no ids were
    given."""
    try:
        return await run_upload(core, plan)
    except AlreadyExists as error:
        if numbered:
            error.message += (
                '; no ids were given, so they are 0, 1, ...: give ids=, or mode="upsert"'
            )
        raise
    except InvalidArgument as error:
        if not isinstance(data, (str, Path)) or str(data) in error.message:
            raise
        raise placed(error, str(data)) from None

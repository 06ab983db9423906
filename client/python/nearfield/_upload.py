"""Uploads: one stream per try, and what is repeated when it breaks.

Source: the protocol of proto/nearfield/v1/ingest.proto, and the rules of client/cpp/upload.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import grpc

from nearfield import _methods as methods
from nearfield._blocks import cut
from nearfield._changes import Uploaded
from nearfield._core import Core
from nearfield._errors import (
    Cancelled,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    Unavailable,
)
from nearfield._proto import ingest_pb2 as ingest
from nearfield._sources.source import Source
from nearfield._transport import Duplex
from nearfield._upload_progress import Progress


@dataclass(frozen=True)
class Plan:
    """The parts of one upload.

    deadline         of the whole upload, by the clock; None: there is none
    opening_timeout  seconds in which the server must accept an upload without a token. One with a
                     token waits as long as the connection lives, because the server first reads
                     all rows that it has.
    """

    collection: str
    dtype: str
    mode: ingest.UploadMode
    zero_rows: ingest.ZeroRows
    source: Source
    token: bytes | None
    block_bytes: int
    deadline: float | None
    opening_timeout: float
    on_progress: Callable[[Progress], None] | None = None

    def begin(self) -> ingest.UploadRequest:
        return ingest.UploadRequest(
            begin=ingest.UploadBegin(
                collection=self.collection,
                mode=self.mode,
                zero_rows=self.zero_rows,
                rows_max=max(1, self.source.rows),
                payload_bytes_max=self.source.payload_bytes,
                upload_token=self.token,
            )
        )


async def run_upload(core: Core, plan: Plan) -> Uploaded:
    """Sends an upload until it is committed. Repeats its opening; with a token, also the rest as
    long as it makes progress."""

    opening = plan.deadline
    if opening is None and not plan.token:
        opening = core.transport.clock.now() + plan.opening_timeout

    retries = core.retries(opening)
    rows_known, advanced, first = 0, False, True
    while True:
        stream = _Stream(core, plan, opening)
        try:
            return await stream.send_all()
        except Error as raised:
            error = raised
        if stream.accepted and not plan.token:
            raise error
        advanced = advanced or stream.rows_resumed > rows_known
        rows_known = max(rows_known, stream.rows_resumed)
        # A server that has not yet noticed the end of the previous stream still holds its token.
        held = not first and not stream.accepted and isinstance(error, FailedPrecondition)
        first = False
        try:
            await retries.wait(error, always=held)
        except Error:
            if not advanced or not isinstance(error, Unavailable):
                raise
            retries, advanced = core.retries(opening), False


class _Stream:
    """One try. accepted: the server had accepted it; rows_resumed: rows that it had before."""

    def __init__(self, core: Core, plan: Plan, opening: float | None) -> None:
        self._core = core
        self._plan = plan
        self._opening = opening
        self._commit_sent = False
        self._rows_sent = 0
        self._bytes_sent = 0
        self._received = 0
        self.accepted = False
        self.rows_resumed = 0

    async def send_all(self) -> Uploaded:
        clock, deadline = self._core.transport.clock, self._plan.deadline
        timeout = None if deadline is None else max(0.0, deadline - clock.now())
        duplex = self._core.transport.duplex(methods.UPLOAD, timeout, self._core.metadata)
        try:
            await duplex.write(self._plan.begin())
            committed = await self._open(duplex)
            if committed is None:
                rows = await self._send_blocks(duplex)
                commit = ingest.UploadRequest(commit=ingest.UploadCommit(rows_count=rows))
                self._commit_sent = await duplex.write(commit)
            await duplex.finish_writing()
            return await self._finish(duplex, committed)
        except grpc.RpcError as raised:
            raise self._doubtful(self._core.error(raised)) from None
        finally:
            duplex.cancel()

    async def _open(
        self, duplex: Duplex[ingest.UploadRequest, ingest.UploadResponse]
    ) -> ingest.UploadCommitted | None:
        """Waits until the server accepts or refuses. Returns the commit of an earlier call with
        this token."""
        left = None
        if self._opening is not None:
            left = max(0.0, self._opening - self._core.transport.clock.now())
        try:
            reply = await duplex.read(left)
        except TimeoutError:
            raise DeadlineExceeded(
                f"the server did not accept the upload within {left:.1f} s"
            ) from None
        if reply is None:
            raise Internal("malformed reply: the upload ended before it was accepted")
        if reply.HasField("committed"):
            self.rows_resumed = reply.committed.rows_count
            return reply.committed
        self.accepted = True
        self.rows_resumed = self._received = reply.accepted.rows_received
        self._next_block = reply.accepted.next_block
        return None

    async def _send_blocks(
        self, duplex: Duplex[ingest.UploadRequest, ingest.UploadResponse]
    ) -> int:
        """Sends all rows that the server does not have; returns the number of all rows."""
        plan = self._plan
        blocks = cut(
            plan.source.batches(), plan.dtype, plan.block_bytes, rows_skipped=self.rows_resumed
        )
        self._report()
        while True:
            item = await self._core.transport.compute(lambda: next(blocks, None))
            if item is None:
                rows = self.rows_resumed + self._rows_sent
                await self._confirm(duplex, rows)
                return rows
            rows, request = item
            if plan.token:
                request.block.block_number = self._next_block
            self._next_block += 1
            if not await duplex.write(request):
                # The reason is the status of the stream.
                while await duplex.read() is not None:
                    pass
                raise Internal("malformed reply: the upload ended early")
            self._rows_sent += rows
            self._bytes_sent += request.ByteSize()
            for reply in duplex.received():
                self._received = max(self._received, reply.progress.rows_received)
            self._report()

    async def _confirm(
        self, duplex: Duplex[ingest.UploadRequest, ingest.UploadResponse], rows: int
    ) -> None:
        """Waits until the server has confirmed all rows, if progress is reported."""
        if self._plan.on_progress is None or self._received == rows:
            return
        while self._received < rows and (reply := await duplex.read()) is not None:
            self._received = max(self._received, reply.progress.rows_received)
        self._report()

    async def _finish(
        self,
        duplex: Duplex[ingest.UploadRequest, ingest.UploadResponse],
        committed: ingest.UploadCommitted | None,
    ) -> Uploaded:
        was_committed = committed is not None
        try:
            while (reply := await duplex.read()) is not None:
                if reply.HasField("committed"):
                    committed = reply.committed
        except grpc.RpcError:
            if committed is None:  # else the rows are there, however the stream ends
                raise
        if committed is None:
            raise Internal("malformed reply: the upload ended without its commit")
        if not was_committed:
            self._received = committed.rows_count
            self._report()
        self._core.wrote(self._plan.collection, committed.incarnation, committed.epoch)
        return Uploaded(
            committed.epoch,
            committed.incarnation,
            committed.rows_count,
            committed.rows_replaced,
            self.rows_resumed,
            duplex.request_id(),
        )

    def _doubtful(self, error: Error) -> Error:
        """Adds what has become of the rows to the error of a connection that broke."""
        if not self.accepted or not isinstance(error, (Unavailable, DeadlineExceeded, Cancelled)):
            return error
        if self._commit_sent:
            what = "repeat it with the same token" if self._plan.token else "count before repeating"
            error.message += f"; the commit had been sent, so the rows may be there: {what}"
        elif not self._plan.token:
            error.message += "; no row was stored: repeat the upload, or give token= to continue it"
        return error

    def _report(self) -> None:
        if self._plan.on_progress is None:
            return
        now = Progress(
            rows_sent=self._rows_sent,
            rows_skipped=self.rows_resumed,
            rows_received=self._received,
            rows_max=self._plan.source.rows,
            bytes_sent=self._bytes_sent,
        )
        self._plan.on_progress(now)

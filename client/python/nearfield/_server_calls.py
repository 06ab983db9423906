"""The calls about a server: aliases, snapshots, uploads with a token, limits, memory, counters."""

from __future__ import annotations

from nearfield import _methods as methods
from nearfield._arguments import check_names_of, upload_token
from nearfield._core import Core
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import health_pb2 as health
from nearfield._proto import ingest_pb2 as ingest
from nearfield._records import (
    Capacity,
    CollectionInfo,
    Counters,
    Limits,
    OpenUpload,
    ServerState,
    Snapshot,
    UploadState,
    read_capacity,
    read_collection,
    read_counters,
    read_open_upload,
    read_plain,
    read_snapshot,
    read_state,
)


@check_names_of
class ServerCalls:
    """Shared by AsyncClient; see there."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def set_alias(
        self, alias: str, collection: str, *, timeout: float | None = None
    ) -> CollectionInfo:
        """Makes `alias` another name of the collection, or moves it there atomically; returns the
        collection. Not retried: another caller may have moved the alias since."""
        request = admin.SetAliasRequest(alias=alias, collection=collection)
        reply = await self._core.reply(methods.SET_ALIAS, request, timeout)
        self._core.forget(alias)
        return read_collection(reply.collection)

    async def drop_alias(self, alias: str, *, timeout: float | None = None) -> str:
        """Removes an alias; returns the name of its collection, which stays. Not retried."""
        request = admin.DropAliasRequest(alias=alias)
        reply = await self._core.reply(methods.DROP_ALIAS, request, timeout)
        self._core.forget(alias)
        return reply.collection

    async def create_snapshot(self, name: str, *, timeout: float | None = None) -> Snapshot:
        """Copies all collections, as they are at one moment, to the operator's directory. Takes
        time that grows with the rows: set a timeout that fits. Not retried."""
        request = admin.CreateSnapshotRequest(name=name)
        reply = await self._core.reply(methods.CREATE_SNAPSHOT, request, timeout)
        return read_snapshot(reply.snapshot)

    async def delete_snapshot(self, name: str, *, timeout: float | None = None) -> Snapshot:
        """Deletes a snapshot; returns what it was. Not retried."""
        request = admin.DeleteSnapshotRequest(name=name)
        reply = await self._core.reply(methods.DELETE_SNAPSHOT, request, timeout)
        return read_snapshot(reply.snapshot)

    async def list_snapshots(self, *, timeout: float | None = None) -> list[Snapshot]:
        """Returns the complete snapshots, ordered by name."""
        request = admin.ListSnapshotsRequest()
        reply = await self._core.reply(methods.LIST_SNAPSHOTS, request, timeout)
        return [read_snapshot(each) for each in reply.snapshots]

    async def limits(self, *, timeout: float | None = None) -> Limits:
        """Returns the limits of the server, which are requested once."""
        return await self._core.limits(self._core.deadline(timeout))

    async def capacity(self, *, timeout: float | None = None) -> Capacity:
        """Returns the memory of the device and of the host."""
        request = admin.GetCapacityRequest()
        return read_capacity(await self._core.reply(methods.GET_CAPACITY, request, timeout))

    async def counters(self, *, timeout: float | None = None) -> Counters:
        """Returns what the server has done since its start."""
        request = admin.GetCountersRequest()
        return read_counters(await self._core.reply(methods.GET_COUNTERS, request, timeout))

    async def state(self, *, timeout: float | None = None) -> ServerState:
        """Returns whether the server serves, and how far its start is. Not retried."""
        request = admin.GetServerStateRequest()
        return read_state(await self._core.reply(methods.GET_SERVER_STATE, request, timeout))

    async def health(self, service: str = "", *, timeout: float | None = None) -> str:
        """Returns SERVING, NOT_SERVING or UNKNOWN by the standard health protocol; for "", a
        service, or "nearfield.v1.Collection/NAME". Not retried. Raises NotFound for a service
        that the server does not know."""
        request = health.HealthCheckRequest(service=service)
        reply = await self._core.reply(methods.CHECK_HEALTH, request, timeout)
        return str(health.HealthCheckResponse.ServingStatus.Name(reply.status))

    async def get_upload(
        self, collection: str, token: str, *, timeout: float | None = None
    ) -> UploadState:
        """Returns how far an upload with a token into the collection got."""
        request = ingest.GetUploadRequest(collection=collection, upload_token=upload_token(token))
        return read_plain(UploadState, await self._core.reply(methods.GET_UPLOAD, request, timeout))

    async def list_uploads(
        self, uploads_max: int | None = None, *, timeout: float | None = None
    ) -> list[OpenUpload]:
        """Returns the open uploads with a token, the least recently touched first."""
        request = ingest.ListUploadsRequest(uploads_max=uploads_max)
        reply = await self._core.reply(methods.LIST_UPLOADS, request, timeout)
        return [read_open_upload(each) for each in reply.uploads]

    async def drop_upload(
        self, collection: str, token: str, *, timeout: float | None = None
    ) -> int:
        """Abandons an open upload with a token into the collection; returns the number of its
        durable rows."""
        request = ingest.DropUploadRequest(collection=collection, upload_token=upload_token(token))
        return (await self._core.reply(methods.DROP_UPLOAD, request, timeout)).rows_count

"""The clients: AsyncClient has the implementation, Client blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from nearfield import _methods as methods
from nearfield._arguments import check_names, check_names_of
from nearfield._async_local_transport import AsyncLocalTransport
from nearfield._async_transport import AsyncTransport
from nearfield._attributes import AttributesLike
from nearfield._blocking import blocking, blocking_as
from nearfield._blocking_transport import BlockingTransport
from nearfield._collection import AsyncCollection, Collection
from nearfield._connection import DEFAULT_ADDRESS, Peer, check_address
from nearfield._core import Core, Options
from nearfield._declaration import RowPlacement, ScanChoice, complete
from nearfield._embed import Embed
from nearfield._errors import AlreadyExists
from nearfield._identity import given, read_identity
from nearfield._infer import infer
from nearfield._local_transport import LocalTransport
from nearfield._proto import admin_pb2 as admin
from nearfield._records import CollectionInfo, read_collection
from nearfield._retry import Clock, RetryPolicy
from nearfield._server_calls import ServerCalls
from nearfield._text_calls import declared_model
from nearfield._values import DType, IdType, Metric


@check_names_of
class AsyncClient(ServerCalls):
    """A connection to a server, for asyncio. Its parameters are those of connect(). The first call
    connects. Thread safety: any number of event loops, at the same time or one after the other."""

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 30.0,
        caller: str | None = None,
        retry: RetryPolicy | None = None,
        read_your_writes: bool = True,
        ca: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        token_file: str | None = None,
        metadata: Mapping[str, str] | None = None,
        _clock: Clock | None = None,
        _core: Core | None = None,
    ) -> None:
        if _core is None:
            identity = (ca, client_cert, client_key, token_file, metadata)
            peer, options = _settings(address, timeout, caller, retry, read_your_writes, identity)
            _core = Core(AsyncTransport(peer, _clock), options)
        super().__init__(_core)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection. Calls in progress fail with Cancelled."""
        await self._core.transport.close()

    def collection(self, name: str) -> AsyncCollection:
        """Returns a handle of a collection, by its name or an alias. Calls nothing."""
        return AsyncCollection(self._core, name)

    async def create_collection(
        self,
        name: str,
        dim: int | None = None,
        *,
        metric: Metric,
        dtype: DType | None = None,
        id_type: IdType | None = None,
        attributes: AttributesLike | None = None,
        scan: ScanChoice = "auto",
        rows: RowPlacement = "device",
        devices: int = 0,
        embedding_model: str = "",
        embed: Embed | None = None,
        like: Any = None,
        ids: Any = None,
        vectors: str | None = None,
        if_missing: bool = False,
        timeout: float | None = None,
    ) -> AsyncCollection:
        """Creates an empty collection; returns its handle.

        dim, metric, dtype, id_type, attributes  what it holds; float32 and uint64 by default.
                    attributes: {"year": "int64", "tags": "keyword[]"}, or Python types; the
                    server deletes a row after the time of a "timestamp:expires"
        scan, rows  what its scans read, and where its rows are: speed and memory only
        devices     how many devices of the server share its rows; 0: the server chooses
        embedding_model  the name of the model that makes its vectors: embed= refuses others
        embed       the model itself, as in add_texts(): it has the dim and the name
        like        what upload() will get, data or the path of a file: what is not given is taken
                    from it. A text is a keyword; without attributes=, a column that no attribute
                    can hold is an error, except id, vector and payload
        ids, vectors  as in upload(), for `like`
        if_missing  use a collection that exists with the same declaration
        Not retried. Raises AlreadyExists if the name is taken."""
        if like is None and (ids is not None or vectors is not None):
            raise TypeError("ids, vectors: they describe like=, which is not given")
        compute, model, seen = self._core.transport.compute, embedding_model, None
        if embed is not None:
            dim, model = await compute(lambda: declared_model(embed, dim, embedding_model))
        if like is not None:
            seen = await compute(lambda: infer(like, ids, vectors, attributes is None))
        declaration = complete(
            name, dim, metric, dtype, id_type, attributes, scan, rows, devices, model, seen
        )
        deadline = self._core.deadline(timeout)
        try:
            reply, _ = await self._core.call(
                methods.CREATE_COLLECTION, declaration.request(), deadline
            )
        except AlreadyExists:
            if not if_missing:
                raise
            declaration.check_same(await self._core.info(name, deadline, fresh=True))
            return self.collection(name)
        self._core.forget(name)
        self._core.remember(name, read_collection(reply.collection))
        return self.collection(name)

    async def get_collection(self, name: str, *, timeout: float | None = None) -> CollectionInfo:
        """Returns a collection. Raises NotFound if there is none."""
        return await self._core.info(name, self._core.deadline(timeout), fresh=True)

    async def list_collections(self, *, timeout: float | None = None) -> list[CollectionInfo]:
        """Returns all collections, ordered by name."""
        request = admin.ListCollectionsRequest()
        reply = await self._core.reply(methods.LIST_COLLECTIONS, request, timeout)
        return [read_collection(each) for each in reply.collections]

    async def drop_collection(
        self,
        name: str,
        *,
        only_if_empty: bool = False,
        incarnation: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Drops a collection by its own name; returns the number of its rows. Not retried.

        only_if_empty  refuse (FailedPrecondition) if it has a row or an open upload
        incarnation    refuse if the name belongs to another collection by now"""
        request = admin.DropCollectionRequest(
            name=name, only_if_empty=only_if_empty, incarnation=incarnation
        )
        reply = await self._core.reply(methods.DROP_COLLECTION, request, timeout)
        self._core.forget(name)
        return reply.rows_count


class Client:
    """A connection to a server: the methods of AsyncClient, which block. Made by connect(). Thread
    safety: any number of threads."""

    def __init__(self, inner: AsyncClient) -> None:
        self._inner = inner

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def collection(self, name: str) -> Collection:
        """Returns a handle of a collection, by its name or an alias. Calls nothing."""
        return Collection(self._inner.collection(name))

    close = blocking(AsyncClient.close)
    create_collection = blocking_as(Collection, AsyncClient.create_collection)
    get_collection = blocking(AsyncClient.get_collection)
    list_collections = blocking(AsyncClient.list_collections)
    drop_collection = blocking(AsyncClient.drop_collection)
    set_alias = blocking(AsyncClient.set_alias)
    drop_alias = blocking(AsyncClient.drop_alias)
    create_snapshot = blocking(AsyncClient.create_snapshot)
    delete_snapshot = blocking(AsyncClient.delete_snapshot)
    list_snapshots = blocking(AsyncClient.list_snapshots)
    limits = blocking(AsyncClient.limits)
    capacity = blocking(AsyncClient.capacity)
    counters = blocking(AsyncClient.counters)
    state = blocking(AsyncClient.state)
    health = blocking(AsyncClient.health)
    get_upload = blocking(AsyncClient.get_upload)
    list_uploads = blocking(AsyncClient.list_uploads)
    drop_upload = blocking(AsyncClient.drop_upload)


@check_names
def connect(
    address: str | None = None,
    *,
    timeout: float = 30.0,
    caller: str | None = None,
    retry: RetryPolicy | None = None,
    read_your_writes: bool = True,
    ca: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
    token_file: str | None = None,
    metadata: Mapping[str, str] | None = None,
    _clock: Clock | None = None,
) -> Client:
    """Returns a blocking client. The first call connects. Without `ca` the connection is
    plaintext: only for a server on this machine. Raises ValueError for a file that cannot be read.

    address           host:port or unix:/path; by default 127.0.0.1:50051
    timeout           seconds of one call including its retries; each call can change it
    caller            by this name the server shares its device fairly
    retry             how often calls that can be repeated safely are tried again
    read_your_writes  reads wait for this client's own writes
    ca                file with the authorities of the server's certificate, or "system"
    client_cert, client_key  files with a certificate of this client and its private key
    token_file        file with the API key
    metadata          sent with each call
    Those of the address, the caller and the last five that are None are taken from
    NEARFIELD_ADDRESS, NEARFIELD_CALLER, NEARFIELD_CA, NEARFIELD_CLIENT_CERT, NEARFIELD_CLIENT_KEY,
    NEARFIELD_TOKEN_FILE and NEARFIELD_METADATA ("name=value,name=value").
    """
    identity = (ca, client_cert, client_key, token_file, metadata)
    peer, options = _settings(address, timeout, caller, retry, read_your_writes, identity)
    return Client(AsyncClient(_core=Core(BlockingTransport(peer, _clock), options)))


def _settings(
    address: str | None,
    timeout: float,
    caller: str | None,
    retry: RetryPolicy | None,
    read_your_writes: bool,
    identity: tuple[Any, ...],
) -> tuple[Peer, Options]:
    """Returns the server and the options that the arguments and the environment name. identity: the
    further arguments of read_identity."""
    address = check_address(given(address, "NEARFIELD_ADDRESS", DEFAULT_ADDRESS))
    found = read_identity(address, *identity)
    caller = given(caller, "NEARFIELD_CALLER")
    options = Options(
        timeout, caller, RetryPolicy() if retry is None else retry, read_your_writes, found.metadata
    )
    return Peer(address, found.credentials), options


def open(
    folder: str | Path | None,
    *,
    timeout: float = 30.0,
    caller: str = "",
    retry: RetryPolicy | None = None,
    read_your_writes: bool = True,
    _clock: Clock | None = None,
    **settings: Any,
) -> Client:
    """Opens a data directory in this process, without a server; creates it if it does not exist.
    Returns the same client as connect(), with the same answers to the bit. Needs the package
    nearfield-native, whose wheel scripts/wheels makes.

    One process at a time can open a directory: a second open, or a server that uses it, fails with
    FailedPrecondition. close() the client to release it. A client is not usable after a fork.

    folder    of the data, ~ is the home folder; None: in memory only
    settings  of the server (nearfield-server --help), such as memory_bytes="1GiB", threads=8,
              backend="cpu", snapshot_dir="..."; those of the network have no effect
    timeout, caller, retry, read_your_writes  as in connect()
    """
    options = Options(timeout, caller, RetryPolicy() if retry is None else retry, read_your_writes)
    return Client(AsyncClient(_core=Core(LocalTransport(folder, settings, _clock), options)))


async def open_async(
    folder: str | Path | None,
    *,
    timeout: float = 30.0,
    caller: str = "",
    retry: RetryPolicy | None = None,
    read_your_writes: bool = True,
    _clock: Clock | None = None,
    **settings: Any,
) -> AsyncClient:
    """As open(), for asyncio: opens the directory and makes the calls on threads, at most 32 calls
    at the same time, so that the event loop never waits. Cancelling a task cancels its call.

    async with await nearfield.open_async("folder") as client: ..."""
    options = Options(timeout, caller, RetryPolicy() if retry is None else retry, read_your_writes)
    inner = await asyncio.to_thread(LocalTransport, folder, settings)
    return AsyncClient(_core=Core(AsyncLocalTransport(inner, _clock), options))

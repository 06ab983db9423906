"""The handles of a collection: AsyncCollection has the implementation, Collection blocks."""

from __future__ import annotations

from typing import Any

from nearfield import _methods as methods
from nearfield._arguments import check_names_of
from nearfield._attributes import attribute_message, declaration
from nearfield._blocking import blocking, blocking_after, blocking_iterator
from nearfield._local_transport import LocalTransport
from nearfield._plain_search import plain_search
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._records import CollectionInfo, Compacted, read_plain
from nearfield._search_calls import SearchCalls
from nearfield._text_calls import TextCalls
from nearfield.device_tensors import DeviceHits, search_device
from nearfield.topk._dlpack import SupportsDLPack


@check_names_of
class AsyncCollection(SearchCalls, TextCalls):
    """One collection of an AsyncClient.

    Every call raises nearfield.Error with the codes that proto/nearfield/v1 lists for it, and
    ValueError or TypeError for arguments that cannot be sent."""

    async def info(self, *, timeout: float | None = None) -> CollectionInfo:
        """Returns the collection as it is now."""
        return await self._core.info(self.name, self._core.deadline(timeout), fresh=True)

    async def add_attribute(self, name: str, type: Any, *, timeout: float | None = None) -> int:
        """Declares one more attribute, of which the rows have no value; returns the first epoch
        that has it. Not retried. type: as in create_collection, such as "keyword" or [str]."""
        message = attribute_message(declaration(name, type))
        request = common.AddAttributeRequest(collection=self.name, attribute=message)
        reply = await self._core.reply(methods.ADD_ATTRIBUTE, request, timeout)
        self._core.wrote(self.name, reply.incarnation, reply.epoch, redeclared=True)
        return reply.epoch

    async def drop_attribute(self, name: str, *, timeout: float | None = None) -> int:
        """Drops an attribute and its values; returns the first epoch without it. Its name may be
        declared again, also with another type. Not retried. Raises NotFound."""
        request = common.DropAttributeRequest(collection=self.name, attribute=name)
        reply = await self._core.reply(methods.DROP_ATTRIBUTE, request, timeout)
        self._core.wrote(self.name, reply.incarnation, reply.epoch, redeclared=True)
        return reply.epoch

    async def compact(self, *, timeout: float | None = None) -> Compacted:
        """Releases the memory and disk space of deleted rows now. Takes time that grows with the
        rows: set a timeout that fits."""
        request = admin.CompactRequest(collection=self.name)
        return read_plain(Compacted, await self._core.reply(methods.COMPACT, request, timeout))


class Collection:
    """One collection of a Client: the methods of AsyncCollection, which block."""

    def __init__(self, inner: AsyncCollection) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def name(self) -> str:
        """The name, or the alias, that the handle was made with."""
        return self._inner.name

    search = blocking_after(plain_search, AsyncCollection.search)
    _search_prepared = blocking(AsyncCollection._search_prepared)
    explain = blocking(AsyncCollection.explain)
    search_stream = blocking_iterator(AsyncCollection.search_stream)
    search_all = blocking_iterator(AsyncCollection.search_all)
    facets = blocking(AsyncCollection.facets)
    verify = blocking(AsyncCollection.verify)
    fetch = blocking(AsyncCollection.fetch)
    count = blocking(AsyncCollection.count)
    pin_epoch = blocking(AsyncCollection.pin_epoch)
    delete = blocking(AsyncCollection.delete)
    update = blocking(AsyncCollection.update)
    upload = blocking(AsyncCollection.upload)
    add_texts = blocking(AsyncCollection.add_texts)
    scan = blocking_iterator(AsyncCollection.scan)
    export = blocking(AsyncCollection.export)
    info = blocking(AsyncCollection.info)
    add_attribute = blocking(AsyncCollection.add_attribute)
    drop_attribute = blocking(AsyncCollection.drop_attribute)
    compact = blocking(AsyncCollection.compact)

    def search_device(
        self,
        queries: SupportsDLPack,
        k: int = 10,
        *,
        filter_text: str | None = None,
        score_threshold: float | None = None,
        stream: int | None = None,
        out: tuple[SupportsDLPack, SupportsDLPack, SupportsDLPack] | None = None,
        timeout: float | None = None,
    ) -> DeviceHits:
        """Searches with tensors that are on the GPU, and leaves the answers there: see
        nearfield.device_tensors.search_device. Raises TypeError unless nearfield.open made the
        client: a server in another process cannot read the tensors."""
        transport = self._inner._core.transport
        if not isinstance(transport, LocalTransport):
            raise TypeError(
                "search_device: this client is connected to a server; it needs one of"
                " nearfield.open()"
            )
        library, server = transport.device()
        return search_device(
            library,
            server,
            self.name,
            queries,
            k,
            filter_text=filter_text,
            score_threshold=score_threshold,
            stream=stream,
            out=out,
            timeout=timeout,
        )

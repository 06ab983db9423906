"""The client of a cluster: it searches the shards directly, at one manifest."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import nearfield
from nearfield._attributes import AttributesLike, declare
from nearfield._declaration import Declaration, RowPlacement, ScanChoice, infer
from nearfield._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    NotFound,
    Unavailable,
)
from nearfield._retry import RetryPolicy
from nearfield._values import DType, IdType, Metric
from nearfield.ray._collection import ClusterCollection
from nearfield.ray._manifest import newest_claim
from nearfield.ray._rpc import Caller, Unreachable
from nearfield.ray._store import Store

T = TypeVar("T")
View = dict[str, Any]

_THREADS = 64
_PAUSE_SECONDS = 0.1  # before the storage is asked again for the coordinator
_WAIT_SECONDS = 5.0  # for which one call waits for another view
# After these another replica, or another manifest, may answer.
_PASSING = (
    Unavailable,
    Cancelled,
    FailedPrecondition,
    Aborted,
    NotFound,
    DataLoss,
    DeadlineExceeded,
)


class Client:
    """A client of a cluster. It needs the storage and the network, but no Ray. Thread safety: any
    number of threads."""

    def __init__(self, storage: str, *, timeout: float = 30.0) -> None:
        self._store = Store(storage)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS)
        self._caller: Caller | None = None
        self._view: View | None = None
        self._number_min = 0  # of this client's own commits
        self._servers: dict[str, nearfield.Client] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections."""
        self._pool.shutdown()
        with self._lock:
            for server in self._servers.values():
                server.close()
            if self._caller is not None:
                self._caller.close()

    def collection(self, name: str) -> ClusterCollection:
        """Returns a handle of a collection. Calls nothing."""
        return ClusterCollection(self, name)

    def create_collection(
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
        like: Any = None,
        if_missing: bool = False,
        timeout: float | None = None,
    ) -> ClusterCollection:
        """Creates an empty collection; the arguments are those of nearfield.Client."""
        seen = None if like is None else infer(like, None, None)
        if dim is None and seen is None:
            raise TypeError("give dim, or like= the data")
        declared = (
            declare(attributes) if attributes is not None else seen.attributes if seen else ()
        )
        arguments: dict[str, Any] = {
            "dim": dim if dim is not None else seen.dim if seen else 0,
            "metric": metric,
            "dtype": dtype or (seen.dtype if seen else "float32"),
            "id_type": id_type or (seen.id_type if seen else "uint64"),
            "attributes": {each.name: each.text for each in declared},
            "scan": scan,
            "rows": rows,
        }
        Declaration(name, **{**arguments, "attributes": tuple(declared)}, devices=0).request()
        try:
            self.wrote(self.call("create", timeout, name=name, declared=arguments))
        except AlreadyExists as error:
            if not if_missing or "another declaration" in error.message:
                raise
        return self.collection(name)

    def drop_collection(self, name: str, *, timeout: float | None = None) -> int:
        """Drops a collection; returns the number of its rows."""
        return int(self.call("drop", timeout, name=name))

    def list_collections(self, *, timeout: float | None = None) -> list[str]:
        """Returns the names of the collections in their order."""
        return sorted(self.status(timeout=timeout)["collections"])

    def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Returns the newest manifest's number, the collections, and the state of each server."""
        return dict(self.call("status", timeout))

    def resize(self, shards: int, *, timeout: float = 600.0) -> None:
        """Loads the rows from the storage into another number of shards, then changes over, while
        searches go on. Needs the cores or GPUs of both during the change."""
        self.call("resize", timeout + 10, shards=shards, seconds=timeout)

    def restart(self, *, timeout: float = 600.0) -> int:
        """Starts all servers again, one after the other, while searches go on; returns their
        number. With one replica it needs the cores or GPUs of all shards twice."""
        return int(self.call("restart", timeout + 10, seconds=timeout))

    def compact(self, name: str, *, timeout: float = 600.0) -> int:
        """Replaces the uploads and deletes of a collection in the storage by its present rows, so
        that servers load faster; returns the number of operations that this removed."""
        return int(self.call("compact", timeout, name=name))

    # The rest is for ClusterCollection.

    def deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else timeout)

    def put(self, name: str, data: bytes) -> None:
        try:
            self._store.put(name, data)
        except OSError as error:
            raise Unavailable(f"storage: {error}") from None

    def wrote(self, number: int) -> None:
        with self._lock:
            self._number_min = max(self._number_min, number)

    def call(self, method: str, timeout: float | None, **arguments: Any) -> Any:
        """Calls the coordinator. A call without an answer is repeated, with the next coordinator if
        there is one: with its token a commit takes effect once."""
        deadline = self.deadline(timeout)
        while True:
            caller = None
            try:
                caller = self._coordinator()
                return caller.call(method, deadline - time.monotonic(), **arguments)
            except Unreachable:
                with self._lock:
                    if caller is self._caller:
                        self._caller = None
                if time.monotonic() + _PAUSE_SECONDS >= deadline:
                    raise
            threading.Event().wait(_PAUSE_SECONDS)

    def commit(self, name: str, operation: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        """Commits an operation, whose token makes it safe to repeat, by the deadline."""
        deadline = self.deadline(timeout)
        failed: Unavailable | None = None
        while True:
            try:
                left = deadline - time.monotonic()
                done = dict(self.call("change", left, name=name, operation=operation))
            except DeadlineExceeded as error:
                raise failed or error from None
            except Unavailable as error:
                failed = error
                if time.monotonic() + _PAUSE_SECONDS >= deadline:
                    raise
                threading.Event().wait(_PAUSE_SECONDS)
                continue
            self.wrote(done["number"])
            return done

    def _coordinator(self) -> Caller:
        with self._lock:
            if self._caller is None:
                try:
                    claim = newest_claim(self._store)
                except OSError as error:
                    raise Unreachable(f"storage: {error}") from None
                if claim is None:
                    raise Unreachable("no cluster has used this storage")
                self._caller = Caller(claim["address"])
            return self._caller

    def view(self, deadline: float, after: View | None = None) -> View:
        """Returns a view that has this client's own commits; after: another one than this."""
        view = self._view
        while view is None or view is after or view["number"] < self._number_min:
            left = deadline - time.monotonic()
            if view is not None and left <= _PAUSE_SECONDS / 10:
                break
            have = view["have"] if view is not None else None
            found: View | None = self.call(
                "view", left, have=have, wait=max(0.0, min(_WAIT_SECONDS, left / 2))
            )
            view = view if found is None else found
        assert view is not None
        if view["number"] < self._number_min:
            raise Unavailable(f"the manifest {self._number_min} is not visible yet")
        self._keep(view)
        return view

    def _keep(self, view: View) -> None:
        addresses = {each["address"] for shard in view["shards"] for each in shard}
        with self._lock:
            self._view = view
            self._servers = {
                address: server for address, server in self._servers.items() if address in addresses
            }

    def _changed(self, view: View, deadline: float) -> bool:
        """Returns True if there is a newer manifest."""
        left = deadline - time.monotonic()
        found = self.call("view", left, have=view["have"], wait=0.0)
        if found is None:
            return False
        self._keep(found)
        return bool(found["number"] != view["number"])

    def read(
        self,
        name: str,
        timeout: float | None,
        fresh: bool,
        shards_of: Callable[[View], Sequence[int]],
        ask: Callable[[nearfield.Collection, dict[str, Any], int, float], T],
    ) -> tuple[View, list[T]]:
        """Asks the shards, all at one manifest; returns it and their answers. A part that a server
        does not give is requested from another replica, and then all parts again, until the
        deadline; there is no answer with some of the parts.

        ask  gets the collection of a server, the options of its epoch, the shard and seconds"""
        deadline = self.deadline(timeout)
        view = self.view(deadline)
        while True:
            check = self._pool.submit(self._changed, view, deadline) if fresh else None
            try:
                if name not in view["collections"]:
                    raise NotFound(f"collection: there is no {name!r}")
                parts = self._ask_all(view, name, shards_of(view), ask, deadline)
            except _PASSING as error:
                gone = isinstance(error, NotFound) and name not in view["collections"]
                if gone and (check is None or not check.result()):
                    raise
                view = self._after(view, deadline, error)
                continue
            if check is None or not check.result():
                return view, parts
            view = self.view(deadline)

    def _after(self, view: View, deadline: float, error: Exception) -> View:
        """Waits for another view, after an error; raises it at the deadline."""
        if self._view is not view and self._view is not None:
            return self._view
        try:
            following = self.view(min(deadline, time.monotonic() + 2 * _PAUSE_SECONDS), view)
        except (Unavailable, DeadlineExceeded):
            following = view
        if time.monotonic() >= deadline:
            raise error
        return following

    def _ask_all(
        self,
        view: View,
        name: str,
        shards: Sequence[int],
        ask: Callable[[nearfield.Collection, dict[str, Any], int, float], T],
        deadline: float,
    ) -> list[T]:
        def one(shard: int) -> T:
            return self._ask(view, name, shard, ask, deadline)

        futures: list[Future[T]] = [self._pool.submit(one, shard) for shard in shards[1:]]
        first = [one(shards[0])] if shards else []
        return first + [future.result() for future in futures]

    def _ask(
        self,
        view: View,
        name: str,
        shard: int,
        ask: Callable[[nearfield.Collection, dict[str, Any], int, float], T],
        deadline: float,
    ) -> T:
        replicas: list[Mapping[str, Any]] = view["shards"][shard]
        count = len(view["shards"])
        failed: Exception = Unavailable(f"shard {shard} of {count} has no server")
        begin = uuid.uuid4().int % max(1, len(replicas))
        for tried in range(len(replicas)):
            replica = replicas[(begin + tried) % len(replicas)]
            left = (deadline - time.monotonic()) / (len(replicas) - tried)
            if left <= 0:
                raise failed
            state = replica["states"][name]
            at = {"at_epoch": state["epoch"], "incarnation": state["incarnation"]}
            try:
                return ask(self._server(replica["address"]).collection(name), at, shard, left)
            except _PASSING as error:
                failed = Unavailable(f"shard {shard} of {count}: {error}")
        raise failed

    def _server(self, address: str) -> nearfield.Client:
        with self._lock:
            if address not in self._servers:
                once = RetryPolicy(tries_max=1)
                self._servers[address] = nearfield.connect(
                    address, retry=once, read_your_writes=False
                )
            return self._servers[address]

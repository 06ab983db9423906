"""The client of a cluster: it searches the shards directly, at one manifest."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nearfield._attributes import AttributesLike
from nearfield._declaration import RowPlacement, ScanChoice, complete
from nearfield._errors import AlreadyExists
from nearfield._infer import infer
from nearfield._values import DType, IdType, Metric
from nearfield.ray._calls import ClusterCalls
from nearfield.ray._collection import ClusterCollection
from nearfield.ray._updates import check_declared

LOG = logging.getLogger("nearfield.ray")
_REPORT_SECONDS = 3.0  # between two lines of the log during a start, resize or restart


class Client(ClusterCalls):
    """A client of a cluster. It needs the storage and the network, but no Ray. Within one client,
    no answer is of an older manifest than an earlier one. Thread safety: any number of threads.
    A coordinator that vanished with its machine is left after 15 s.

    storage  as in Cluster
    timeout  seconds of a call, by default
    cluster  name of the cluster, if several use the storage; by default the one that came last"""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        embedding_model: str = "",
        like: Any = None,
        if_missing: bool = False,
        token: str | None = None,
        timeout: float | None = None,
    ) -> ClusterCollection:
        """Creates an empty collection; the arguments are those of nearfield.Client, and token as in
        ClusterCollection.upload. Errors: AlreadyExists."""
        seen = None if like is None else infer(like, None, None, attributes is None)
        made = complete(
            name, dim, metric, dtype, id_type, attributes, scan, rows, 0, embedding_model, seen
        )
        made.request()  # checks it
        check_declared(made.attributes)
        names = ("dim", "metric", "dtype", "id_type", "scan", "rows")
        arguments: dict[str, Any] = {each: getattr(made, each) for each in names}
        arguments["attributes"] = {each.name: each.text for each in made.attributes}
        if embedding_model:
            arguments["embedding_model"] = embedding_model
        operation = {"kind": "create", "declared": arguments}
        try:
            self.commit(name, operation, token, self.deadline(timeout))
        except AlreadyExists as error:
            if not if_missing or "another declaration" in error.message:
                raise
        return self.collection(name)

    def drop_collection(
        self, name: str, *, token: str | None = None, timeout: float | None = None
    ) -> int:
        """Drops a collection; returns the number of its rows. Errors: NotFound."""
        return self.commit(name, {"kind": "drop"}, token, self.deadline(timeout)).changed

    def list_collections(self, *, timeout: float | None = None) -> list[str]:
        """Returns the names of the collections in their order, as a search that need not be fresh
        finds them."""
        deadline = self.deadline(timeout)
        self._refresh(deadline, wait_max=0.0)
        return sorted(self._current(deadline)["collections"])

    def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Returns the newest manifest's number, the collections, and the state of each server."""
        return dict(self.call("status", timeout))

    def resize(self, shards: int, *, timeout: float = 600.0) -> None:
        """Loads the rows from the storage into another number of shards, 1 .. 4,096, then changes
        over, while searches go on. Needs the cores or GPUs of both during the change."""
        with self._reporting():
            self.call("resize", timeout + 10, shards=shards, seconds=timeout)

    def restart(self, *, settings: Mapping[str, Any] | None = None, timeout: float = 600.0) -> int:
        """Starts all servers again, while searches go on; returns their number. With one replica it
        starts others next to them, so it needs the cores or GPUs of all shards twice; with several,
        one server after the other. settings: changes those of the servers; "" removes one. Errors:
        InvalidArgument, before any server ends, for a setting that the server does not accept; if a
        server does not start with them, Unavailable, and all have the ones before again."""
        with self._reporting():
            changed = dict(settings or {})
            return int(self.call("restart", timeout + 10, seconds=timeout, settings=changed))

    def compact(self, name: str, *, timeout: float = 600.0) -> int:
        """Replaces the uploads and deletes of a collection in the storage by its present rows, so
        that servers load faster; returns the number of operations that this removed."""
        return int(self.call("compact", timeout, name=name))

    def withdraw(self, name: str, *, timeout: float | None = None) -> None:
        """Withdraws the latest commit to a collection, if a shard has no server because none can
        load it, such as one with too little memory. Its rows are lost, even if another cluster
        on the same storage has acknowledged them. Errors: FailedPrecondition if all shards have
        servers, or if the rows before are not known: after a compaction, resize or withdrawal."""
        self.call("withdraw", timeout, name=name)

    def stop(self) -> None:
        """Ends the cluster. The rows stay in the storage."""
        self.call("stop", None)

    @contextlib.contextmanager
    def _reporting(self, waiting: Callable[[], str] | None = None) -> Iterator[None]:
        """Logs every few seconds which replicas are not ready, and why, whenever that changes.
        waiting: returns that, instead of the coordinator that serves."""
        waiting = waiting or (lambda: str(self.call("waiting", _REPORT_SECONDS)))
        done = threading.Event()

        def report() -> None:
            last = ""
            while not done.wait(_REPORT_SECONDS):
                with contextlib.suppress(Exception):  # the operation itself reports it
                    now = waiting()
                    if now not in ("", last):
                        LOG.warning("nearfield.ray: not ready: %s", now)
                    last = now

        threading.Thread(target=report, daemon=True).start()
        try:
            yield
        finally:
            done.set()

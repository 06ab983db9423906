"""Starts and ends a cluster on Ray."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import ray
import ray.exceptions

from nearfield._errors import Unavailable
from nearfield.ray._client import LOG, Client
from nearfield.ray._log import newest_manifest
from nearfield.ray._operations import start_coordinator
from nearfield.ray._segment import PARTITIONS
from nearfield.ray._server import Settings, find_program, port_range
from nearfield.ray._slot import NAMESPACE, end_others
from nearfield.ray._store import Store
from nearfield.ray._upgrade import earlier_manifest

_STOP_SECONDS_MAX = 10.0
# Memory of each server on the CPU, which it takes at its start.
_CPU_SETTINGS = {"backend": "cpu", "memory_bytes": "1GiB", "host_memory_bytes": "512MiB"}


class Cluster(Client):
    """A cluster of servers, each an actor of Ray on its own GPU or share of the cores, and its
    client. Starts the cluster, or connects to one of this name that runs: then `started` is False,
    and the log names the arguments that are not applied.

    storage   a folder that all nodes share, or a bucket, such as "s3://bucket/prefix", with an
              atomic put-if-absent, which a start tests: the rows are there, and the servers load
              them from there. Two clusters may use it: each sees the commits of the other
    shards    servers that share the rows, by the hash of the id, 1 .. 4,096. A storage with rows
              keeps its number, until resize()
    replicas  servers of each shard: with 2, commits and searches go on when a server ends
    name      of the cluster
    num_cpus, num_gpus  of each server; by default one GPU if Ray has enough, else one core
    host      where the processes listen: by default loopback as long as Ray has one node, else each
              node's own address, without TLS and keys, even where Ray has them: use it in trusted
              networks only
    ports     "50100-50199": each process takes the first free one on its node, and a server that
              starts again the one that it had; by default any free port
    program   nearfield-server, the same path on all nodes; by default that of nearfield-native
    settings  of the servers, such as {"memory_bytes": "8GiB"}; without a GPU 1 GiB for rows
    timeout   seconds of a call, by default
    start_timeout  seconds until all servers are ready; then Unavailable, and what was started ends
    hang_timeout   seconds without an answer after which a server is started again; 3 times as long
                   for its actor. A coordinator that hangs is not started again: end its process
    compact_after  commits of a collection after which it is compacted, at least 2; a large one
                   later, after one commit for each 1,000 rows

    The servers go on when this process ends, until stop()."""

    def __init__(
        self,
        storage: str,
        *,
        shards: int = 1,
        replicas: int = 1,
        name: str = "nearfield",
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        host: str = "",
        ports: str = "",
        program: str | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        start_timeout: float = 600.0,
        hang_timeout: float = 10.0,
        compact_after: int = 4096,
    ) -> None:
        if not 1 <= shards <= PARTITIONS or replicas < 1:
            raise ValueError(f"shards, replicas: {shards}, {replicas}; 1 .. {PARTITIONS}, 1 ..")
        if compact_after < 2:
            raise ValueError(f"compact_after: {compact_after}, must be at least 2")
        port_range(ports)  # checks it
        given: dict[str, Any] = {"shards": shards, "replicas": replicas, "host": host}
        given |= {"num_cpus": num_cpus, "num_gpus": num_gpus, "program": program, "ports": ports}
        given |= {"hang_timeout": hang_timeout, "compact_after": compact_after}
        if not ray.is_initialized():
            ray.init()
        store = Store(storage)
        store.prepare()
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        found: Any = None
        with contextlib.suppress(ValueError):  # none runs
            found = ray.get_actor(name, NAMESPACE)
        if found is None:
            shards = _probe(store) or shards
        if num_gpus is None:
            num_gpus = float(resources.get("GPU", 0) >= shards * replicas)
        own: dict[str, Any] = {"name": name, "storage": store.uri, "program": find_program(program)}
        own |= {"shards": shards, "num_cpus": 1.0 if num_cpus is None else num_cpus}
        own |= {"num_gpus": num_gpus, "settings": {} if num_gpus else _CPU_SETTINGS}
        chosen = Settings(**{**given, **own}).changed(settings or {})
        running = chosen if found is None else ray.get(found.settings.remote())
        super().__init__(storage, timeout=timeout, cluster=running.cluster)
        self._name = name
        self.started = found is None
        if running.storage != store.uri:
            raise ValueError(f"storage: {store.uri}; the cluster {name!r} has another one")
        self._actor = found or start_coordinator(chosen)
        self._await_start(start_timeout)
        if not self.started:
            self._report_ignored({**given, **(settings or {})}, running)

    def _await_start(self, seconds: float) -> None:
        """Waits until all servers are ready; ends what was started after an error."""
        try:
            with self._reporting(lambda: str(ray.get(self._actor.waiting.remote()))):
                ray.get(self._actor.ready.remote(seconds))
            self.address: str = ray.get(self._actor.address.remote())
        except BaseException as error:
            if self.started:
                self.stop()
            raise getattr(error, "cause", error) from None

    def _report_ignored(self, given: Mapping[str, Any], running: Settings) -> None:
        """Logs the arguments that a cluster that ran already does not have."""
        has = {**vars(running), **running.settings, "shards": self.status()["shards"]}
        ignored = [
            f"{name} {value} (it has {has.get(name)})"
            for name, value in given.items()
            if value not in (None, "", has.get(name)) and str(value) != str(has.get(name))
        ]
        if ignored:
            text = "nearfield.ray: the cluster %r runs already; not applied: %s"
            LOG.warning(text, self._name, ", ".join(ignored))

    def wait_ready(self, timeout: float) -> None:
        """Waits until each shard has all its replicas. Errors: Unavailable."""
        self.call("ready", timeout + 10, seconds=timeout)

    def runs(self) -> bool:
        """Returns False once the cluster has been stopped."""
        try:
            return bool(ray.get_actor(self._name, NAMESPACE) == self._actor)
        except ValueError:
            return False

    def stop(self) -> None:
        """Ends the coordinator and the servers. The rows stay in the storage."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(self._actor.stop.remote(), timeout=_STOP_SECONDS_MAX)
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self._actor)
        end_others(self._name, set())
        self.close()


def _probe(store: Store) -> int:
    """Tests whether the storage can hold a cluster; returns the number of shards there, 0 if there
    is no cluster. Errors: FailedPrecondition; Unavailable."""
    try:
        store.probe()
        manifest = newest_manifest(store) or earlier_manifest(store)
    except OSError as failed:
        raise Unavailable(f"storage: {failed}") from None
    return manifest.shards if manifest is not None else 0

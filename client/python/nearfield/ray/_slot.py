"""A place for one replica of a shard, and the thread of the coordinator that keeps it filled."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
import ray.exceptions

from nearfield._errors import Unavailable
from nearfield.ray._manifest import Manifest
from nearfield.ray._replica import ReplicaProcess

NAMESPACE = "nearfield"
_ACTOR: Any = ray.remote(ReplicaProcess)
_WATCH_SECONDS = 2.0
_PAUSE_SECONDS = 0.5  # after a failure, before the next try
_CALLS_AT_ONCE = 32


@dataclass(frozen=True)
class Settings:
    """The arguments that a cluster was started with: Cluster.__init__."""

    name: str
    shards: int
    replicas: int
    storage: str
    program: str
    host: str
    num_cpus: float
    num_gpus: float
    settings: Mapping[str, Any]


def ask(reply: Any, timeout: float | None = None) -> Any:
    """Waits for the reply of an actor; raises the error that it returned, or Unavailable if the
    actor has ended."""
    try:
        value = ray.get(reply, timeout=timeout)
    except ray.exceptions.RayError as error:
        raise Unavailable(f"a server ended: {type(error).__name__}") from None
    if isinstance(value, Exception):
        raise value
    return value


class Slot:
    """One replica. states: by collection the epoch, incarnation and rows that the manifest names;
    pending: those of the next manifest; ready: the server holds the manifest."""

    def __init__(self, settings: Settings, layout: int, shard: int, shards: int, replica: int):
        self.layout, self.shard, self.shards, self.replica = layout, shard, shards, replica
        self.name = f"{settings.name}-{layout}-{shard}-{replica}"
        self._settings = settings
        self.actor: Any = None
        self.place: dict[str, Any] = {}
        self.states: dict[str, Any] = {}
        self.pending: dict[str, Any] | None = None
        self.ready = False
        self.error = ""
        self.stopped = threading.Event()

    def _create(self) -> None:
        """Finds the actor or creates it, which may take seconds."""
        settings = self._settings
        self.actor = _ACTOR.options(
            name=self.name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=settings.num_cpus,
            num_gpus=settings.num_gpus,
            max_restarts=-1,
            max_concurrency=_CALLS_AT_ONCE,
        ).remote(settings.storage, settings.program, settings.host, dict(settings.settings))

    def sync(self, manifest: Manifest) -> dict[str, Any]:
        return dict(ask(self.actor.sync.remote(manifest.encode(), self.shard, self.shards)))

    def keep(self, enter: Callable[[Slot], bool], leave: Callable[[Slot], None]) -> None:
        """Starts and loads the server whenever it does not run, until the slot is stopped.

        enter  brings the slot to the newest manifest and shows it; False: there is a newer one
        leave  hides it"""
        while not self.stopped.is_set():
            try:
                if self.actor is None:
                    self._create()
                self.place = ask(self.actor.start.remote())
                while not enter(self):
                    pass
                self.error = ""
                while not self.stopped.is_set():
                    ask(self.actor.watch.remote(_WATCH_SECONDS))
                    if not self.ready:
                        break
            except Unavailable as error:
                self.error = error.message
            except Exception as error:
                self.error = f"{type(error).__name__}: {error}"
                traceback.print_exc()
                self.restart()
            if not self.stopped.is_set():
                leave(self)
                self.stopped.wait(_PAUSE_SECONDS)
        if self.actor is not None:
            ray.kill(self.actor)

    def restart(self) -> None:
        """Ends the actor; Ray starts it again, without rows."""
        self.ready = False
        if self.actor is not None:
            self.actor.end.remote()

    def stop(self) -> None:
        self.stopped.set()
        self.ready = False
        if self.actor is not None:
            ray.kill(self.actor)

    def report(self) -> dict[str, Any]:
        return {
            "shard": self.shard,
            "replica": self.replica,
            "ready": self.ready,
            "error": "" if self.ready else self.error,
            "rows": {name: state["rows"] for name, state in self.states.items()},
            **self.place,
        }


def end_others(name: str, kept: set[str]) -> None:
    """Ends the replicas of a cluster that an operation left running when its coordinator ended."""
    for each in ray.util.list_named_actors(all_namespaces=True):
        other = each["name"]
        if each["namespace"] == NAMESPACE and other.startswith(f"{name}-") and other not in kept:
            with contextlib.suppress(ValueError):
                ray.kill(ray.get_actor(other, NAMESPACE))

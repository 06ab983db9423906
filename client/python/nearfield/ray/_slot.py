"""A place for one replica of a shard, and the thread of the coordinator that keeps it filled."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import threading
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray
import ray.exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from nearfield._errors import Aborted, Unavailable
from nearfield.ray._manifest import Manifest
from nearfield.ray._replica import ReplicaProcess
from nearfield.ray._server import Settings, check_settings

if TYPE_CHECKING:
    from nearfield.ray._fleet import Fleet

NAMESPACE = "nearfield"
_PAUSE_SECONDS = 0.1  # after a failure, before the next try; doubles up to the maximum
_PAUSE_SECONDS_MAX = 5.0
_STORE_PAUSE_SECONDS = 0.5  # after a failure of the storage
_PLACE_SECONDS = 30.0  # for which an actor waits for its node, before it may start on any other
_LOCATE_SECONDS = 2.0
POLL_SECONDS = 0.1  # in which a call notices that its replica has failed
_CALLS_AT_ONCE = 32


class _WithoutPandas:
    """Hides pandas from pyarrow, which would import it, which takes seconds and serves nothing."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


class _Actor(ReplicaProcess):
    def __init__(self, settings: Settings) -> None:
        sys.meta_path.insert(0, _WithoutPandas())
        super().__init__(settings)

    def check(self, settings: Settings) -> None:
        check_settings(settings)


_ACTOR: Any = ray.remote(_Actor)


class _NoAnswer(Unavailable):
    pass


def ended(calls: list[Any], seconds: float = POLL_SECONDS) -> list[Any]:
    """Waits until all calls have ended, or some seconds; returns those that have."""
    return list(ray.wait(calls, num_returns=len(calls), timeout=seconds)[0])


class Slot:
    """One replica.

    held   the epoch, incarnation and rows of each collection, by the number of the manifest: of the
           newest one, and of the one before it until clients have switched to the newest
    ready  its server runs, and has been loaded since it was started
    late   it does not take part in commits. Searches use it at the manifests that it holds; it
           holds a later one once it has answered, and has been brought to it
    pending  a call for which commits do not wait any longer
    silent its actor does not answer, but its server is the last one of the shard: commits wait
           until the actor answers or ends
    node   of Ray on which the actor is, or is to be
    waits  Ray has not started the actor yet
    Thread safety: the coordinator changes held and ready under its lock of commits, but a failure
    may end `ready` at any time."""

    def __init__(
        self, settings: Settings, opened: int, layout: int, shard: int, shards: int, replica: int
    ) -> None:
        self.layout, self.shard, self.shards, self.replica = layout, shard, shards, replica
        self.name = f"{settings.name}-{layout}-{shard}-{replica}"
        self._opened = opened
        self._settings = settings
        self._failed = threading.Event()
        self._thread: threading.Thread | None = None
        self._life = 0
        self._pause = _PAUSE_SECONDS  # after the next failure
        self.actor: Any = None
        self.node = ""
        self.waits = False
        self._anywhere = False  # the chosen node had no room for the last actor
        self.place: dict[str, Any] = {}
        self.held: dict[int, dict[str, Any]] = {}
        self.ready = False
        self.silent = False
        self.pending: Any = None
        self.error = ""
        self.stopped = threading.Event()

    def ask(self, reply: Any, timeout: float | None = None) -> Any:
        """Waits for the reply of the actor; raises the error that it returned. Errors: Unavailable
        if the actor has ended, the replica has failed in between, or there is no reply in time."""
        # The time is counted in steps that this process makes, so that its own pauses do not count.
        steps = math.inf if timeout is None else timeout / POLL_SECONDS
        while not ended([reply]):
            steps -= 1
            if self.has_ended:
                raise Unavailable(f"{self.name}: {self.error or 'it has stopped'}")
            if steps < 0:
                raise _NoAnswer(f"{self.name}: the actor has not answered for {timeout:g} s")
        try:
            return ray.get(reply)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise Unavailable(f"{self.name}: {type(error).__name__}") from None

    @property
    def has_ended(self) -> bool:
        """Returns True if no call that runs gets a reply."""
        return self._failed.is_set() or self.stopped.is_set()

    @property
    def late(self) -> bool:
        return self.silent or self.pending is not None

    def comes_back(self) -> bool:
        """Returns True once when the call has ended for which commits did not wait."""
        if self.pending is None or not ended([self.pending], 0):
            return False
        self.pending = None
        return True

    def call(self, method: str, *arguments: Any) -> Any:
        """Begins a call of the actor, which a later coordinator forbids; returns it, for ask()."""
        return getattr(self.actor, method).remote(self._opened, *arguments)

    def sync(self, manifest: Manifest) -> Any:
        """Brings the replica to a manifest; the reply is its state of each collection."""
        return self.call("sync", manifest.encode(), self.shard, self.shards)

    def fail(self, why: str) -> None:
        """Leaves the replica out, until its server has started again and has loaded its rows."""
        self.ready = False
        self.error = why
        self._failed.set()

    def use(self, settings: Settings) -> None:
        """Sets the settings that the server gets at its next start."""
        self._settings = settings

    def lives(self, life: int) -> bool:
        """Returns True if the server has not failed since it was started for the `life`-th time."""
        return life == self._life and not self._failed.is_set()

    def keep(self, fleet: Fleet) -> None:
        """Starts the thread that starts and loads the server whenever it does not run."""
        self._thread = threading.Thread(target=self._keep, args=(fleet,), daemon=True)
        self._thread.start()

    def _keep(self, fleet: Fleet) -> None:
        fresh = False
        while not self.stopped.is_set():
            try:
                self._run(fleet, fresh)
            except Aborted:
                os._exit(1)  # another coordinator has the replicas
            except Exception as error:
                self._report(error, not self._failed.is_set())
            fresh = True
            fleet.leave(self)
            self.stopped.wait(self._pause)
            self._pause = min(2 * self._pause, _PAUSE_SECONDS_MAX)

    def _run(self, fleet: Fleet, fresh: bool) -> None:
        """Starts the server and watches it until it fails."""
        hang = self._settings.hang_timeout
        created = not self._find(fleet)
        # It waits for Ray, or hangs, or ends what it did for the server before.
        limit: float | None = _PLACE_SECONDS if created else 2 * hang
        if created and self._anywhere:
            limit = None
        elif fresh and not created:
            limit = 3 * hang + _PLACE_SECONDS
        self._life += 1
        self.silent, self.pending, self.waits = False, None, created
        self._failed.clear()
        try:
            port = int(self.place.get("address", ":0").rpartition(":")[2])
            settings = replace(self._settings, port=port)
            self.ask(self.call("start", fresh, settings), limit)
            created = self.waits = self._anywhere = False
            threading.Thread(target=self._load, args=(fleet, self._life), daemon=True).start()
            while not self._failed.is_set():
                self._watch(fleet, self.actor.watch.remote(min(1.0, hang / 4)), 3 * hang)
        except _NoAnswer:
            self._anywhere = created
            self._kill()
            raise

    def _watch(self, fleet: Fleet, sign: Any, seconds: float) -> None:
        """Waits for a sign of life. Raises _NoAnswer after some seconds without one, if the actor
        may be ended; else waits on."""
        while True:
            try:
                self.ask(sign, seconds)
                break
            except _NoAnswer as error:
                if fleet.may_end(self):
                    raise
                self.error = f"{error.message}; it goes on, as the last server of its shard"
                self.silent = True
        if self.silent:
            self.silent, self.error = False, ""

    def _load(self, fleet: Fleet, life: int) -> None:
        try:
            self.place = self.ask(self.actor.place.remote())
            self.node = self.place["node"]
            while True:
                try:
                    fleet.enter(self, life)
                    break
                except OSError as error:  # the storage: what was loaded stays
                    self.error = str(error)
                    if self._failed.wait(_STORE_PAUSE_SECONDS):
                        raise
            if self.lives(life):
                self.error = ""
            self._pause = _PAUSE_SECONDS
        except Exception as error:
            self._report(error, self.lives(life))

    def _report(self, error: Exception, fails: bool) -> None:
        if not isinstance(error, Unavailable):
            traceback.print_exc()
        if fails:
            self.fail(str(error))

    def _find(self, fleet: Fleet) -> bool:
        """Finds the actor; creates it, which may take seconds, and returns False if there is
        none. Ray does not start an actor again: its next node depends on the other replicas."""
        with contextlib.suppress(ValueError):
            self.actor = ray.get_actor(self.name, NAMESPACE)
            return True
        self.actor = _ACTOR.options(
            name=self.name,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=self._settings.num_cpus,
            num_gpus=self._settings.num_gpus,
            max_concurrency=_CALLS_AT_ONCE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(
                fleet.choose_node(self), soft=True, _spill_on_unavailable=self._anywhere
            ),
        ).remote(self._settings)
        return False

    def locate(self) -> None:
        """Finds the node, if the actor runs already."""
        with contextlib.suppress(ValueError, ray.exceptions.RayError):
            actor = ray.get_actor(self.name, NAMESPACE)
            self.node = str(ray.get(actor.node.remote(), timeout=_LOCATE_SECONDS))

    def _kill(self) -> None:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self.actor)

    def stop(self) -> None:
        """Ends the replica for good."""
        self.stopped.set()
        self.ready = False
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(30)
        if self.actor is not None:
            self._kill()

    def report(self, ready: bool, error: str) -> dict[str, Any]:
        held = self.held
        newest = held[max(held)] if held else {}
        return {
            "shard": self.shard,
            "replica": self.replica,
            "ready": ready,
            "error": error,
            "rows": {name: state["rows"] for name, state in newest.items()},
            **self.place,
        }


def end_others(name: str, kept: set[str]) -> None:
    """Ends the replicas of a cluster of this name, except those that are kept."""
    pattern = re.compile(rf"{re.escape(name)}-\d+-\d+-\d+")
    for each in ray.util.list_named_actors(all_namespaces=True):
        other = each["name"]
        if each["namespace"] == NAMESPACE and pattern.fullmatch(other) and other not in kept:
            with contextlib.suppress(ValueError, ray.exceptions.RayError):
                ray.kill(ray.get_actor(other, NAMESPACE))

"""The coordinator: one actor that commits to the storage and keeps the replicas.

A commit:

    stage on every replica -> create the manifest -> apply on every replica -> show -> acknowledge
         refused: nothing       the commit point       one that fails is
         has changed                                   loaded again, alone

nearfield.ray._log decides what is committed. A manifest is shown once each shard has a replica that
holds it; until then searches go on at the manifest before. No call waits for a replica that answers
much later than another one of its shard: it takes part again when it has answered, and has been
brought to the newest manifest. A coordinator that loses the race for a manifest brings its replicas
to the one that won, and stages its operation again."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import ray

from nearfield._errors import Error, Internal, Unavailable
from nearfield.ray._fleet import LEFT_OUT, Fleet
from nearfield.ray._manifest import (
    CollectionState,
    Done,
    Manifest,
    Operation,
    checked_operation,
    files_of,
)
from nearfield.ray._replica import REFUSALS
from nearfield.ray._rpc import serve
from nearfield.ray._server import Settings, listen_host, must_move
from nearfield.ray._slot import NAMESPACE, Slot, end_others
from nearfield.ray._steps import Steps, run
from nearfield.ray._upgrade import take_over

T = TypeVar("T")
_STORE_PAUSE_SECONDS = 0.5  # after a failure of the storage
_LOOK_SECONDS = 1.0  # between two looks for manifests of other coordinators
_COMMIT_SECONDS_MAX = 25.0  # until a commit has its turn, and again until it is shown
_REPLY_SECONDS_MAX = 0.5  # for the replies to calls that run when the cluster ends
_RECEIVED_ROWS_MIN = 10_000  # of an upload whose rows the servers get before its turn
_COMMITTERS_MAX = 24  # calls that wait, so that other calls find a thread of the server


class CoordinatorProcess(Fleet):
    """The actor."""

    METHODS: tuple[str, ...] = ("view", "status", "waiting", "ready", "commit", "stop")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._committers = threading.Semaphore(_COMMITTERS_MAX)
        self._server: Any = None
        self._address = ""
        threading.Thread(target=self._run, daemon=True).start()

    def address(self) -> str:
        return self._address

    def settings(self) -> Settings:
        return self._settings

    def stop(self) -> None:
        """Ends the cluster: the replicas, and the coordinator right after the reply."""
        for slot in self._slots:
            slot.stopped.set()
        with contextlib.suppress(OSError):
            self._store.delete(self._card)
        end_others(self._settings.name, set())
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self._server.stop(_REPLY_SECONDS_MAX).wait()
        end_others(self._settings.name, set())  # also those that a resize has started meanwhile
        ray.kill(ray.get_actor(self._settings.name, NAMESPACE))

    def _run(self) -> None:
        """Opens the log and starts the replicas; tries until the storage answers. Then looks after
        manifests in doubt and those of other coordinators."""
        while True:
            try:
                self._open()
                break
            except Exception as error:
                self._note(error)
                threading.Event().wait(_STORE_PAUSE_SECONDS)
        while True:
            self._look.wait(_LOOK_SECONDS)
            self._look.clear()
            try:
                with self._committing():
                    self._follow_others()
                    self._stop_over()
                run(self._log.retire(), store=self._store)
                self._error = ""
                if must_move(self._settings.host, self._address):
                    os._exit(1)
            except Exception as error:  # the next turn tries again
                self._note(error)

    def _note(self, error: Exception) -> None:
        self._error = str(error)
        if not isinstance(error, (OSError, Error)):
            traceback.print_exc()

    def _open(self) -> None:
        settings = self._settings
        if not self._address:  # or none of its ports was free
            methods = {name: getattr(self, name) for name in self.METHODS}
            host, ports = listen_host(settings.host), settings.listen_ports
            self._server, self._address = serve(methods, host, ports, settings.cluster)
        if not self._log.opened:
            first = None if self._store.first("commits") else take_over(self._store)
            self._perform(self._log.open(first or Manifest(layout=1, shards=settings.shards)))
        card: dict[str, Any] = {"name": settings.name, "cluster": settings.cluster}
        card |= {"address": self._address, "opened": self._log.opened}
        self._store.put(self._card, json.dumps(card).encode())
        with self._commit:
            self.load()
        end_others(settings.name, {slot.name for slot in self._slots})

    @property
    def _card(self) -> str:
        """Returns the name of the object by which clients find this cluster."""
        return f"coordinators/{self._settings.cluster}.json"

    # Commits.

    def _perform(self, steps: Steps[T]) -> T:
        """Performs a step of the log. Raises Unavailable if the storage does not answer."""
        try:
            return run(steps, store=self._store, fleet=self)
        except OSError as error:
            doubt = "; the commit may take effect: repeat it with the same token"
            raise Unavailable(f"storage: {error}{doubt if self._log.pending else ''}") from None

    @contextlib.contextmanager
    def _committing(self) -> Iterator[Manifest]:
        """Holds the lock of commits; yields the newest manifest, after it has settled one in doubt
        and brought the replicas to it."""
        if not self._commit.acquire(timeout=_COMMIT_SECONDS_MAX):
            raise Unavailable("another commit still runs")
        try:
            self._newest()
            self._perform(self._log.settle())
            self.load()
            yield self._newest()
        finally:
            self._commit.release()

    def _follow_others(self) -> Manifest:
        """Reads what other coordinators have committed, and brings the replicas to it."""
        self._perform(self._log.follow())
        self.load()
        return self._newest()

    def commit(
        self, name: str, operation: Operation, token: str, created: int | None = None
    ) -> Done:
        """Commits an operation on all shards: {"kind"} of CollectionState.tail, and create, with
        "declared", and drop. created: of the collection that is meant, if that is known. When it
        returns, the manifest is shown. The same token again returns the same."""
        operation = checked_operation(operation)
        if not self._committers.acquire(blocking=False):
            raise Unavailable("too many commits wait")
        try:
            deadline = time.monotonic() + _COMMIT_SECONDS_MAX
            with self._received(name, operation, token), self._committing() as before:
                done = self._perform(self._log.commit(name, operation, token, created))
                self._forget_unused(before, self._newest(), name)
            with self._changed:
                left = max(0.0, deadline - time.monotonic())
                if self._changed.wait_for(lambda: self._has_shown(done.number), left):
                    return done
            raise Unavailable("committed, but a shard has no server: repeat it with its token")
        finally:
            self._committers.release()

    @contextlib.contextmanager
    def _received(self, name: str, operation: Operation, token: str) -> Iterator[None]:
        """Lets the replicas take the rows of a large upload while other commits go on. Errors are
        reported when it is staged."""
        slots: list[Slot] = []
        if _is_large(operation):
            with self._committing():
                if self._perform(self._log.done(token, name, operation["kind"])) is None:
                    slots = [slot for slot in self._slots if slot.ready and not slot.late]
        calls = {slot: slot.call("receive", name, operation) for slot in slots}
        self._replies(calls)
        try:
            yield
        finally:
            for slot, received in calls.items():
                slot.call("discard", name, operation, received)  # Ray calls it after `receive`

    def _forget_unused(self, before: Manifest, after: Manifest, name: str) -> None:
        """Deletes what a commit to a collection has made unused, unless the newest manifest is one
        that its coordinator may still withdraw."""
        if after.author != self._log.author:
            return  # `clean` does it
        if name in before.collections and name not in after.collections:
            state = before.collections[name]
            threading.Thread(target=self._forget, args=(state,), daemon=True).start()
        with contextlib.suppress(OSError):
            for page in before.token_pages:
                if page not in after.token_pages:
                    self._store.delete(page[0])

    def _change(self, make: Callable[[Manifest], Steps[Manifest]]) -> tuple[Manifest, Manifest]:
        """Commits what is made of the newest manifest; returns both."""
        with self._committing():
            return self._perform(self._log.change(make))

    # The requests of the log to the replicas.

    def stage(self, manifest: Manifest, name: str, operation: Operation) -> tuple[list[int], int]:
        """Lets the replicas check the operation and take its rows. Returns the rows of each shard
        afterwards, and the number of changed rows. After an error nothing is staged."""
        state = manifest.collections.get(name)
        expected = ("", "") if state is None else (state.id, state.last)
        slots = [slot for some in self._quorum(manifest) for slot, _ in some]
        found: dict[int, dict[str, int]] = {}
        refused: Exception | None = None
        calls = {slot: slot.call("stage", name, expected, operation) for slot in slots}
        replies = self._replies(calls)
        self._staged = [*replies]
        for slot, staged in replies.items():
            if isinstance(staged, dict) and found.setdefault(slot.shard, staged) != staged:
                staged = Internal(f"{slot.name}: {staged}, another replica {found[slot.shard]}")
            if isinstance(staged, LEFT_OUT):
                self._drop_out(slot, staged)
            elif isinstance(staged, OSError):
                refused = refused or Unavailable(f"storage: {staged}")
            elif isinstance(staged, Exception):
                refused = refused or staged
        try:
            if refused is not None:
                raise refused if isinstance(refused, Error) else Internal(repr(refused))
            self._quorum(manifest)
            if len(found) < manifest.shards:
                raise Unavailable("a shard has no server that has staged it")
        except Error:
            self.abandon(operation)
            self._show()
            raise
        rows = [found[shard]["rows"] for shard in range(manifest.shards)]
        return rows, sum(each["changed"] for each in found.values())

    def rows(self, manifest: Manifest, shards: int, slots: list[Slot]) -> dict[str, list[int]]:
        """Returns the rows of each collection, by shard, that new replicas have at a manifest."""
        replies = self._replies({slot: slot.sync(manifest) for slot in slots if slot.ready})
        found = {slot.shard: each for slot, each in replies.items() if isinstance(each, dict)}
        if len(found) != shards:
            raise Unavailable("a new shard has no server")
        states = [found[shard] for shard in range(shards)]
        return {name: [each[name]["rows"] for each in states] for name in manifest.collections}

    def abandon(self, operation: Operation, again: bool = False) -> None:
        """Ends what is staged. again: it is staged again, and a large upload stays at the
        servers."""
        kept = again and _is_large(operation)
        for slot in self._slots:
            if slot.ready:
                slot.call("abandon", operation["id"], kept)

    def apply(self, before: Manifest, name: str, operation: Operation) -> Exception | None:
        """Makes the operation, by which the newest manifest differs from the one before, visible
        where it is staged, and shows it. A replica that fails is left out. Returns the reason if
        all replicas of a shard refuse it; then they still hold the manifest before."""
        number = self._newest().number
        holders = (each for some in self._holders(before) for each in some)
        states = {slot: held for slot, held in holders if slot in self._staged}
        refused: dict[Slot, Exception] = {}
        calls = {slot: slot.call("apply", name, operation["id"]) for slot in states}
        for slot, state in self._replies(calls).items():
            if isinstance(state, REFUSALS):
                refused[slot] = state
            elif isinstance(state, Exception):
                self._drop_out(slot, state)
            else:
                held = {key: each for key, each in states[slot].items() if key != name}
                slot.held = {**slot.held, number: {**held, name: state} if state else held}
        shards = self._holders(self._newest())
        for slot, reason in refused.items():
            if not shards[slot.shard]:
                return reason
        for slot, reason in refused.items():
            self._drop_out(slot, reason)
        self._show()
        return None

    def _files_of(self, state: CollectionState, pages: dict[str, set[str]]) -> set[str]:
        return run(files_of(state, pages), store=self._store)

    def _forget(self, before: CollectionState, after: CollectionState | None = None) -> None:
        """Deletes the files that only an earlier state of a collection names. Those that an error
        leaves only take space."""
        try:
            pages: dict[str, set[str]] = {}
            kept = self._files_of(after, pages) if after is not None else set()
            for name in self._files_of(before, pages) - kept:
                self._store.delete(name)
        except (OSError, Error):
            traceback.print_exc()


def _is_large(operation: Operation) -> bool:
    """Returns True for an upload whose rows the servers take before its turn."""
    rows = sum(each["rows"] for each in operation.get("segments", []))
    return bool(operation["kind"] != "delete" and rows >= _RECEIVED_ROWS_MIN)

"""The coordinator: one actor that commits to the storage and keeps the replicas.

A commit:

    stage on every replica -> write the manifest -> apply on every replica -> show -> acknowledge
         refused: nothing       the commit point      one that fails is
         has changed                                  loaded again, alone

A manifest is shown once each shard has a replica that holds it; until then searches go on at the
manifest before. If the write of a manifest fails, the manifest is in doubt: it may be there or may
arrive later, so it is written again before the next commit. If all replicas of a shard refuse an
operation that is in the log, although they staged it, the next manifest withdraws it: no search
has seen it. If the coordinator ends before it has written that manifest, the shard has no server
until a replica accepts the operation."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ray

from nearfield._errors import (
    Aborted,
    AlreadyExists,
    DataLoss,
    Error,
    FailedPrecondition,
    Internal,
    NotFound,
    Unavailable,
)
from nearfield.ray._fleet import LEASE_SECONDS, Fleet, Holders
from nearfield.ray._manifest import (
    CollectionState,
    Done,
    Manifest,
    ManifestLog,
    Operation,
    checked_operation,
    files_of,
    lease_now,
    newest_claim,
    newest_manifest,
)
from nearfield.ray._replica import REFUSALS
from nearfield.ray._rpc import answers, serve
from nearfield.ray._server import Settings, listen_host, must_move
from nearfield.ray._slot import NAMESPACE, Slot, end_others

_STORE_PAUSE_SECONDS = 0.5  # after a failure of the storage
_CLAIM_SECONDS = 2.0  # between two looks whether there is another coordinator
_COMMIT_SECONDS_MAX = 25.0  # for which a commit waits for the one before, and then for its servers
_REPLY_SECONDS_MAX = 0.5  # for the replies to calls that run when the cluster ends
_COMMITTERS_MAX = 24  # calls that wait, so that other calls find a thread of the server


class CoordinatorProcess(Fleet):
    """The actor."""

    METHODS: tuple[str, ...] = ("view", "status", "commit", "stop")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._committers = threading.Semaphore(_COMMITTERS_MAX)
        self._layout_next = 0
        self._commits_from = 0.0  # by lease_now()
        methods: dict[str, Callable[..., Any]] = {
            name: getattr(self, name) for name in self.METHODS
        }
        self._listen: Callable[[], Any] = lambda: serve(
            methods, listen_host(settings.host), settings.listen_ports
        )
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
        end_others(self._settings.name, set())
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self._server.stop(_REPLY_SECONDS_MAX).wait()
        end_others(self._settings.name, set())  # also those that a resize has started meanwhile
        ray.kill(ray.get_actor(self._settings.name, NAMESPACE))

    def _run(self) -> None:
        """Claims the storage and starts the replicas; tries until the storage answers. Then looks
        after manifests in doubt and claims of others."""
        while self._manifest is None:
            try:
                self._open()
            except Exception as error:
                self._note(error)
                threading.Event().wait(_STORE_PAUSE_SECONDS)
        threading.Thread(target=self._look, daemon=True).start()
        while True:
            threading.Event().wait(_STORE_PAUSE_SECONDS)
            try:
                if self._doubt is not None or self._behind():
                    with self._committing():
                        pass
                with self._commit:
                    self._stop_over()
                if must_move(self._settings.host, self._address):
                    os._exit(1)
            except Exception as error:  # the next turn tries again
                self._note(error)

    def _look(self) -> None:
        """Looks for claims of others. Without one, this coordinator may show what it has for
        LEASE_SECONDS: for that time a new one commits nothing."""
        while True:
            try:
                self._log.check_claim()
            except Aborted:
                os._exit(1)
            except Exception as error:
                self._note(error)
            threading.Event().wait(_CLAIM_SECONDS)

    def _note(self, error: Exception) -> None:
        self._error = str(error)
        if not isinstance(error, (OSError, Error)):
            traceback.print_exc()

    def _open(self) -> None:
        claim = newest_claim(self._store)
        settings = self._settings
        if claim and claim.get("cluster") != settings.cluster and answers(claim["address"]):
            raise FailedPrecondition(f"the cluster {claim['name']!r} uses this storage")
        self._log = ManifestLog(self._store, settings.name, self._address, settings.cluster)
        if not self._log.first:  # nothing proves that the coordinator before has ended
            self._commits_from = lease_now() + LEASE_SECONDS
        newest = replace(newest_manifest(self._store), term=self._log.term)
        if newest.layout:
            self._log.append(newest)
        else:
            newest = replace(newest, layout=1, shards=self._settings.shards)
        self._layout_next = newest.layout + 1
        with self._commit:
            self._manifest = newest
            self._start(self._new_slots(newest.layout, newest.shards))
        end_others(self._settings.name, {slot.name for slot in self._slots})

    # Commits.

    @contextlib.contextmanager
    def _committing(self) -> Iterator[Manifest]:
        """Holds the lock of commits; yields the newest manifest, without doubt, to which it has
        brought the replicas."""
        if not self._commit.acquire(timeout=_COMMIT_SECONDS_MAX):
            raise Unavailable("another commit still runs")
        try:
            self._newest()
            left = self._commits_from - lease_now()
            if left > 0:
                raise Unavailable(
                    f"the coordinator is new: its first commit waits for {left:.1f} s, in which the"
                    " one before may still answer searches"
                )
            if self._doubt is not None:
                self._append(self._doubt)
            if self._behind():
                self._adopt()
            yield self._newest()
        finally:
            self._commit.release()

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
            with self._committing() as manifest:
                done = self._log.done(manifest, token, name, operation["kind"])
                if done is None:
                    state = manifest.collections.get(name)
                    if state is not None and created not in (None, state.created):
                        raise Aborted(f"the collection {name!r} is another one now")
                    done = self._commit_new(manifest, name, operation, token)
            with self._changed:
                left = max(0.0, deadline - time.monotonic())
                if not self._changed.wait_for(lambda: self._has_shown(done.number), left):
                    raise Unavailable(
                        "committed, but a shard has no server: repeat it with its token"
                    )
            return done
        finally:
            self._committers.release()

    def _has_shown(self, number: int) -> bool:
        return self._shown is not None and self._shown.number >= number

    def _commit_new(self, manifest: Manifest, name: str, operation: Operation, token: str) -> Done:
        state = manifest.collections.get(name)
        if operation["kind"] == "create":
            if state is not None:
                same = state.declared == operation["declared"]
                another = "" if same else " with another declaration"
                raise AlreadyExists(f"the collection {name!r} exists{another}")
        elif state is None:
            raise NotFound(f"collection: there is no {name!r}")
        operation = {**operation, "id": uuid.uuid4().hex}
        slots = [slot for some in self._quorum(manifest) for slot, _ in some]
        staged, changed = self._stage(manifest, slots, name, operation)
        rows = [staged[shard]["rows"] for shard in range(manifest.shards)]
        number = manifest.number + 1
        done = Done(number, changed, replaced=0, created=number)
        if state is not None:
            uploads = operation["kind"] in ("insert", "upsert", "replace")
            replaced = sum(state.rows) + changed - sum(rows) if uploads else 0
            done = Done(number, changed, replaced, state.created)
        try:
            after = self._state_after(manifest, name, operation, rows)
            following = manifest.following(name, after)
            following = self._log.with_token(following, token, name, operation["kind"], done)
            self._append(following)
        except (OSError, Unavailable):
            self._abandon(slots, operation)
            raise
        self._apply(manifest, following, name, operation)
        if operation["kind"] == "drop":
            threading.Thread(target=self._forget, args=(state,), daemon=True).start()
        with contextlib.suppress(OSError):
            self._log.forget_old()
            for page in manifest.token_pages:
                if page not in following.token_pages:
                    self._store.delete(page[0])
        return done

    def _state_after(
        self, manifest: Manifest, name: str, operation: Operation, rows: list[int]
    ) -> CollectionState | None:
        if operation["kind"] == "drop":
            return None
        if operation["kind"] == "create":
            number = manifest.number + 1
            return CollectionState(operation["id"], number, operation["declared"], rows)
        state = self._log.folded(manifest.collections[name])
        return replace(state, rows=rows, last=operation["id"], tail=[*state.tail, operation])

    def _quorum(self, manifest: Manifest) -> Holders:
        """Returns the replicas that hold the manifest and answer. Raises Unavailable if a shard has
        none."""
        found = self._holders(manifest)
        holders = [[each for each in some if not each[0].silent] for some in found]
        for shard, some in enumerate(holders):
            if not some:
                raise Unavailable(f"shard {shard} of {manifest.shards} has no server that answers")
        return holders

    def _stage(
        self, manifest: Manifest, slots: list[Slot], name: str, operation: Operation
    ) -> tuple[dict[int, dict[str, int]], int]:
        """Lets all replicas check the operation and take its rows. Returns, by shard, the rows
        afterwards, and the number of changed rows. After an error nothing is staged."""
        state = manifest.collections.get(name)
        expected = ("", "") if state is None else (state.id, state.last)
        calls = [
            (slot, slot.actor.stage.remote(manifest.term, name, expected, operation))
            for slot in slots
        ]
        found: dict[int, dict[str, int]] = {}
        refused: Exception | None = None
        for slot, call in calls:
            try:
                staged = slot.ask(call)
                if found.setdefault(slot.shard, staged) != staged:
                    raise Internal(f"{slot.name}: {staged}, another replica {found[slot.shard]}")
            except (Unavailable, Aborted, Internal) as error:
                self._drop_out(slot, error)
            except OSError as error:
                refused = refused or Unavailable(f"storage: {error}")
            except Exception as error:
                refused = refused or error
        try:
            if refused is not None:
                raise refused if isinstance(refused, Error) else Internal(repr(refused))
            self._quorum(manifest)
        except Error:
            self._abandon(slots, operation)
            self._show()
            raise
        return found, sum(each["changed"] for each in found.values())

    def _abandon(self, slots: list[Slot], operation: Operation) -> None:
        for slot in slots:
            if slot.ready:
                slot.actor.abandon.remote(self._newest().term, operation["id"])

    def _append(self, manifest: Manifest) -> None:
        """Writes a manifest. Raises Unavailable if it is in doubt."""
        self._doubt = manifest
        try:
            self._log.append(manifest)
        except Aborted:
            os._exit(1)  # another coordinator has the storage
        except OSError as error:
            raise Unavailable(
                f"storage: {error}; the commit may take effect: repeat it with the same token"
            ) from None
        self._manifest, self._doubt = manifest, None

    def _apply(
        self,
        before: Manifest,
        manifest: Manifest,
        name: str,
        operation: Operation,
    ) -> None:
        """Makes the operation, which is in the log, visible. A replica that fails is left out."""
        arguments = (manifest.term, name, operation["id"])
        calls = [
            (slot, states, slot.actor.apply.remote(*arguments))
            for some in self._holders(before)
            for slot, states in some
        ]
        refused: dict[Slot, Exception] = {}
        for slot, states, call in calls:
            try:
                state = slot.ask(call)
                held = {key: each for key, each in states.items() if key != name}
                slot.held = {**slot.held, manifest.number: {**held, name: state} if state else held}
            except REFUSALS as error:
                refused[slot] = error
            except Exception as error:
                self._drop_out(slot, error)
        holders = self._holders(manifest)
        refusing = [slot for slot in refused if not holders[slot.shard]]
        if refusing:
            self._append(replace(before, number=manifest.number + 1))
            self._adopt()
            raise refused[refusing[0]]
        for slot, reason in refused.items():
            self._drop_out(slot, reason)
        self._show()

    def _adopt(self) -> None:
        """Brings all replicas to the newest manifest, and shows it. One that cannot read the
        storage stays at its manifest, for the next call; one that fails is left out."""
        manifest = self._newest()
        for slot, call in [(slot, slot.sync(manifest)) for slot in self._behind()]:
            try:
                states = slot.ask(call)
                self._check_rows(slot, manifest, states)
                slot.held = {**slot.held, manifest.number: states}
                slot.error = ""
            except (OSError, DataLoss) as error:
                slot.error = f"storage: {error}"
            except Exception as error:
                self._drop_out(slot, error)
        self._show()
        self._stop_over()

    def _forget(self, before: CollectionState, after: CollectionState | None = None) -> None:
        """Deletes the files that only an earlier state of a collection names. Those that an error
        leaves only take space."""
        try:
            pages: dict[str, set[str]] = {}
            kept = files_of(self._store, after, pages) if after is not None else set()
            for name in files_of(self._store, before, pages) - kept:
                self._store.delete(name)
        except (OSError, Error):
            traceback.print_exc()

"""A real server that is killed, or loses power, at random moments, while clients change it.

After each death the next server must hold everything that was acknowledged, to the bit. A client's
one call in flight must be present as a whole or not at all. `scripts/crash --only server` runs this
test alone; there the store itself also dies thousands of times.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from calls import Api
from conftest import Server, ServerEnded
from crash_model import DIM, State, difference, draw

CALLS_MAX = 40  # by each client in one life
WAIT_S = 60


class Finding(Exception):
    """A violation: its kind and a description."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Died(Exception):
    """The server died, as intended."""


class Actor:
    """One client that changes one collection, one call at a time, and records what was
    acknowledged."""

    def __init__(self, name: str, metric: str, texts: bool, seed) -> None:
        self.name, self.metric, self.texts = name, metric, texts
        self.rng = np.random.default_rng(seed)
        self.queries = self.rng.standard_normal((2, DIM), dtype=np.float32)
        self.state = State()
        self.pending = None
        self.history = {0: self.state}
        self.calls = 0
        self.acked = 0

    def create(self, api: Api) -> None:
        api.create(self.name, DIM, self.metric.upper(), ids="STRING" if self.texts else "UINT64")

    def step(self, api: Api) -> None:
        self.calls += 1
        self.pending = draw(self.rng, self.state, self.texts, self.calls)
        self.settle(self.send(api, self.pending))
        self.acked += 1

    def settle(self, epoch: int) -> None:
        """Records that the call in flight is done, with this epoch."""
        if epoch != self.pending.after.epoch:
            raise Finding("wrong", f"{self.name}: {self.pending.mode} came to epoch {epoch} after epoch {self.state.epoch}")
        self.state, self.pending = self.pending.after, None
        self.history[epoch] = self.state

    def send(self, api: Api, operation, first_block: int = 0) -> int:
        pb = api.pb
        if operation.mode == "DELETE":
            return api.server.ingest.Delete(
                pb.DeleteRequest(collection=self.name, ids=api.ids(operation.blocks[0][0])), timeout=WAIT_S).epoch
        payload_bytes = sum(len(payload) for block in operation.blocks for payload in block[2])
        begin = api.begin(self.name, operation.rows_in(len(operation.blocks)), payload_bytes, operation.mode, operation.token)
        blocks = [api.block(*block) for block in operation.blocks[first_block:]]
        return api.send(begin, *blocks, api.commit())[-1].committed.epoch

    def found(self, api: Api) -> list[tuple]:
        """Returns the server's answer to each query: epoch, (id, score bits) of all rows,
        payloads."""
        reply = api.search(self.name, self.queries, 4096, with_payload=True)
        return [(reply.epoch, api.answer(result), list(result.payloads)) for result in reply.results]

    def expected(self, state: State) -> list[tuple]:
        answers = [state.answer(self.metric, query) for query in self.queries]
        return [(state.epoch, answer, [state.rows[identity][1] for identity, _ in answer]) for answer in answers]

    def check(self, api: Api) -> None:
        """Checks that everything acknowledged is present, and all or nothing of the call in flight;
        then resolves that call."""
        found, before = self.found(api), self.expected(self.state)
        after = self.expected(self.pending.after) if self.pending else None
        if found == before:
            applied = False
        elif found == after:
            applied = True
        else:
            raise Finding(difference(found[0], before[0], after and after[0]),
                          f"{self.name}: epoch {found[0][0]} after an acknowledged {before[0][0]}")
        if self.pending and self.pending.token:
            return self.finish(api, applied)
        if applied:
            self.settle(self.pending.after.epoch)
        self.pending = None

    def finish(self, api: Api, applied: bool) -> None:
        """Continues an upload with a token after its durable blocks; it must be committed once."""
        operation, next_block = self.pending, 0
        try:
            facts = api.server.ingest.GetUpload(api.pb.GetUploadRequest(collection=self.name, upload_token=operation.token), timeout=WAIT_S)
            next_block = facts.next_block
            committed = facts.committed
            if not committed and facts.rows_count != operation.rows_in(next_block):
                raise Finding("half", f"{self.name}: {facts.rows_count} rows in {next_block} blocks of an open upload")
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            committed = False
        if committed != applied:
            raise Finding("half", f"{self.name}: a token that says committed = {committed} of an upload that is {applied}")
        self.settle(self.send(api, operation, len(operation.blocks) if committed else next_block))
        self.acked += 1
        if self.found(api) != self.expected(self.state):
            raise Finding("wrong", f"{self.name}: an upload that was gone on with")


class Maintainer:
    """One client that compacts, takes snapshots and moves an alias. None of this may change an
    answer."""

    def __init__(self, actors: list[Actor], snapshots: Path, seed) -> None:
        self.actors, self.folder = actors, snapshots
        self.rng = np.random.default_rng(seed)
        self.alias, self.alias_pending = None, None
        # name -> collection -> range of epochs that it may hold
        self.snapshots: dict[str, dict[str, tuple[int, int]]] = {}
        self.pending: tuple[str, dict[str, int]] | None = None
        self.deleting: str | None = None
        self.calls, self.acked = 0, 0

    def step(self, api: Api) -> None:
        pb, admin = api.pb, api.server.admin
        self.calls += 1
        what = str(self.rng.choice(["compact", "snapshot", "alias"]))
        collection = str(self.rng.choice([actor.name for actor in self.actors]))
        if what == "compact":
            admin.Compact(pb.CompactRequest(collection=collection), timeout=WAIT_S)
        elif what == "snapshot":
            self.pending = (f"s{self.calls}", {actor.name: actor.state.epoch for actor in self.actors})
            admin.CreateSnapshot(pb.CreateSnapshotRequest(name=self.pending[0]), timeout=WAIT_S)
            self.settle_snapshot()
        else:
            self.alias_pending = collection
            admin.SetAlias(pb.SetAliasRequest(alias="live", collection=collection), timeout=WAIT_S)
            self.alias, self.alias_pending = collection, None
        self.acked += 1

    def settle_snapshot(self) -> None:
        name, first = self.pending
        self.snapshots[name] = {actor.name: (first[actor.name], actor.state.epoch + 1) for actor in self.actors}
        self.pending = None

    def check(self, api: Api) -> None:
        pb, admin = api.pb, api.server.admin
        infos = admin.ListCollections(pb.ListCollectionsRequest(), timeout=WAIT_S).collections
        for info in infos:
            if info.error:
                raise Finding("lost", f"{info.name}: {info.error}")
        target = next((info.name for info in infos if "live" in info.aliases), None)
        if target not in {self.alias, self.alias_pending or self.alias}:
            raise Finding("lost", f"the alias names {target}, not {self.alias} or {self.alias_pending}")
        self.alias, self.alias_pending = target, None
        listed = {info.name: info.error for info in admin.ListSnapshots(pb.ListSnapshotsRequest(), timeout=WAIT_S).snapshots}
        if self.pending and self.pending[0] in listed:
            self.settle_snapshot()
        self.pending = None
        if self.deleting and self.deleting not in listed:
            del self.snapshots[self.deleting]
        self.deleting = None
        if rest := [entry.name for entry in self.folder.glob(".deleted-*")]:
            raise Finding("half", f"a start left {rest}")
        if set(listed) != set(self.snapshots) or any(listed.values()):
            raise Finding("lost", f"snapshots {listed}, acknowledged were {sorted(self.snapshots)}")

    def prune(self, api: Api) -> None:
        """Keeps the latest two snapshots."""
        for name in list(self.snapshots)[:-2]:
            self.deleting = name
            api.server.admin.DeleteSnapshot(api.pb.DeleteSnapshotRequest(name=name), timeout=WAIT_S)
            del self.snapshots[name]
            self.deleting = None


class Campaign:
    """Lives and deaths of servers on one data directory."""

    arguments: tuple[str, ...] = ()  # further ones of each server

    def __init__(self, program: str, folder: Path, seed: int) -> None:
        self.program, self.folder = program, folder
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        seeds = np.random.SeedSequence(seed).spawn(4)
        self.rng = np.random.default_rng(seeds[0])
        self.actors = [Actor("numbers", "dot", False, seeds[1]), Actor("texts", "cosine", True, seeds[2])]
        self.maintainer = Maintainer(self.actors, self.root / "snapshots", seeds[3])
        self.lives = 0
        self.restored = 0
        api = self.start(None)
        for actor in self.actors:
            actor.create(api)
        self.end(api)

    @property
    def acked(self) -> int:
        return sum(client.acked for client in (*self.actors, self.maintainer))

    def start(self, faults: dict[str, str] | None, data: Path | None = None) -> Api:
        self.lives += 1
        folder = self.folder / f"life{self.lives}"
        folder.mkdir()
        arguments = ["--backend", "cpu", "--threads", "1", "--memory-bytes", "64MiB", "--host-memory-bytes", "64MiB",
                     "--data-dir", str(data or self.root / "data"), "--snapshot-dir", str(self.root / "snapshots"), *self.arguments]
        server = Server(self.program, folder, arguments, faults)
        try:
            server.wait_serving()
        except ServerEnded as error:
            log = (folder / "server.log").read_text()
            # A start may die too, but only as intended: by SIGKILL, without a log line about its
            # end.
            if faults is None or '"exit_code"' in log or "with -9" not in str(error):
                raise Finding("lost", f"a start failed: {log[-2000:]}") from error
            raise Died from error
        return Api(server)

    def end(self, api: Api) -> None:
        api.server.channel.close()
        api.server.process.kill()
        api.server.process.wait(timeout=WAIT_S)

    def check(self, api: Api) -> None:
        for client in (*self.actors, self.maintainer):
            client.check(api)

    def life(self, faults: dict[str, str] | None, kill_after_s: float | None) -> None:
        """Runs one server, from its start to its death."""
        api = self.start(faults)
        try:
            with self.until_death(api):
                self.check(api)
                self.maintainer.prune(api)
                self.drive(api, kill_after_s)
        finally:
            self.end(api)

    def drive(self, api: Api, kill_after_s: float | None) -> None:
        findings: list[Exception] = []

        def run(client) -> None:
            try:
                with self.until_death(api):
                    for _ in range(CALLS_MAX):
                        client.step(api)
            except Died:
                pass
            except Exception as error:  # noqa: BLE001: raised again below
                findings.append(error)

        threads = [threading.Thread(target=run, args=(client,)) for client in (*self.actors, self.maintainer)]
        for thread in threads:
            thread.start()
        if kill_after_s is not None:
            threads[0].join(kill_after_s)
            api.server.process.kill()
        for thread in threads:
            thread.join()
        if findings:
            raise findings[0]

    @staticmethod
    @contextmanager
    def until_death(api: Api):
        """A call that fails because the server died ends a life; any other failure is a finding."""
        try:
            yield
        except grpc.RpcError as error:
            try:
                code = api.server.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                raise Finding("wrong", f"a call failed: {error}") from error
            if code != -9:
                raise Finding("wrong", f"the server ended with {code}:\n{api.server.log.read_text()[-2000:]}") from error
            raise Died from error

    def restore(self) -> None:
        """Checks that a snapshot holds each collection at one of the epochs that passed while it
        was taken."""
        if not self.maintainer.snapshots:
            return
        name = str(self.rng.choice(list(self.maintainer.snapshots)))
        to = self.folder / f"restored{self.lives}"
        done = subprocess.run([self.program, "--restore-from", str(self.root / "snapshots" / name), "--data-dir", str(to)],
                              capture_output=True, text=True, timeout=WAIT_S, check=False)
        if done.returncode != 0:
            raise Finding("lost", f"the snapshot {name} cannot be restored: {done.stderr}")
        api = self.start(None, to)
        for actor in self.actors:
            first, last = self.maintainer.snapshots[name][actor.name]
            found = actor.found(api)
            epoch = found[0][0]
            if not first <= epoch <= last or found != actor.expected(actor.history[epoch]):
                raise Finding("wrong", f"the snapshot {name} of {actor.name}: epoch {epoch} of {first} .. {last}")
        self.end(api)
        shutil.rmtree(to)
        self.restored += 1


def faults_of(library: str, campaign: Campaign, kind: str, at: int, ignore_sync: str = "") -> dict[str, str]:
    stash = campaign.folder / f"stash{campaign.lives}"
    stash.mkdir()
    return {"LD_PRELOAD": library, "NEARFIELD_FAULT_ROOT": str(campaign.root), "NEARFIELD_FAULT_STASH": str(stash),
            "NEARFIELD_FAULT_KIND": kind, "NEARFIELD_FAULT_AT": str(at), "NEARFIELD_FAULT_IGNORE_SYNC": ignore_sync,
            "NEARFIELD_FAULT_SEED": str(campaign.rng.integers(2**31))}


def caught(campaign: Campaign, library: str, ignored: str) -> bool:
    """Returns True if the campaign detects that a server ignores syncs of one kind."""
    for _ in range(20):
        try:
            campaign.life(faults_of(library, campaign, "power", int(campaign.rng.integers(50, 400)), ignored), None)
        except Died:
            continue
        except Finding:
            return True
        except grpc.RpcError:  # DATA_LOSS, and its consequences
            return True
    return False


@pytest.fixture
def work():
    """A working folder, in memory if possible: the fault library models the disk."""
    place = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="nearfield-crash-", dir=place if place.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def test_what_was_acknowledged_is_there_after_any_death(request, work, capsys):
    seed, library = request.config.getoption("--seed"), request.config.getoption("--fault-library")
    points = request.config.getoption("--crash-points")
    program = request.config.getoption("--server")
    campaign = Campaign(program, work / "deaths", seed)
    tally, deaths, text = Counter(), 0, ""
    kinds = ["timer", "kill", "power"] if library else ["timer"]
    try:
        while deaths < points:
            kind = kinds[deaths % len(kinds)]
            try:
                if kind == "timer":
                    campaign.life(None, float(campaign.rng.uniform(0, 0.4)))
                else:
                    campaign.life(faults_of(library, campaign, kind, int(campaign.rng.integers(1, 600))), None)
            except Died:
                pass
            deaths += 1
            if deaths % 8 == 0:
                api = campaign.start(None)
                campaign.check(api)
                campaign.end(api)
                campaign.restore()
        checked = subprocess.run([program, "--check-data-dir", "--data-dir", str(campaign.root / "data")],
                                 capture_output=True, text=True, timeout=WAIT_S, check=False)
        if checked.returncode != 0:
            raise Finding("lost", checked.stderr)
    except Finding as finding:
        tally[finding.kind] += 1
        text = str(finding)
    controls = ["segments", "catalog", "directories"] if library else []
    found = [ignored for number, ignored in enumerate(controls)
             if caught(Campaign(program, work / ignored, seed + number + 1), library, ignored)]
    with capsys.disabled():
        print(f"\nserver deaths: seed {seed}, {campaign.restored} snapshots restored\n"
              f"points={deaths} acked={campaign.acked} lost={tally['lost']} half={tally['half']} wrong={tally['wrong']} "
              f"controls={len(found)}/{len(controls)}")
    assert not text, text
    assert found == controls
    assert campaign.acked > points
    assert campaign.restored > 0 or points < 8

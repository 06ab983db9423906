"""A model of a cluster on Ray: what every reply must be at its manifest, and faults."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import canonical
import nearfield
import numpy as np
from nearfield.ray._shards import shards_of

DIM = 6
IDS = 600  # all rows have ids below this, so that the oracle is fast
# Small servers that a machine of two cores runs four of.
SETTINGS = {"memory_bytes": "32MiB", "host_memory_bytes": "16MiB", "attribute_memory_bytes": "4MiB", "threads": 1}
RAY = {"num_gpus": 0, "object_store_memory": 100 << 20, "include_dashboard": False, "log_to_driver": False}
PASSING = (nearfield.Unavailable, nearfield.DeadlineExceeded)
TRY_SECONDS_MAX = 90
PAUSE_SECONDS = 0.01  # between two calls of a thread: the machine also runs the servers


class Model:
    """The rows after each commit, by the number of its manifest."""

    def __init__(self, metric: str = "dot") -> None:
        self.metric = metric
        self.numbers = [0]
        self.states: list[dict[int, Any]] = [{}]

    @property
    def rows(self) -> dict[int, Any]:
        return self.states[-1]

    def commit(self, number: int, rows: dict[int, Any]) -> None:
        assert number > self.numbers[-1], "a commit has a number that was used"
        self.numbers.append(number)
        self.states.append(rows)

    def at(self, number: int) -> dict[int, Any]:
        """Returns the rows at a manifest: those of the last commit up to it."""
        return self.states[int(np.searchsorted(self.numbers, number, side="right")) - 1]

    def fault_of(self, query: Any, k: int, answer: Any, number: int) -> str | None:
        """Returns "short", "wrong" or None for an answer of the manifest `number`: it must be that of the
        oracle, to the bit."""
        rows = self.at(number)
        ids = list(rows)
        matrix = np.array([rows[each] for each in ids], np.float32).reshape(-1, DIM)
        wanted = canonical.best(self.metric, query, matrix, ids, k) if ids else []
        found = list(zip(answer.ids.tolist(), answer.scores.view(np.uint32).tolist(), strict=True))
        if len(found) < len(wanted):
            return "short"
        return None if found == wanted else "wrong"

    def check(self, query: Any, k: int, answer: Any) -> None:
        fault = self.fault_of(query, k, answer, answer.epoch)
        assert fault is None, f"at manifest {answer.epoch}: {fault}"


class Reader(threading.Thread):
    """Searches all the time; keeps each answer with the number that it must at least show."""

    def __init__(self, client: Any, model: Model, seed: int) -> None:
        super().__init__(daemon=True)
        self._docs = client.collection("docs")
        self._model = model
        self._rng = np.random.default_rng(seed)
        self._ended = threading.Event()
        self._last = 0
        self.answers: list[Any] = []
        self.faults: Counter[str] = Counter()  # short, wrong, stale (an acknowledged commit is missing), backwards
        self.checked = 0
        self.unavailable = 0
        self.seconds: list[float] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ended.wait(PAUSE_SECONDS):
                self._search()
        except BaseException as error:
            self.error = error

    def _search(self) -> None:
        query = draw_vectors(self._rng, 1)[0]
        k, number = int(self._rng.integers(1, 12)), self._model.numbers[-1]
        begin = time.monotonic()
        fresh = bool(self._rng.random() < 0.8)  # the client of the writer: also the others show its commits
        try:
            answer = self._docs.search(query, k=k, timeout=5, fresh=fresh)
        except PASSING:
            self.unavailable += 1
            return
        self.seconds.append(time.monotonic() - begin)
        self.answers.append((query, k, number, answer))

    def check_all(self) -> None:
        """Checks the answers so far, none of whose manifests may be missing in the model: no commit runs."""
        assert self.error is None, repr(self.error)
        taken = len(self.answers)
        for query, k, number, answer in self.answers[:taken]:
            if answer.epoch < number:
                self.faults["stale"] += 1
            if answer.epoch < self._last:
                self.faults["backwards"] += 1
            self._last = answer.epoch
            fault = self._model.fault_of(query, k, answer, answer.epoch)
            if fault is not None:
                self.faults[fault] += 1
        del self.answers[:taken]
        self.checked += taken

    def stop(self) -> None:
        """Stops and checks all answers."""
        self._ended.set()
        self.join(60)
        assert not self.is_alive(), "a search has no end"
        self.check_all()

    def finish(self) -> int:
        """Stops and demands that all answers are right; returns their number."""
        self.stop()
        assert not self.faults, dict(self.faults)
        return self.checked


def faults_of_replicas(client: Any, model: Model, rng: np.random.Generator) -> Counter[str]:
    """Asks every replica of every shard itself for all its rows, which must be those of the model, with the
    scores of the oracle. Returns the faults. Requires: all replicas are ready, no commit runs."""
    view = client.call("view", 10)
    assert view["number"] >= model.numbers[-1]
    faults: Counter[str] = Counter()
    rows, query = model.rows, draw_vectors(rng, 1)[0]
    for shard, replicas in enumerate(view["shards"]):
        assert len(replicas) == client.status()["replicas"]
        mine = {each: row for each, row in rows.items() if shards_of(np.array([each], np.uint64), len(view["shards"]))[0] == shard}
        part = Model(model.metric)
        part.states = [mine]
        for replica in replicas:
            with nearfield.connect(replica["address"]) as server:
                state = replica["states"]["docs"]
                at = {"at_epoch": state["epoch"], "incarnation": state["incarnation"]}
                answer = server.collection("docs").search(query, k=IDS, **at)
            fault = part.fault_of(query, IDS, answer, 0)
            if fault is not None:
                faults[f"replica {fault}"] += 1
            faults["lost"] += len(set(mine) - set(answer.ids.tolist()))
    return +faults


def draw_vectors(rng: np.random.Generator, count: int) -> Any:
    """Small whole numbers and some fractions, so that many scores are equal."""
    return (rng.integers(-4, 5, (count, DIM)) / rng.choice([1, 2, 3], (count, 1))).astype(np.float32)


def repeat(call: Any, seconds: float = TRY_SECONDS_MAX) -> Any:
    """Calls until the cluster is available; the call has a token."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except PASSING:
            if time.monotonic() > deadline:
                raise


class Writer:
    """Makes random commits, each exactly once, and adds them to the model."""

    def __init__(self, client: Any, model: Model, rng: np.random.Generator) -> None:
        self.docs = client.collection("docs")
        self.model = model
        self._rng = rng

    def commit(self) -> None:
        rng, rows = self._rng, dict(self.model.rows)
        kind = rng.choice(["insert", "upsert", "upsert", "delete", "replace"], p=[0.4, 0.2, 0.1, 0.2, 0.1])
        token = f"{rng.integers(2**62)}"
        if kind == "delete" and rows:
            gone = rng.choice(list(rows), min(len(rows), int(rng.integers(1, 20))), replace=False)
            done = repeat(lambda: self.docs.delete(gone.tolist(), token=token, timeout=10))
            assert done.rows_deleted == len(gone)
            for each in gone.tolist():
                del rows[each]
            self.model.commit(done.epoch, rows)
            return
        count = int(rng.integers(1, 60))
        vectors = draw_vectors(rng, count)
        free = np.setdiff1d(np.arange(IDS), list(rows))
        if kind == "insert" and len(free) >= count:
            ids, mode = rng.choice(free, count, replace=False), "insert"
        else:
            ids, mode = rng.choice(IDS, count, replace=False), "replace" if kind == "replace" else "upsert"
        done = repeat(lambda: self.docs.upload(vectors, ids=ids, mode=mode, token=token, timeout=10))
        if mode == "replace":
            rows = {}
        rows.update(zip(ids.tolist(), vectors, strict=True))
        self.model.commit(done.epoch, rows)


class Faults:
    """Faults by name: each method causes one, and returns when it is over."""

    # The share of each fault. A server starts again in a fraction of a second, a process of Ray in two.
    SHARES: ClassVar[dict[str, int]] = {
        "server": 40, "storage": 20, "pause": 12, "compact": 12, "stop": 4, "coordinator": 6, "actor": 6}  # fmt: skip

    def __init__(self, client: Any, storage: Path, draw: random.Random) -> None:
        self._client = client
        self._storage = storage
        self._draw = draw

    def choose(self) -> str:
        return self._draw.choices([*self.SHARES], [*self.SHARES.values()])[0]

    def cause(self, kind: str, during: Any) -> None:
        """Causes a fault and calls `during` while it lasts, or right after it."""
        getattr(self, kind)(during)

    def _some(self, member: str) -> int | None:
        servers = [each for each in repeat(self._client.status)["servers"] if each["ready"]]
        return self._draw.choice(servers)[member] if servers else None

    def _kill(self, member: str, during: Any) -> None:
        """Kills a process at a moment of the first commit."""
        pid = self._some(member)
        timer = threading.Timer(self._draw.uniform(0, 0.06), kill, (pid, signal.SIGKILL))
        timer.start()
        during()
        timer.join()

    def server(self, during: Any) -> None:
        self._kill("server_pid", during)

    def actor(self, during: Any) -> None:
        self._kill("pid", during)

    def coordinator(self, during: Any) -> None:
        pid = repeat(self._client.status)["pid"]
        timer = threading.Timer(self._draw.uniform(0, 0.06), kill, (pid, signal.SIGKILL))
        timer.start()
        during()
        timer.join()

    def pause(self, during: Any) -> None:
        """A server that stands still for less than the time after which it is started again."""
        self._stand_still(during, self._draw.uniform(0.05, 0.8))

    def stop(self, during: Any) -> None:
        """A server that stands still for good is started again."""
        self._stand_still(during, None)

    def _stand_still(self, during: Any, seconds: float | None) -> None:
        pid = self._some("server_pid")
        kill(pid, signal.SIGSTOP)
        if seconds is None:
            during()
            return
        timer = threading.Timer(seconds, kill, (pid, signal.SIGCONT))
        timer.start()
        during()
        timer.join()

    def storage(self, during: Any) -> None:
        """The storage fails for a while, in the middle of commits."""
        gone = self._storage.with_name("gone")

        def take() -> None:
            self._storage.rename(gone)
            self._storage.write_text("in the way")

        def back() -> None:
            self._storage.unlink()
            gone.rename(self._storage)

        begin = self._draw.uniform(0, 0.06)
        timers = [threading.Timer(begin, take), threading.Timer(begin + self._draw.uniform(0.05, 0.6), back)]
        timers[0].start()
        timers[1].start()
        during()
        for timer in timers:
            timer.join()

    def compact(self, during: Any) -> None:
        thread = threading.Thread(target=lambda: repeat(lambda: self._client.compact("docs", timeout=30)))
        thread.start()
        during()
        thread.join()


def kill(pid: int | None, number: int) -> None:
    try:
        if pid:
            os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended already

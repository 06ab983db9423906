"""A model of a cluster on Ray: what every reply must be at its manifest, and faults."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import canonical
import nearfield
import numpy as np

DIM = 6
PASSING = (nearfield.Unavailable, nearfield.DeadlineExceeded)
TRY_SECONDS_MAX = 90
PAUSE_SECONDS = 0.03  # between two calls of a thread: the machine also runs the servers


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

    def check(self, query: Any, k: int, answer: Any) -> None:
        """Demands the answer of the oracle, to the bit."""
        rows = self.at(answer.epoch)
        ids = list(rows)
        matrix = np.array([rows[each] for each in ids], np.float32).reshape(-1, DIM)
        wanted = canonical.best(self.metric, query, matrix, ids, k) if ids else []
        found = list(zip(answer.ids.tolist(), answer.scores.view(np.uint32).tolist(), strict=True))
        assert found == wanted, f"at manifest {answer.epoch}: {found}, not {wanted}"


class Reader(threading.Thread):
    """Searches all the time; keeps each answer with the number that it must at least show."""

    def __init__(self, client: Any, model: Model, seed: int) -> None:
        super().__init__(daemon=True)
        self._docs = client.collection("docs")
        self._model = model
        self._rng = np.random.default_rng(seed)
        self._ended = threading.Event()
        self.answers: list[Any] = []
        self.unavailable = 0
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
        try:
            answer = self._docs.search(query, k=k, timeout=5)
        except PASSING:
            self.unavailable += 1
            return
        self.answers.append((query, k, number, answer))

    def finish(self) -> int:
        """Stops and checks all answers; returns their number."""
        self._ended.set()
        self.join(60)
        assert not self.is_alive(), "a search has no end"
        if self.error is not None:
            raise self.error
        before = 0
        for query, k, number, answer in self.answers:
            assert answer.epoch >= number, f"manifest {number} was acknowledged, {answer.epoch} answered"
            assert answer.epoch >= before, "an answer is older than the one before"
            before = answer.epoch
            self._model.check(query, k, answer)
        return len(self.answers)


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
        ids = rng.choice(3000, count, replace=False) if kind != "insert" else self._new_ids(count)
        mode: Any = "upsert" if kind == "delete" else str(kind)
        done = repeat(lambda: self.docs.upload(vectors, ids=ids, mode=mode, token=token, timeout=10))
        if mode == "replace":
            rows = {}
        rows.update(zip(ids.tolist(), vectors, strict=True))
        self.model.commit(done.epoch, rows)

    def _new_ids(self, count: int) -> Any:
        free = np.setdiff1d(np.arange(5000), list(self.model.rows))
        return self._rng.choice(free, count, replace=False)


class Faults:
    """Faults by name: each method causes one, and returns when it is over."""

    KINDS = ("server", "actor", "coordinator", "pause", "storage", "compact")

    def __init__(self, client: Any, storage: Path, draw: random.Random) -> None:
        self._client = client
        self._storage = storage
        self._draw = draw

    def cause(self, kind: str, during: Any) -> None:
        """Causes a fault and calls `during` while it lasts, or right after it."""
        getattr(self, kind)(during)

    def _servers(self) -> list[dict[str, Any]]:
        return [each for each in repeat(self._client.status)["servers"] if each["ready"]]

    def _kill(self, member: str) -> None:
        servers = self._servers()
        if servers:
            kill(self._draw.choice(servers)[member], signal.SIGKILL)

    def server(self, during: Any) -> None:
        self._kill("server_pid")
        during()

    def actor(self, during: Any) -> None:
        self._kill("pid")
        during()

    def coordinator(self, during: Any) -> None:
        kill(repeat(self._client.status)["pid"], signal.SIGKILL)
        during()

    def pause(self, during: Any) -> None:
        """A server that stands still does not end, but does not answer either."""
        servers = self._servers()
        if not servers:
            return
        pid = self._draw.choice(servers)["server_pid"]
        kill(pid, signal.SIGSTOP)
        timer = threading.Timer(self._draw.uniform(0.1, 1.5), kill, (pid, signal.SIGCONT))
        timer.start()
        during()
        timer.join()

    def storage(self, during: Any) -> None:
        """The storage fails for a while, in the middle of commits."""
        gone = self._storage.with_name("gone")
        self._storage.rename(gone)
        self._storage.write_text("in the way")

        def back() -> None:
            self._storage.unlink()
            gone.rename(self._storage)

        timer = threading.Timer(self._draw.uniform(0.1, 1.5), back)
        timer.start()
        during()
        timer.join()

    def compact(self, during: Any) -> None:
        repeat(lambda: self._client.compact("docs", timeout=30))
        during()


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended already

"""A model of a cluster on Ray: what every reply must be at its manifest, readers and writers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from typing import Any

import canonical
import nearfield
import numpy as np
from nearfield.ray._segment import shards_of

DIM = 6
FIRST, SECOND = range(500), range(500, 600)  # ids of two writers
IDS = 600  # all rows have ids below this, so that the oracle is fast
SHELVES = 4  # values of the attribute of each writer's rows
# Small servers that a machine of two cores runs four of.
SETTINGS = {"memory_bytes": "32MiB", "host_memory_bytes": "16MiB", "attribute_memory_bytes": "4MiB", "threads": 1}
RAY = {"num_gpus": 0, "object_store_memory": 100 << 20, "include_dashboard": False, "log_to_driver": False}
PASSING = (nearfield.Unavailable, nearfield.DeadlineExceeded)
TRY_SECONDS_MAX = 90
# For which a read of a Reader may try. Another replica is asked after one second, which the campaign demands.
READ_SECONDS_MAX = float(os.environ.get("NEARFIELD_RAY_READ_SECONDS", "10"))
NOTES_MAX = 5
PAUSE_SECONDS = 0.01  # between two calls of a thread: the machine also runs the servers


def free_range(count: int) -> range:
    """Returns ports on which nothing listens, below those that the kernel gives to others."""

    def is_free(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    return next(found for first in range(21000, 30000, count) if all(map(is_free, found := range(first, first + count))))


class Model:
    """The rows after each commit, by the number of its manifest."""

    def __init__(self, metric: str = "dot") -> None:
        self.metric = metric
        self.numbers = [0]
        self.states: list[dict[int, Any]] = [{}]

    @property
    def newest(self) -> int:
        """The number of the last acknowledged commit."""
        return self.numbers[-1]

    @property
    def rows(self) -> dict[int, Any]:
        return self.at(self.newest)

    def commit(self, number: int, rows: dict[int, Any]) -> None:
        assert number > self.newest, "a commit has a number that was used"
        self.states.append(rows)
        self.numbers.append(number)

    def at(self, number: int) -> dict[int, Any]:
        """Returns the rows at a manifest: those of the last commit up to it."""
        return self.states[int(np.searchsorted(self.numbers, number, side="right")) - 1]

    def fault_of(self, query: Any, k: int, answer: Any, number: int, shelf: int | None = None) -> str | None:
        """Returns "short", "wrong" or None for an answer of the manifest `number`: it must be that of the
        oracle, to the bit. shelf: of a search among the rows that have it."""
        rows = self._shelf(number, shelf)
        ids = list(rows)
        matrix = np.array([rows[each] for each in ids], np.float32).reshape(-1, DIM)
        wanted = canonical.best(self.metric, query, matrix, ids, k) if ids else []
        found = list(zip(answer.ids.tolist(), answer.scores.view(np.uint32).tolist(), strict=True))
        if len(found) < len(wanted):
            return "short"
        return None if found == wanted else "wrong"

    def fault_of_count(self, shelf: int, answer: Any, number: int) -> str | None:
        return None if answer.rows_count == len(self._shelf(number, shelf)) else "wrong count"

    def fault_of_fetch(self, wanted: list[int], answer: Any, number: int) -> str | None:
        """The rows that are there must come with their vectors, in the order of the request."""
        rows = self.at(number)
        there = [each for each in wanted if each in rows]
        same = list(answer.ids) == there and set(answer.missing) == set(wanted) - set(there)
        return None if same and answer.vectors.tolist() == [rows[each].tolist() for each in there] else "wrong fetch"

    def _shelf(self, number: int, shelf: int | None) -> dict[int, Any]:
        rows = self.at(number)
        return rows if shelf is None else {each: row for each, row in rows.items() if shelf_of(each, row) == shelf}

    def check(self, query: Any, k: int, answer: Any) -> None:
        fault = self.fault_of(query, k, answer, answer.epoch)
        assert fault is None, f"at manifest {answer.epoch}: {fault}"


class Together(Model):
    """The models of writers that commit at the same time to one collection, each to its own ids."""

    def __init__(self, *parts: Model) -> None:
        super().__init__(parts[0].metric)
        self._parts = parts

    @property
    def newest(self) -> int:
        return max(each.newest for each in self._parts)

    def commit(self, number: int, rows: dict[int, Any]) -> None:
        raise TypeError("commit to a part")

    def at(self, number: int) -> dict[int, Any]:
        return {each: row for part in self._parts for each, row in part.at(number).items()}


class Reader(threading.Thread):
    """Reads all the time; keeps each answer with the number that it must at least show.

    fresh    share of the reads that must show all commits before them
    own      the writer of this client, whose commits the other reads show, too; None: all commits
    shelves  the rows have shelves: also filters, counts and fetches
    harmless the kinds of rounds in which no read may fail"""

    def __init__(
        self, client: Any, model: Model, seed: int, *, fresh: float = 0.8, own: Writer | None = None, shelves: bool = False,
        harmless: Any = (),
    ) -> None:
        super().__init__(daemon=True)
        self._docs = client.collection("docs")
        self._model = model
        self._rng = np.random.default_rng(seed)
        self._fresh = fresh
        self._own: Model | Writer = own or model
        self._kinds = ["search", "search", "shelf", "count", "fetch"] if shelves else ["search"]
        self.harmless = harmless
        self._ended = threading.Event()
        self._last = 0
        self._reading = threading.Lock()
        self._round = ""
        self.answers: list[Any] = []
        self.notes: list[str] = []  # of the first faults
        # short, wrong, wrong count, wrong fetch, stale (an acknowledged commit is missing), backwards
        self.faults: Counter[str] = Counter()
        self.checked: Counter[str] = Counter()
        self.unavailable_in: Counter[str] = Counter()  # by the kind of the round
        self.seconds: list[tuple[str, float]] = []  # of the reads, with the kind of the round
        self.error: BaseException | None = None

    @property
    def unavailable(self) -> int:
        return self.unavailable_in.total()

    def begin(self, kind: str) -> None:
        """Begins a round, between two reads: none belongs to two rounds."""
        with self._reading:
            self._round = kind

    def run(self) -> None:
        try:
            while not self._ended.wait(PAUSE_SECONDS):
                with self._reading:
                    self._read()
        except BaseException as error:
            self.error = error

    def _read(self) -> None:
        rng, docs = self._rng, self._docs
        kind = self._kinds[rng.integers(len(self._kinds))]
        query, k, shelf = draw_vectors(rng, 1)[0], int(rng.integers(1, 12)), int(rng.integers(2 * SHELVES))
        ids = rng.choice(IDS, 5, replace=False).tolist()
        options = {"timeout": READ_SECONDS_MAX, "fresh": bool(rng.random() < self._fresh)}
        number = (self._model if options["fresh"] else self._own).newest
        begin = time.monotonic()
        try:
            if kind == "search":
                answer = docs.search(query, k=k, **options)
            elif kind == "shelf":
                answer = docs.search(query, k=k, filter=f"shelf == {shelf}", **options)
            elif kind == "count":
                answer = docs.count(f"shelf == {shelf}", **options)
            else:
                answer = docs.fetch(ids, payload=False, **options)
        except PASSING:
            self.unavailable_in[self._round] += 1
            return
        self.seconds.append((self._round, time.monotonic() - begin))
        arguments = {"search": (query, k), "shelf": (query, k, shelf), "count": (shelf,), "fetch": (ids,)}
        self.answers.append((kind, arguments[kind], number, answer, f"{kind} in a round of {self._round!r}, {options}"))

    def check_all(self) -> None:
        """Checks the answers so far, none of whose manifests may be missing in the model: no commit runs."""
        if self.error is not None:
            raise self.error
        taken = len(self.answers)
        for kind, arguments, number, answer, asked in self.answers[:taken]:
            fault = self._fault_of(kind, arguments, answer)
            found = {"stale": answer.epoch < number, "backwards": answer.epoch < self._last, fault or "": fault is not None}
            self.faults += Counter([each for each, there in found.items() if there])
            if any(found.values()) and len(self.notes) < NOTES_MAX:
                self.notes.append(f"{asked}: {found}; manifest {answer.epoch}, before {self._last}, wanted {number}")
            self._last = answer.epoch
            self.checked[kind] += 1
        del self.answers[:taken]

    def _fault_of(self, kind: str, arguments: tuple[Any, ...], answer: Any) -> str | None:
        model, number = self._model, answer.epoch
        if kind == "count":
            return model.fault_of_count(arguments[0], answer, number)
        if kind == "fetch":
            return model.fault_of_fetch(arguments[0], answer, number)
        query, k, *shelf = arguments
        return model.fault_of(query, k, answer, number, *shelf)

    def stop(self) -> None:
        """Stops and checks all answers."""
        self._ended.set()
        self.join(60)
        assert not self.is_alive(), "a read has no end"
        self.check_all()

    def finish(self) -> int:
        """Stops and demands that all answers are right; returns their number."""
        self.stop()
        assert not self.faults, dict(self.faults)
        return self.checked.total()


def faults_of_replicas(client: Any, model: Model, rng: np.random.Generator) -> Counter[str]:
    """Asks every replica of every shard itself for all its rows, which must be those of the model, with the
    scores of the oracle. Returns the faults. Requires: all replicas are ready, no commit runs."""
    view = client.call("view", 10)
    assert view["number"] >= model.newest
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


def shelf_of(row_id: int, vector: Any) -> int:
    """Returns the attribute of a row: the writers do not share shelves."""
    return int(np.abs(vector).sum()) % SHELVES + SHELVES * (row_id in SECOND)


def best(model: Any, query: Any, k: int, number: int) -> tuple[Any, Any]:
    """Returns the ids and scores of the oracle at a manifest."""
    ids, vectors = (np.array(each) for each in zip(*model.at(number).items(), strict=True))
    scores = canonical.scores("dot", query, vectors)
    order = np.lexsort((ids, -scores))[:k]
    return ids[order], scores[order]


def see_all_commits(*clients: Any) -> None:
    """Lets clients see all commits: the cluster of a client learns a little later of those by another one."""
    for each in clients:
        repeat(lambda docs=each.collection("docs"): docs.count(fresh=True))


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
    """Makes random commits, each exactly once, and adds them to the model.

    ids      of its rows
    shelves  its rows have shelves, and it deletes some of them by a filter
    emptied  the models of the other writers: a `replace` also removes their rows
    newest   number of its last acknowledged commit"""

    def __init__(
        self, client: Any, model: Model, rng: np.random.Generator, *, ids: range = range(IDS), shelves: bool = False, emptied: Any = ()
    ) -> None:
        self.docs = client.collection("docs")
        self.model = model
        self._rng = rng
        self._ids = np.array(ids)
        self._shelves = shelves
        self._emptied = emptied
        self.newest = 0

    def commit(self, *, alone: bool = True) -> None:
        """alone: no other writer commits now, so that it may replace all rows."""
        rng, rows = self._rng, dict(self.model.rows)
        kind = rng.choice(["insert", "upsert", "delete", "replace"], p=[0.4, 0.3, 0.2, 0.1])
        token = f"{rng.integers(2**62)}"
        if kind == "delete" and rows:
            self._delete(rows, token)
            return
        count = int(rng.integers(1, min(60, len(self._ids))))
        vectors = draw_vectors(rng, count)
        free = np.setdiff1d(self._ids, list(rows))
        if kind == "insert" and len(free) >= count:
            ids, mode = rng.choice(free, count, replace=False), "insert"
        else:
            ids, mode = rng.choice(self._ids, count, replace=False), "replace" if kind == "replace" and alone else "upsert"
        added = dict(zip(ids.tolist(), vectors, strict=True))
        attributes = {"shelf": [shelf_of(*each) for each in added.items()]} if self._shelves else None
        done = repeat(lambda: self.docs.upload(vectors, ids=ids, attributes=attributes, mode=mode, token=token, timeout=10))
        if mode == "replace":
            rows = {}
            for each in self._emptied:
                each.commit(done.epoch, {})
        self._acknowledged(done.epoch, {**rows, **added})

    def _delete(self, rows: dict[int, Any], token: str) -> None:
        rng = self._rng
        some = rng.choice(list(rows), min(len(rows), int(rng.integers(1, 20))), replace=False).tolist()
        what: dict[str, Any] = {"ids": some}
        if self._shelves and rng.random() < 0.3:
            shelf = shelf_of(some[0], rows[some[0]])
            some = [each for each, row in rows.items() if shelf_of(each, row) == shelf]
            what = {"filter": f"shelf == {shelf}"}
        done = repeat(lambda: self.docs.delete(**what, token=token, timeout=10))
        assert done.rows_deleted == len(some)
        self._acknowledged(done.epoch, {each: row for each, row in rows.items() if each not in some})

    def _acknowledged(self, number: int, rows: dict[int, Any]) -> None:
        self.model.commit(number, rows)
        self.newest = number

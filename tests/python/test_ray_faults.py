"""A cluster on a real Ray under faults: every answer is the oracle's at its manifest, what was
acknowledged is visible and durable, and no answer is short. scripts/ray_campaign runs many rounds."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import types
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nearfield
import numpy as np
import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Client, Cluster  # noqa: E402
from ray_faults import NODE_SECONDS_MAX, Faults  # noqa: E402
from ray_model import (  # noqa: E402
    DIM,
    FIRST,
    IDS,
    PAUSE_SECONDS,
    SECOND,
    SETTINGS,
    TRY_SECONDS_MAX,
    Model,
    Reader,
    Together,
    Writer,
    best,
    draw_vectors,
    faults_of_replicas,
    repeat,
    see_all_commits,
    shelf_of,
)
from ray_network import Network  # noqa: E402

COMMITS = 3  # of a round by the first writer; the second makes one less
ALONE = 0.1  # share of the rounds without the second writer
OTHERS = 0.1  # share of the rounds in which another collection is created and dropped
HANG_SECONDS = 2
COMPACT_AFTER = 100  # commits of a collection; also in the middle of faults
COMPACTED_SECONDS_MAX = 120  # the coordinator pauses longer after it failed
ROUNDS_BETWEEN_CHECKS = 50  # of all replicas, one by one


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return tmp_path_factory.mktemp("faults") / "storage"


@pytest.fixture(scope="module")
def network(request, tmp_path_factory):
    """None, or with --ray-partitions nodes whose connections can be cut."""
    if not request.config.getoption("--ray-partitions"):
        request.getfixturevalue("local_ray")
        yield None
        return
    made = Network(tmp_path_factory.mktemp("network") / "ray.log")
    try:
        ray.init(address=made.address, log_to_driver=False)
        deadline = time.monotonic() + NODE_SECONDS_MAX
        while len(ray.nodes()) <= len(made.names):
            assert time.monotonic() < deadline, ray.nodes()
            threading.Event().wait(PAUSE_SECONDS)
        yield made
    finally:
        ray.shutdown()
        made.close()


def start_cluster(request, storage, **options):
    return Cluster(str(storage), shards=2, num_cpus=0.1, settings=SETTINGS, hang_timeout=HANG_SECONDS, compact_after=COMPACT_AFTER,
                   program=request.config.getoption("--server"), **options)


@pytest.fixture(scope="module")
def cluster(request, network, storage):
    """Two shards of two replicas."""
    made = start_cluster(request, storage, replicas=2)
    yield made
    made.stop()


@pytest.fixture
def rival(request, cluster, storage):
    """Another cluster on the same storage, with one replica of each shard."""
    made = start_cluster(request, storage, name="rival")
    yield made
    made.stop()


class Campaign:
    """Rounds of faults, and what they showed: two writers commit to one collection at the same time, each by its own
    cluster, and three readers read from it all the time."""

    def __init__(self, cluster: Any, rival: Any, storage: Any, seed: int, frozen_seconds_max: float = 2.0, network: Any = None) -> None:
        self._cluster, self._rival = cluster, rival
        self._rng = np.random.default_rng(seed)
        self._draw = random.Random(seed)
        cluster.create_collection("docs", DIM, metric="dot", attributes={"shelf": int}, if_missing=True)
        first, second = Model(), Model()
        self.model = Together(first, second)
        self.faults = Faults(cluster, rival, storage, random.Random(seed), frozen_seconds_max, network)
        self._clients = [Client(str(storage), cluster=name) for name in ("rival", "nearfield")]
        see_all_commits(*self._clients)
        self._writers = [
            Writer(cluster, first, np.random.default_rng([seed, 1]), ids=FIRST, shelves=True, emptied=[second]),
            Writer(self._clients[0], second, np.random.default_rng([seed, 2]), ids=SECOND, shelves=True),
        ]
        self.readers = [
            Reader(cluster, self.model, seed + 1, own=self._writers[0], shelves=True, harmless=Faults.HARMLESS),
            Reader(self._clients[1], self.model, seed + 2, fresh=1, shelves=True, harmless=Faults.HARMLESS),  # makes no commit
            Reader(self._clients[0], self.model, seed + 3, own=self._writers[1], shelves=True, harmless=Faults.HARMLESS_TO_RIVAL),
        ]
        self._pool = ThreadPoolExecutor(1)
        self.kinds: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.seconds: list[tuple[str, float]] = []
        self.replica_checks = 0

    def start(self) -> None:
        for each in self.readers:
            each.start()

    def round(self, kind: str, heal: bool) -> None:
        """heal: all servers are ready when the fault comes; else the one before may still last."""
        begin = time.monotonic()
        if heal:
            self.faults.await_healed()
        kind = self.faults.prepare(kind)
        overlaps = kind in (*Faults.HARMLESS, *Faults.HARMLESS_TO_RIVAL) and not self.faults.healed()
        for each in self.readers:
            each.begin("overlap" if overlaps else kind)
        self.faults.cause(kind, self._commit)
        found = repeat(lambda: self._cluster.collection("docs").count(fresh=True))
        if found.rows_count != len(self.model.rows):
            self.bad["count"] += 1
        for each in self.readers:
            each.begin("between")
            each.check_all()
        self.kinds["overlap" if overlaps else kind] += 1
        self.seconds.append(("overlap" if overlaps else kind, time.monotonic() - begin))

    def _commit(self) -> None:
        alone = self._draw.random() < ALONE
        second = self._pool.submit(self._commit_too, 0 if alone else COMMITS - 1, self._draw.random() < OTHERS)
        for _ in range(COMMITS):
            self._writers[0].commit(alone=alone)
        second.result()

    def _commit_too(self, commits: int, other: bool) -> None:
        for _ in range(commits):
            self._writers[1].commit(alone=False)
        if other:
            self._create_and_drop()

    def await_compacted(self) -> None:
        """The coordinator compacts without a request."""
        deadline = time.monotonic() + COMPACTED_SECONDS_MAX
        while repeat(self._cluster.status)["collections"]["docs"]["operations"] >= COMPACT_AFTER:
            assert time.monotonic() < deadline, self._cluster.status()
            repeat(lambda: self._cluster.call("view", 10, have=self._cluster.call("view", 10)["have"], wait=1.0))

    def _create_and_drop(self) -> None:
        """Another collection: each of its commits takes place once."""
        client, token = self._clients[0], f"{self._draw.random()}"
        repeat(lambda: client.create_collection("other", DIM, metric="dot", token=f"create {token}"))
        other = client.collection("other")
        repeat(lambda: other.upload(np.ones((5, DIM), np.float32), ids=np.arange(5), token=f"upload {token}"))
        counted = repeat(other.count).rows_count
        dropped = repeat(lambda: client.drop_collection("other", token=f"drop {token}"))
        try:
            repeat(other.count)
            there = True
        except nearfield.NotFound:
            there = False
        if (counted, dropped, there) != (5, 5, False):
            self.bad["other collection"] += 1

    def check_replicas(self) -> None:
        """All replicas of both clusters, and another client, after they have healed."""
        for each in (self._cluster, self._rival):
            each.wait_ready(120)
            see_all_commits(each)
            self.bad += faults_of_replicas(each, self.model, self._rng)
        self.replica_checks += 1
        with Client(self._cluster.status()["storage"]) as other:
            query = draw_vectors(self._rng, 1)[0]
            answer = other.collection("docs").search(query, k=IDS, fresh=True)
            fault = self.model.fault_of(query, IDS, answer, answer.epoch)
            if fault is not None or answer.epoch < self.model.newest:
                self.bad["other client"] += 1

    def stop(self) -> None:
        for each in self.readers:
            each.stop()
        self._pool.shutdown()
        for client in self._clients:
            client.close()

    def unavailable(self) -> Counter[str]:
        """Returns by kind of round the reads that failed after READ_SECONDS_MAX; "rival, " is before those of the rival."""
        *mine, rival = [each.unavailable_in for each in self.readers]
        return sum(mine, Counter({f"rival, {kind}": count for kind, count in rival.items()}))

    def found(self) -> Counter[str]:
        """Returns the faults of the cluster, none of which may be there."""
        failed = sum(each.unavailable_in[kind] for each in self.readers for kind in each.harmless)
        harmless = Counter({"unavailable": failed})
        return sum((each.faults for each in self.readers), self.bad) + harmless

    def figures(self) -> dict[str, Any]:
        faults, checked = self.found(), sum((each.checked for each in self.readers), Counter())
        unavailable = self.unavailable()
        reads = [each for reader in self.readers for each in reader.seconds]
        seconds = np.array([each for _, each in self.seconds])
        by_kind = {kind: float(np.mean([each for of, each in self.seconds if of == kind])) for kind in self.kinds}
        return {
            "rounds": len(self.seconds), "faults": dict(self.kinds),
            "commits": sum(len(each.model.numbers) - 1 for each in self._writers),
            "answers_checked": checked.total(), "answers_checked_by_kind": dict(checked), "replica_checks": self.replica_checks,
            **{name: faults[name] for name in FAULTS},
            "reads_unavailable": unavailable.total(), "reads_unavailable_by_kind": dict(unavailable),
            "read_ms_median": 1e3 * float(np.median([each for _, each in reads])),
            "read_ms_max_by_kind": {kind: 1e3 * max(each for of, each in reads if of == kind) for kind in {of for of, _ in reads}},
            "round_seconds_median": float(np.median(seconds)), "round_seconds_max": seconds.max(),
            "round_seconds_mean_by_kind": by_kind, "seconds": seconds.sum()}  # fmt: skip


FAULTS = ("short", "wrong", "wrong count", "wrong fetch", "stale", "backwards", "lost", "count", "other client", "other collection",
          "replica short", "replica wrong", "unavailable")  # fmt: skip


@pytest.fixture
def model(rng):
    """Twenty rows, then thirty, of which 25 is the best for a query of ones."""
    vectors = draw_vectors(rng, 30)
    vectors[25] = 9
    first, second = Model(), Model()
    first.commit(3, dict(enumerate(vectors[:20])))
    first.commit(5, dict(enumerate(vectors)))
    second.commit(4, {SECOND[0]: np.full(DIM, -9, np.float32)})
    return Together(first, second)


def test_the_checker_finds_a_wrong_answer(model):
    """One row less, another row, another bit of a score, an older manifest, a row of another shelf."""
    query = np.ones(DIM, np.float32)
    ids, scores = best(model, query, 9, 5)
    assert 25 in ids

    def fault(ids, scores, number=5, shelf=None):
        return model.fault_of(query, 9, types.SimpleNamespace(ids=ids, scores=scores), number, shelf)

    assert fault(ids, scores) is None
    assert (fault(ids[:8], scores[:8]), fault(ids[::-1], scores[::-1])) == ("short", "wrong")
    assert fault(ids, np.nextafter(scores, np.float32(9))) == "wrong"
    assert fault(ids, scores, 4) == "wrong"
    assert fault(*best(model, query, 9, 4)) == "wrong"
    assert fault(ids[:1], scores[:1], shelf=shelf_of(SECOND[0], query)) == "wrong"


def test_the_checker_finds_a_wrong_count_and_a_wrong_row(model):
    rows = model.at(5)
    shelf = shelf_of(25, rows[25])
    count = sum(shelf_of(each, row) == shelf for each, row in rows.items())
    assert model.fault_of_count(shelf, types.SimpleNamespace(rows_count=count), 5) is None
    assert model.fault_of_count(shelf, types.SimpleNamespace(rows_count=count - 1), 5) == "wrong count"
    assert model.fault_of_count(shelf, types.SimpleNamespace(rows_count=count), 4) == "wrong count"

    def fault(ids, missing, vectors, number=5):
        answer = types.SimpleNamespace(ids=np.array(ids), missing=np.array(missing), vectors=np.array(vectors))
        return model.fault_of_fetch([25, 99, 3], answer, number)

    assert fault([25, 3], [99], [rows[25], rows[3]]) is None
    assert fault([25, 3], [99], [rows[3], rows[25]]) == "wrong fetch"
    assert fault([3], [25, 99], [rows[3]]) == "wrong fetch"
    assert fault([25, 3], [99], [rows[25], rows[3]], 4) == "wrong fetch"


def test_the_checker_finds_an_old_answer(model):
    """Older than an acknowledged commit, or than the answer before; and a read that failed in a round that must
    not show."""
    query = np.ones(DIM, np.float32)
    reader = Reader(types.SimpleNamespace(collection=lambda name: None), model, 1, harmless=Faults.HARMLESS)
    for acknowledged, number in ((5, 5), (3, 4), (5, 4)):
        ids, scores = best(model, query, 9, number)
        answer = types.SimpleNamespace(ids=ids, scores=scores, epoch=number)
        reader.answers.append(("search", (query, 9), acknowledged, answer, "asked"))
    reader.check_all()
    assert [note.partition(":")[0] for note in reader.notes] == 2 * ["asked"]
    assert reader.faults == {"backwards": 1, "stale": 1}
    campaign = Campaign.__new__(Campaign)
    campaign.readers, campaign.bad = [reader], Counter()
    reader.unavailable_in.update(coordinator=2, overlap=1)
    assert campaign.found() == {"backwards": 1, "stale": 1}
    reader.unavailable_in.update(actor=1)
    assert campaign.found() == {"backwards": 1, "stale": 1, "unavailable": 1}


def test_an_actor_that_stands_still_is_replaced(cluster, rng):
    """It neither ends nor answers. Commits and searches go on with the other replica, and the checks show it."""
    docs = cluster.create_collection("still", DIM, metric="dot")
    docs.upload(draw_vectors(rng, 50), ids=np.arange(50))
    server = cluster.status()["servers"][2]
    os.kill(server["pid"], signal.SIGSTOP)
    begin = time.monotonic()
    docs.upload(draw_vectors(rng, 50), ids=np.arange(50, 100))
    assert docs.count(fresh=True).rows_count == 100
    assert len(docs.search(draw_vectors(rng, 1)[0], k=200)) == 100
    assert time.monotonic() - begin < 3 * HANG_SECONDS, "a commit waits for a process that stands still"
    assert not cluster.status()["servers"][2]["ready"]
    cluster.wait_ready(60)
    after = cluster.status()["servers"][2]
    assert after["pid"] != server["pid"]
    assert sum(each["rows"]["still"] for each in cluster.status()["servers"]) == 2 * 100
    cluster.drop_collection("still")


def test_a_coordinator_that_stood_still_ends_no_server(cluster, rng):
    """It counted its own pause against the actors: all servers were ended at once, and loaded their rows again."""
    docs = cluster.create_collection("paused", DIM, metric="dot")
    docs.upload(draw_vectors(rng, 50), ids=np.arange(50))
    cluster.wait_ready(60)
    assert docs.count().rows_count == 50  # so that the client has the view with its own commits
    before = cluster.status()
    os.kill(before["pid"], signal.SIGSTOP)
    try:
        end = time.monotonic() + 1.5 * 3 * HANG_SECONDS
        while time.monotonic() < end:
            assert len(docs.search(draw_vectors(rng, 1)[0], k=200, fresh=False, timeout=5)) == 50
    finally:
        os.kill(before["pid"], signal.SIGCONT)
    for number in range(20):
        docs.upload(draw_vectors(rng, 1), ids=[1000 + number])
    cluster.wait_ready(60)
    after = cluster.status()
    for member in ("pid", "server_pid"):
        assert [each[member] for each in after["servers"]] == [each[member] for each in before["servers"]]
    assert (after["pid"], after["opened"]) == (before["pid"], before["opened"])
    cluster.drop_collection("paused")


def test_a_resize_of_one_cluster_changes_the_other(cluster, rival, rng):
    """Its servers are those of the new number of shards. The end of one cluster does not end the other."""
    docs = cluster.create_collection("resized", DIM, metric="dot")
    docs.upload(draw_vectors(rng, 50), ids=np.arange(50))
    for shards in (1, 2):
        rival.resize(shards)
        assert docs.count(fresh=True).rows_count == 50
        deadline = time.monotonic() + TRY_SECONDS_MAX
        while len(cluster.status()["servers"]) != 2 * shards:  # those of the other number of shards end soon
            assert time.monotonic() < deadline, cluster.status()
            cluster.call("view", 10, have=cluster.call("view", 10)["have"], wait=0.2)
    rival.stop()
    cluster.drop_collection("resized")
    cluster.wait_ready(60)


def test_rounds_of_faults(cluster, rival, network, storage, request):
    config = request.config
    rounds, receipt = config.getoption("--ray-rounds"), config.getoption("--ray-receipt")
    seed = config.getoption("--seed")
    campaign = Campaign(cluster, rival, storage, seed, 60.0 if receipt else 2.0, network)
    campaign.start()
    every = [*campaign.faults.shares]
    few = rounds < 2 * len(every)
    end = time.monotonic() + 60 * config.getoption("--ray-minutes")
    for number in range(rounds):
        if time.monotonic() > end:
            break
        kind = every[number % len(every)] if few else campaign.faults.choose()
        campaign.round(kind, heal=few or number % 2 == 0)
        if number % ROUNDS_BETWEEN_CHECKS == ROUNDS_BETWEEN_CHECKS - 1:
            campaign.check_replicas()
            if receipt:
                print(f"round {number + 1}: {campaign.figures()}", flush=True)
    campaign.check_replicas()
    cluster.restart()  # every server loads all rows from the storage
    campaign.check_replicas()
    campaign.await_compacted()
    campaign.stop()
    figures = {**campaign.figures(), "seed": seed}
    if receipt:
        receipt.write_text(json.dumps(figures))
    assert not campaign.found(), (figures, [each.notes for each in campaign.readers])
    assert figures["answers_checked"] > figures["rounds"], "hardly a read was answered"

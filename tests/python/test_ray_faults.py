"""A cluster on a real Ray under faults: every answer is the oracle's at its manifest, what was
acknowledged is visible and durable, and no answer is short. scripts/ray_campaign runs many rounds."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import types
from collections import Counter
from typing import Any

import canonical
import numpy as np
import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Client, Cluster  # noqa: E402
from ray_model import DIM, IDS, RAY, SETTINGS, Faults, Model, Reader, Writer, draw_vectors, faults_of_replicas, repeat  # noqa: E402

COMMITS = 3  # of a round
ROUNDS_BETWEEN_CHECKS = 50  # of all replicas, one by one


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return tmp_path_factory.mktemp("faults") / "storage"


@pytest.fixture(scope="module")
def cluster(request, storage):
    """Two shards of two replicas."""
    ray.init(num_cpus=4, **RAY)
    made = Cluster(str(storage), shards=2, replicas=2, num_cpus=0.1, settings=SETTINGS, hang_timeout=2,
                   program=request.config.getoption("--server"))
    yield made
    made.stop()
    ray.shutdown()


class Campaign:
    """Rounds of faults, and what they showed."""

    def __init__(self, cluster: Any, storage: Any, seed: int) -> None:
        self._cluster = cluster
        self._rng = np.random.default_rng(seed)
        cluster.create_collection("docs", DIM, metric="dot", if_missing=True)
        self.model = Model()
        self.faults = Faults(cluster, storage, random.Random(seed))
        self._writer = Writer(cluster, self.model, self._rng)
        self.reader = Reader(cluster, self.model, seed + 1)
        self.kinds: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.replica_checks = 0

    def round(self, kind: str) -> None:
        begin = time.monotonic()
        self.faults.cause(kind, lambda: [self._writer.commit() for _ in range(COMMITS)])
        found = repeat(lambda: self._cluster.collection("docs").count())
        if found.rows_count != len(self.model.rows):
            self.bad["count"] += 1
        self.reader.check_all()
        self.kinds[kind] += 1
        self.seconds.append(time.monotonic() - begin)

    def check_replicas(self) -> None:
        """All replicas, and another client, after they have healed."""
        self._cluster.wait_ready(120)
        self.bad += faults_of_replicas(self._cluster, self.model, self._rng)
        self.replica_checks += 1
        with Client(self._cluster.status()["storage"]) as other:
            query = draw_vectors(self._rng, 1)[0]
            answer = other.collection("docs").search(query, k=IDS)
            fault = self.model.fault_of(query, IDS, answer, answer.epoch)
            if fault is not None or answer.epoch < self.model.numbers[-1]:
                self.bad["other client"] += 1

    def figures(self) -> dict[str, Any]:
        faults = self.bad + self.reader.faults
        return {
            "rounds": len(self.seconds), "faults": dict(self.kinds), "commits": len(self.model.numbers) - 1,
            "answers_checked": self.reader.checked, "replica_checks": self.replica_checks,
            **{name: faults[name] for name in ("short", "wrong", "stale", "backwards", "lost", "count", "other client",
                                               "replica short", "replica wrong")},
            "searches_unavailable": self.reader.unavailable,
            "search_ms_median": 1e3 * float(np.median(self.reader.seconds)),
            "round_seconds_median": float(np.median(self.seconds)), "round_seconds_max": max(self.seconds),
            "seconds": sum(self.seconds)}  # fmt: skip


def test_the_checker_finds_a_wrong_answer(rng):
    """One row less, another row, another bit of a score, an older manifest."""
    model, query = Model(), draw_vectors(rng, 1)[0]
    vectors = draw_vectors(rng, 30)
    model.commit(3, dict(enumerate(vectors[:20])))
    model.commit(5, dict(enumerate(vectors)))
    scores = canonical.scores("dot", query, vectors)
    order = np.lexsort((np.arange(30), -scores))[:9]

    def fault(ids, scores, number=5):
        return model.fault_of(query, 9, types.SimpleNamespace(ids=ids, scores=scores), number)

    assert fault(order, scores[order]) is None
    assert fault(order[:8], scores[order[:8]]) == "short"
    assert fault(order[::-1], scores[order][::-1]) == "wrong"
    assert fault(order, np.nextafter(scores[order], np.float32(9))) == "wrong"
    if order.max() >= 20:
        assert fault(order, scores[order], 4) == "wrong"


@pytest.mark.parametrize("process", ["server_pid", "pid"])
def test_a_process_that_stands_still_is_replaced(cluster, rng, process):
    """It neither ends nor answers. Commits and searches go on with the other replica, and the checks show it."""
    docs = cluster.create_collection(process, DIM, metric="dot")
    docs.upload(draw_vectors(rng, 50), ids=np.arange(50))
    server = cluster.status()["servers"][2]
    os.kill(server[process], signal.SIGSTOP)
    begin = time.monotonic()
    docs.upload(draw_vectors(rng, 50), ids=np.arange(50, 100))
    assert docs.count().rows_count == 100
    assert len(docs.search(draw_vectors(rng, 1)[0], k=200)) == 100
    assert time.monotonic() - begin < 15, "a commit waits for a process that stands still"
    cluster.wait_ready(60)
    after = cluster.status()["servers"][2]
    assert after[process] != server[process]
    assert sum(each["rows"][process] for each in cluster.status()["servers"]) == 2 * 100
    cluster.drop_collection(process)


def test_an_actor_that_was_ended_for_good_is_created_again(cluster):
    server = cluster.status()["servers"][0]
    ray.kill(ray.get_actor("nearfield-1-0-0", "nearfield"))
    deadline = time.monotonic() + 60
    while True:
        now = cluster.status()["servers"][0]
        if now["ready"] and now["pid"] != server["pid"]:
            break
        assert time.monotonic() < deadline, now
        cluster.call("view", 10, have=cluster.call("view", 10)["have"], wait=2.0)


def test_rounds_of_faults(cluster, storage, request):
    config = request.config
    rounds, receipt = config.getoption("--ray-rounds"), config.getoption("--ray-receipt")
    seed = config.getoption("--seed")
    campaign = Campaign(cluster, storage, seed)
    campaign.reader.start()
    every = [*Faults.SHARES]
    for number in range(rounds):
        kind = every[number % len(every)] if rounds < 2 * len(every) else campaign.faults.choose()
        campaign.round(kind)
        if number % ROUNDS_BETWEEN_CHECKS == ROUNDS_BETWEEN_CHECKS - 1:
            campaign.check_replicas()
            if receipt:
                print(f"round {number + 1}: {campaign.figures()}", flush=True)
    campaign.check_replicas()
    cluster.restart()  # every server loads all rows from the storage
    campaign.check_replicas()
    campaign.reader.stop()
    figures = {**campaign.figures(), "seed": seed}
    if receipt:
        receipt.write_text(json.dumps(figures))
    assert not campaign.bad + campaign.reader.faults, figures
    assert campaign.reader.checked > rounds, "hardly a search was answered"

"""A cluster on a real Ray under faults: every answer is the oracle's at its manifest, what was
acknowledged is visible and durable, and no answer is short. scripts/ray_campaign runs many rounds."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Client, Cluster  # noqa: E402
from ray_model import DIM, Faults, Model, Reader, Writer, draw_vectors, repeat  # noqa: E402

COMMITS = 3  # of a round


@pytest.fixture
def storage(tmp_path):
    return tmp_path / "storage"


@pytest.fixture
def cluster(request, storage):
    """Two shards of two replicas."""
    ray.init(num_cpus=4, num_gpus=0, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    settings = {"memory_bytes": "32MiB", "host_memory_bytes": "16MiB", "threads": 1}
    made = Cluster(str(storage), shards=2, replicas=2, num_cpus=0.1, settings=settings,
                   program=request.config.getoption("--server"))
    yield made
    made.stop()
    ray.shutdown()


def check_replicas(cluster: Any, model: Model, rng: np.random.Generator) -> None:
    """After healing each replica alone answers as the oracle, and so does another client."""
    cluster.wait_ready(120)
    view = cluster.call("view", 10)
    with Client(cluster.status()["storage"]) as other:
        docs = other.collection("docs")
        for turn in range(2):
            for shard in view["shards"]:
                assert len(shard) == 2
                shard.append(shard.pop(0))
            only = {**view, "shards": [shard[turn : turn + 1] for shard in view["shards"]]}
            other.view = lambda *_, only=only: only  # type: ignore[method-assign,misc]
            query = draw_vectors(rng, 1)[0]
            model.check(query, 50, docs.search(query, k=50, fresh=False))
    for query in draw_vectors(rng, 3):
        model.check(query, len(model.rows) + 5, cluster.collection("docs").search(query, k=4000))
    assert cluster.collection("docs").count().rows_count == len(model.rows)


def test_rounds_of_faults(cluster, storage, request, rng):
    config = request.config
    rounds, receipt = config.getoption("--ray-rounds"), config.getoption("--ray-receipt")
    draw = random.Random(config.getoption("--seed"))
    cluster.create_collection("docs", DIM, metric="dot")
    model, faults = Model(), Faults(cluster, storage, draw)
    writer = Writer(cluster, model, rng)
    kinds: Counter[str] = Counter()
    answers = unavailable = 0
    waits: list[float] = []
    begin = time.monotonic()
    order = [*Faults.KINDS] if rounds < 2 * len(Faults.KINDS) else []
    for number in range(rounds):
        kind = order[number % len(order)] if order else draw.choice(Faults.KINDS)
        reader = Reader(cluster, model, int(rng.integers(2**32)))
        reader.start()
        started = time.monotonic()

        def commits() -> None:
            for _ in range(COMMITS):
                writer.commit()

        faults.cause(kind, commits)
        waits.append(time.monotonic() - started)
        repeat(lambda: cluster.collection("docs").count())
        answers += reader.finish()
        unavailable += reader.unavailable
        kinds[kind] += 1
        if receipt and number % 10 == 9:
            print(f"round {number + 1}: {answers} answers, {unavailable} unavailable, "
                  f"manifest {model.numbers[-1]}", flush=True)  # fmt: skip
    check_replicas(cluster, model, rng)
    assert answers > rounds, "hardly a search was answered"
    if receipt:
        figures = {
            "rounds": rounds, "faults": dict(kinds), "commits": len(model.numbers) - 1, "answers_checked": answers,
            "wrong": 0, "lost": 0, "short": 0, "searches_unavailable": unavailable,
            "commits_seconds_median": float(np.median(waits)), "commits_seconds_max": max(waits),
            "seconds": time.monotonic() - begin, "seed": config.getoption("--seed")}  # fmt: skip
        receipt.write_text(json.dumps(figures))

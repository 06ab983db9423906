"""Two clusters of nearfield.ray on one storage, as after a network was cut: each sees the commits of the other, every
answer is that of its manifest, and every fresh one has what either has acknowledged."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Client, Cluster  # noqa: E402
from ray_model import DIM, FIRST, RAY, SECOND, SETTINGS, TRY_SECONDS_MAX, Model, Reader, Together, Writer, repeat  # noqa: E402

COMMITS = 40


@pytest.fixture
def rivals(request, tmp_path) -> Any:
    ray.init(num_cpus=4, **RAY)
    options = {"num_cpus": 0.1, "program": request.config.getoption("--server"), "settings": SETTINGS}
    made = [Cluster(str(tmp_path / "storage"), shards=2, name=name, **options) for name in ("first", "second")]
    yield made
    for each in made:
        each.stop()
    ray.shutdown()


def test_two_clusters_on_one_storage(rivals, rng):
    first, second = rivals
    first.create_collection("docs", DIM, metric="dot")
    parts = [Model(), Model()]
    both = Together(*parts)
    writers = [
        Writer(cluster, model, np.random.default_rng(rng.integers(2**32)), ids=ids)
        for cluster, model, ids in zip(rivals, parts, (FIRST, SECOND), strict=True)
    ]
    readers = [Reader(cluster, both, seed, own=model) for seed, (cluster, model) in enumerate(zip(rivals, parts, strict=True))]
    for reader in readers:
        reader.start()
    for number in range(COMMITS):
        writers[number % 2].commit(alone=False)
        if number == COMMITS // 2:
            os.kill(repeat(first.status)["pid"], signal.SIGKILL)  # its coordinator
            with Client(first.status()["storage"]) as client:
                assert repeat(client.list_collections) == ["docs"]
    first.resize(1)  # the other one follows
    for writer in writers:
        writer.commit(alone=False)
    assert second.status()["shards"] == 1
    deadline = time.monotonic() + TRY_SECONDS_MAX
    while len(second.status()["servers"]) > 1:  # those of the other number of shards end soon
        assert time.monotonic() < deadline, second.status()
        second.call("view", 10, have=second.call("view", 10)["have"], wait=1.0)
    for reader in readers:
        assert reader.finish() > COMMITS // 2
    first.stop()  # it does not end the other one
    writers[1].commit(alone=False)
    assert second.collection("docs").count(fresh=True).rows_count == len(both.rows)

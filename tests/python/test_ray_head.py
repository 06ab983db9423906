"""The loss of the head of Ray, whose state is in Redis: the servers and searches go on, and commits once it is back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Cluster  # noqa: E402
from ray.cluster_utils import Cluster as Nodes  # noqa: E402
from ray_model import DIM, SETTINGS, Model, Reader, Writer, faults_of_replicas, free_range  # noqa: E402

PASSWORD = "secret"
MEMORY = 100 << 20


@pytest.fixture
def redis(tmp_path, monkeypatch) -> Iterator[str]:
    """The address of a Redis, which Ray uses."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server: scripts/setup --test installs it")
    (port,) = free_range(1)
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--requirepass", PASSWORD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        threading.Thread(target=process.stdout.read, daemon=True).start()
        monkeypatch.setenv("RAY_REDIS_ADDRESS", f"127.0.0.1:{port}")
        yield f"127.0.0.1:{port}"
        process.kill()


@pytest.fixture
def nodes(redis) -> Iterator[Any]:
    """A head without cores and a node."""
    made = Nodes(initialize_head=True, head_node_args={
        "num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False, "redis_password": PASSWORD})  # fmt: skip
    made.add_node(num_cpus=4, object_store_memory=MEMORY)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def test_the_head_is_lost(nodes, request, rng, tmp_path):
    """It ended all actors, and no search was answered until a person started the cluster again."""
    cluster = Cluster(str(tmp_path / "storage"), shards=1, replicas=2, num_cpus=0.5, settings=SETTINGS, program=request.config.getoption("--server"))
    try:
        cluster.create_collection("docs", DIM, metric="dot")
        model = Model()
        writer, reader = Writer(cluster, model, rng), Reader(cluster, model, 1)
        writer.commit()
        reader.start()
        cluster.restart(settings={"k_max": 600})  # which Redis keeps, too
        before = cluster.status()
        nodes.head_node.kill_gcs_server()
        writer.commit()  # needs the actors, and no head
        taken = len(reader.answers)
        while len(reader.answers) < taken + 100:
            writer.commit()
        nodes.head_node.start_gcs_server()
        assert reader.finish() > taken and not reader.unavailable
        os.kill(before["servers"][0]["pid"], signal.SIGKILL)  # only the head starts an actor
        os.kill(before["pid"], signal.SIGKILL)
        cluster.wait_ready(60)
        writer.commit()
        after = cluster.status()
        assert after["settings"] == before["settings"]
        assert after["pid"] != before["pid"] and after["servers"][0]["pid"] != before["servers"][0]["pid"]
        assert [each["server_pid"] for each in after["servers"]][1:] == [each["server_pid"] for each in before["servers"]][1:]
        assert not faults_of_replicas(cluster, model, rng)
    finally:
        cluster.stop()

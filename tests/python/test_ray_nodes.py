"""A cluster over several nodes of Ray: the replicas of a shard are on different ones, and when one node is lost, its
servers are loaded again elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Cluster, _fleet  # noqa: E402
from ray.cluster_utils import Cluster as Nodes  # noqa: E402
from ray_fakes import FakeSlot  # noqa: E402
from ray_model import DIM, SETTINGS, Model, Reader, Writer, faults_of_replicas  # noqa: E402

# A node is lost after 1 s instead of 15 s without an answer.
MEMORY = 100 << 20
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}


@pytest.fixture
def nodes() -> Iterator[Any]:
    """A head for the coordinator and the driver, and two nodes with four cores each."""
    made = Nodes(initialize_head=True, head_node_args={
        "num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False, "_system_config": QUICK})  # fmt: skip
    for _ in range(2):
        made.add_node(num_cpus=4, object_store_memory=MEMORY)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def nodes_of_shards(cluster: Cluster) -> list[set[str]]:
    found: list[set[str]] = [set() for _ in range(cluster.status()["shards"])]
    for server in cluster.status()["servers"]:
        found[server["shard"]].add(server.get("node", ""))
    return found


def test_a_lost_node_is_replaced(nodes, request, rng, tmp_path):
    """Both replicas of a shard were on one node, although there were two. They are on two after the start, after a resize,
    and after the loss of a node, during which reads and commits go on."""
    options = {"settings": SETTINGS, "program": request.config.getoption("--server"), "hang_timeout": 2}
    cluster = Cluster(str(tmp_path / "storage"), shards=2, replicas=2, num_cpus=1, **options)
    try:
        first, second = nodes.worker_nodes
        names = {first.node_id, second.node_id}
        assert nodes_of_shards(cluster) == [names] * 2
        cluster.create_collection("docs", DIM, metric="dot")
        model = Model()
        writer, reader = Writer(cluster, model, rng), Reader(cluster, model, 1)
        writer.commit()
        reader.start()
        cluster.resize(1)
        assert nodes_of_shards(cluster) == [names]
        third = nodes.add_node(num_cpus=4, object_store_memory=MEMORY)
        nodes.remove_node(first, allow_graceful=False)
        for _ in range(3):
            writer.commit()  # with the other replica
        while first.node_id in nodes_of_shards(cluster)[0]:  # the loss has not been noticed yet
            cluster.call("view", 10, have=cluster.call("view", 10)["have"], wait=1.0)
        cluster.wait_ready(120)
        assert nodes_of_shards(cluster) == [{second.node_id, third.node_id}]
        assert reader.finish() > 5
        assert not faults_of_replicas(cluster, model, rng)
    finally:
        cluster.stop()


@pytest.mark.parametrize("cores, expected", [
    ([1], "aaaa"), ([9], "aaaa"), ([2, 2], "abab"), ([9, 9], "abab"), ([3, 1], "abaa"), ([1, 1, 1, 1], "abcd"), ([0, 4], "bbbb"), ([2, 1, 1], "abac"),
])  # fmt: skip
def test_the_node_of_each_replica(coordinator, monkeypatch, cores, expected):
    """Two shards, one after the other. The choice: a node with room, then one without the shard, then one with the most room."""
    nodes = [{"NodeID": name, "Resources": {"CPU": float(count)}} for name, count in zip("abcd", cores, strict=False)]
    monkeypatch.setattr(_fleet, "live_nodes", lambda: nodes)
    monkeypatch.setattr(FakeSlot, "locate", lambda _: None)
    coordinator._slots = [FakeSlot(coordinator._settings, 1, 1, shard, 2, replica) for shard in (0, 1) for replica in (0, 1)]
    assert "".join(coordinator.choose_node(slot) for slot in coordinator._slots) == expected
    for slot in coordinator._slots:  # each again, as after its end: the others stay where they are
        before = slot.node
        assert coordinator.choose_node(slot) == before or expected == "abaa"

"""A cluster over several nodes of Ray: the replicas of a shard are on different ones, and when one node is lost, its
servers are loaded again elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Cluster, _fleet  # noqa: E402
from ray.cluster_utils import Cluster as Nodes  # noqa: E402
from ray_fakes import FakeSlot  # noqa: E402
from ray_model import DIM, SETTINGS, Model, Reader, Writer, faults_of_replicas  # noqa: E402

# A node is lost after 1 s instead of 15 s without an answer.
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}


@pytest.fixture
def start_nodes():
    """Starts a head for the coordinator and the driver, and nodes with as many cores each."""
    made = Nodes(initialize_head=True, head_node_args={
        "num_cpus": 0, "object_store_memory": 100 << 20, "include_dashboard": False, "_system_config": QUICK})

    def start(*cores: int) -> tuple[Any, list[Any]]:
        workers = [made.add_node(num_cpus=count, object_store_memory=100 << 20) for count in cores]
        ray.init(address=made.address, log_to_driver=False)
        return made, workers

    yield start
    ray.shutdown()
    made.shutdown()


def start_cluster(request: Any, storage: Any, **options: Any) -> Cluster:
    return Cluster(str(storage), num_cpus=1, settings=SETTINGS, program=request.config.getoption("--server"), hang_timeout=2, **options)


def nodes_of_shards(cluster: Cluster) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for server in cluster.call("status", 10)["servers"]:
        found.setdefault(server["shard"], []).append(server.get("node", ""))
    return found


def test_a_lost_node_is_replaced(start_nodes, request, rng, tmp_path):
    made, workers = start_nodes(1, 1)
    cluster = start_cluster(request, tmp_path / "storage", shards=1, replicas=2)
    try:
        cluster.create_collection("docs", DIM, metric="dot")
        model = Model()
        writer, reader = Writer(cluster, model, rng), Reader(cluster, model, 1)
        for _ in range(5):
            writer.commit()
        places = {server["node"] for server in cluster.status()["servers"]}
        assert len(places) == 2
        reader.start()
        (lost,) = [worker for worker in workers if worker.node_id == min(places)]
        made.remove_node(lost, allow_graceful=False)
        for _ in range(3):
            writer.commit()  # with the other replica
        made.add_node(num_cpus=1, object_store_memory=100 << 20)
        cluster.wait_ready(120)
        assert reader.finish() > 5
        after = {server["node"] for server in cluster.call("status", 10)["servers"]}
        assert len(after) == 2 and min(places) not in after
        assert not faults_of_replicas(cluster, model, rng)
    finally:
        cluster.stop()


def test_the_replicas_of_a_shard_are_never_on_one_node(start_nodes, request, tmp_path):
    """Both replicas of a shard were on one node, although there were two. Neither at the start nor after the loss of a
    node, nor after a resize, as long as there is another node with room."""
    made, workers = start_nodes(4, 4)
    cluster = start_cluster(request, tmp_path / "storage", shards=3, replicas=2)
    try:
        names = {worker.node_id for worker in workers}
        assert all(set(nodes) == names for nodes in nodes_of_shards(cluster).values())
        cluster.resize(1)
        assert [set(nodes) for nodes in nodes_of_shards(cluster).values()] == [names]
        third = made.add_node(num_cpus=4, object_store_memory=100 << 20)
        made.remove_node(workers[0], allow_graceful=False)
        while workers[0].node_id in nodes_of_shards(cluster)[0]:  # the loss has not been noticed yet
            cluster.call("view", 10, have=cluster.call("view", 10)["have"], wait=1.0)
        cluster.wait_ready(120)
        assert [set(nodes) for nodes in nodes_of_shards(cluster).values()] == [{workers[1].node_id, third.node_id}]
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

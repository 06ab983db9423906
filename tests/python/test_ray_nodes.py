"""A cluster over several nodes of Ray, of which one is lost: its server is loaded again elsewhere."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Cluster  # noqa: E402
from ray.cluster_utils import Cluster as Nodes  # noqa: E402
from ray_model import DIM, SETTINGS, Model, Reader, Writer, faults_of_replicas  # noqa: E402

# A node is lost after 1 s instead of 15 s without an answer.
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}


@pytest.fixture
def nodes():
    """A head for the coordinator and the driver, and two nodes, each with cores for one server."""
    made = Nodes(initialize_head=True, head_node_args={
        "num_cpus": 0, "object_store_memory": 100 << 20, "include_dashboard": False, "_system_config": QUICK})
    workers = [made.add_node(num_cpus=1, object_store_memory=100 << 20) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False)
    yield made, workers
    ray.shutdown()
    made.shutdown()


def test_a_lost_node_is_replaced(nodes, request, rng, tmp_path):
    made, workers = nodes
    cluster = Cluster(str(tmp_path / "storage"), shards=1, replicas=2, num_cpus=1, settings=SETTINGS,
                      program=request.config.getoption("--server"), hang_timeout=2)
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

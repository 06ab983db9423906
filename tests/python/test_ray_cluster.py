"""nearfield.ray.Cluster on a real Ray: every answer is that of one engine with all rows."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import attributes as attribute_model
import nearfield
import numpy as np
import pytest
from nearfield import F

pa = pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Client, Cluster  # noqa: E402
from nearfield.ray.__main__ import parse  # noqa: E402
from nearfield.ray._manifest import Manifest, ManifestLog  # noqa: E402
from nearfield.ray._segment import encode_segment, read_segment  # noqa: E402
from nearfield.ray._shards import partition_range, partitions_of  # noqa: E402
from nearfield.ray._store import Store  # noqa: E402
from ray_model import DIM, PAUSE_SECONDS, Model, Reader, Writer, draw_vectors  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
DECLARED: dict[str, Any] = {"year": int, "price": float, "good": bool, "language": str, "made": dt.datetime, "tags": [str]}


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    """Two shards of one replica."""
    ray.init(num_cpus=4, num_gpus=0, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    made = start_cluster(request.config, tmp_path_factory.mktemp("cluster") / "storage", shards=2)
    yield made
    made.stop()
    ray.shutdown()


def start_cluster(config: Any, storage: Path, **options: Any) -> Cluster:
    settings = {"memory_bytes": "64MiB", "host_memory_bytes": "32MiB", "threads": 1}
    return Cluster(str(storage), num_cpus=0.1, program=config.getoption("--server"), settings=settings, **options)


@pytest.fixture
def engine():
    with nearfield.open(None, backend="cpu", memory_bytes="64MiB", host_memory_bytes="64MiB") as client:
        yield client


def draw_rows(draw: Any, count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [attribute_model.draw_row(draw) for _ in range(count)]
    for row in rows:
        if "made" in row:
            row["made"] = EPOCH + dt.timedelta(microseconds=row["made"])
    return rows


def same(found: Any, wanted: Any) -> None:
    """Demands equal hits, to the bit, with all that they carry."""
    for one, other in zip(found.queries, wanted.queries, strict=True):
        assert list(one.ids) == list(other.ids)
        assert one.scores.tobytes() == other.scores.tobytes()
        assert one.payloads == other.payloads and one.matched_rows == other.matched_rows
        assert repr(one.attributes) == repr(other.attributes)
        assert (one.vectors is None) == (other.vectors is None)
        if one.vectors is not None:
            assert one.vectors.tobytes() == other.vectors.tobytes()
        assert one.to_arrow().equals(other.to_arrow())


def test_a_segment_has_the_rows_of_every_range(rng):
    ids = rng.integers(0, 2**63, 9_000, dtype=np.uint64)
    table = pa.table({"id": pa.array(ids), "place": pa.array(np.arange(9_000))})
    file = pa.BufferReader(encode_segment(table))
    for shards in (1, 2, 3, 7, 4096):
        found = []
        for shard in sorted({0, shards // 2, shards - 1} if shards > 7 else range(shards)):
            begin, end = partition_range(shard, shards)
            part = read_segment(file, begin, end)
            partitions = partitions_of(part.column("id").to_numpy())
            assert ((partitions >= begin) & (partitions < end)).all()
            found += part.column("place").to_pylist()
        if shards <= 7:
            assert sorted(found) == list(range(9_000))


def test_a_coordinator_that_was_replaced_commits_nothing(tmp_path):
    """The writes of the old one may arrive at any time: before the next claim they count, after it
    they are never acknowledged, and the next commit hides them."""
    store = Store(str(tmp_path))
    old = ManifestLog(store, "old")
    old.append(Manifest(term=old.term, number=1))
    new = ManifestLog(store, "new")
    assert new.term == old.term + 1 and new.newest().number == 1
    with pytest.raises(nearfield.Aborted, match="term 2"):
        old.append(Manifest(term=old.term, number=2))
    new.append(Manifest(term=new.term, number=2, shards=7))
    with pytest.raises(nearfield.Aborted):
        old.append(Manifest(term=old.term, number=3))
    assert (new.newest().shards, new.newest().number) == (7, 2)
    for number in range(3, 30):
        new.append(Manifest(term=new.term, number=number))
        new.forget_old()
    assert new.newest().number == 29 and len(store.list("manifests")) == 8
    (tmp_path / "terms").rename(tmp_path / "elsewhere")  # as a share that is no longer mounted
    with pytest.raises(OSError, match="claim"):
        new.append(Manifest(term=new.term, number=30))


@pytest.mark.parametrize("id_type", ["uint64", "string"])
def test_a_cluster_answers_as_one_engine(cluster, engine, rng, draw, id_type):
    count, name = 600, f"same-{id_type}"
    numbers = rng.permutation(5_000)[:count]
    ids = [f"ü{n}" for n in numbers] if id_type == "string" else numbers.astype(np.uint64)
    vectors, rows = draw_vectors(rng, count), draw_rows(draw, count)
    pair = [
        client.create_collection(name, DIM, metric="dot", id_type=id_type, attributes=DECLARED)
        for client in (cluster, engine)
    ]
    for docs in pair:
        done = docs.upload(
            vectors, ids=ids, payloads=[f"p{i}".encode() if i % 3 else None for i in range(count)],
            attributes={each: [row.get(each) for row in rows] for each in DECLARED})
        assert done.rows_count == count
    queries = draw_vectors(rng, 5)
    options: list[dict[str, Any]] = [
        {"k": 1}, {"k": count + 9, "payload": True, "vectors": True, "attributes": "*"},
        {"k": 40, "filter": F.year >= 2020, "attributes": ["tags", "year"]},
        {"k": 40, "filter": 'language == "de"', "payload": True}, {"k": 40, "score_threshold": 1.5},
        {"k": 9, "filter": F.year == 1}]
    for each in options:
        same(*(docs.search(queries, **each) for docs in pair))
    digests = {docs.search(queries, k=20, with_digest=True).digest for docs in pair}
    assert len(digests) == 1
    assert pair[0].count(F.good == True).rows_count == pair[1].count(F.good == True).rows_count  # noqa: E712
    wanted = [*list(ids)[5:40], "none" if id_type == "string" else 2**64 - 1]
    one, other = (docs.fetch(wanted, attributes="*") for docs in pair)
    assert list(one.ids) == list(other.ids) and list(one.missing) == list(other.missing) == wanted[-1:]
    assert one.vectors.tobytes() == other.vectors.tobytes() and one.payloads == other.payloads
    assert repr(one.attributes) == repr(other.attributes)
    gone = [docs.delete(filter="year < 2020").rows_deleted for docs in pair]
    assert gone[0] == gone[1] > 0
    assert [docs.delete(list(ids)[:20]).rows_deleted for docs in pair][0] > 0
    same(*(docs.search(queries, k=count, payload=True) for docs in pair))
    cluster.drop_collection(name)
    with pytest.raises(nearfield.NotFound):
        pair[0].search(queries)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_rows_and_replaced_rows(cluster, engine, rng, dtype):
    pair = [client.create_collection(dtype, DIM, metric="l2", dtype=dtype) for client in (cluster, engine)]
    for mode in ("insert", "upsert", "replace"):
        vectors, ids = rng.standard_normal((90, DIM), dtype=np.float32), rng.permutation(200)[:90]
        for docs in pair:
            docs.upload(vectors, ids=ids + (1000 if mode == "insert" else 0), mode=mode)
        same(*(docs.search(vectors[:4], k=300, vectors=True) for docs in pair))
    cluster.drop_collection(dtype)


def test_a_refused_upload_changes_nothing(cluster, rng):
    docs = cluster.create_collection("refused", DIM, metric="dot")
    vectors = draw_vectors(rng, 50)
    first = docs.upload(vectors, ids=np.arange(50))
    with pytest.raises(nearfield.AlreadyExists, match="id 49 is already"):
        docs.upload(vectors, ids=np.arange(49, 99))
    with pytest.raises(nearfield.AlreadyExists, match="id 100 is twice"):
        docs.upload(vectors, ids=[100] * 50)
    with pytest.raises(nearfield.InvalidArgument, match="not finite"):
        docs.upload(np.full((1, DIM), np.inf, np.float32), ids=[7000], mode="upsert")
    with pytest.raises(ValueError, match="needs"):
        docs.upload(vectors[:, 1:], ids=np.arange(100, 150))
    with pytest.raises(nearfield.InvalidArgument):
        docs.delete(filter="nothing ==")
    with pytest.raises(nearfield.InvalidArgument):
        docs.search(vectors[0], k=10**6)
    with pytest.raises(nearfield.ResourceExhausted):
        docs.upload(draw_vectors(rng, 1500), ids=np.arange(10**6, 10**6 + 1500), payloads=[b"x" * 60_000] * 1500)
    found = docs.search(vectors[0], k=100)
    assert (found.epoch, len(found)) == (first.epoch, 50)
    with pytest.raises(nearfield.AlreadyExists):
        cluster.create_collection("refused", DIM, metric="dot")
    with pytest.raises(nearfield.AlreadyExists, match="another declaration"):
        cluster.create_collection("refused", DIM, metric="l2", if_missing=True)
    assert cluster.create_collection("refused", DIM, metric="dot", if_missing=True).count().rows_count == 50
    once = docs.upload(vectors, ids=np.arange(100, 150), token="monday")
    again = docs.upload(vectors, ids=np.arange(100, 150), token="monday")
    assert again.epoch == once.epoch and docs.count().rows_count == 100
    cluster.drop_collection("refused")


def test_operations_while_searches_go_on(cluster, rng):
    """Resizes, restarts and compactions never show in an answer."""
    cluster.create_collection("docs", DIM, metric="dot")
    model = Model()
    writer, reader = Writer(cluster, model, rng), Reader(cluster, model, 1)
    for _ in range(4):
        writer.commit()
    reader.start()
    done = threading.Event()

    def write() -> None:
        while not done.wait(PAUSE_SECONDS):
            writer.commit()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        cluster.resize(1)
        cluster.compact("docs")
        assert cluster.restart() == 1
        cluster.resize(2)
    finally:
        done.set()
        writing.join()
    assert reader.finish() > 10 and reader.unavailable == 0
    status = cluster.status()
    assert (status["shards"], len(status["servers"])) == (2, 2)
    assert status["collections"]["docs"]["rows"] == len(model.rows)
    with pytest.raises(nearfield.Unavailable, match="not ready after"):
        cluster.resize(4, timeout=0.1)  # too short: the present shards stay
    assert cluster.status()["shards"] == 2
    last = cluster.collection("docs").search(draw_vectors(rng, 1)[0], k=5)
    assert last.epoch >= model.numbers[-1]


def test_the_storage_alone_restores_a_cluster(cluster, request, rng, tmp_path):
    storage = tmp_path / "storage"
    model = Model()
    first = start_cluster(request.config, storage, shards=1, name="first")
    first.create_collection("docs", DIM, metric="dot")
    writer = Writer(first, model, rng)
    for _ in range(6):
        writer.commit()
    first.stop()
    second = start_cluster(request.config, storage, shards=3, replicas=1, name="second")
    try:
        with Client(str(storage)) as other:  # the number of shards is that of the storage
            assert other.status()["shards"] == 1 and other.list_collections() == ["docs"]
            for query in draw_vectors(rng, 8):
                model.check(query, 20, other.collection("docs").search(query, k=20))
    finally:
        second.stop()


def test_the_command(cluster, tmp_path, request):
    storage = cluster.status()["storage"]
    command = [sys.executable, "-m", "nearfield.ray", "--storage", storage]
    status = json.loads(subprocess.run([*command, "status"], check=True, capture_output=True, text=True).stdout)
    assert status["shards"] == 2 and all(server["ready"] for server in status["servers"])
    failed = subprocess.run([*command, "compact", "none"], capture_output=True, text=True)
    assert failed.returncode == 1 and "NOT_FOUND: collection: there is no 'none'" in failed.stderr


def test_the_manifest_of_kuberay_starts_a_cluster():
    """Valid as YAML, and its command is one that the command takes."""
    yaml = pytest.importorskip("yaml")
    ray_cluster, job, _ = yaml.safe_load_all((ROOT / "deploy/ray/kuberay.yaml").read_text("utf-8"))
    assert ray_cluster["kind"] == "RayCluster" and ray_cluster["spec"]["rayVersion"] == ray.__version__
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command = container["command"]
    chosen = parse(command[command.index("nearfield.ray") + 1 :])
    workers = ray_cluster["spec"]["workerGroupSpecs"][0]["replicas"]
    assert chosen.command == "start" and chosen.shards * chosen.replicas * chosen.num_gpus == workers


def test_the_readme_starts_a_cluster(cluster, rng, monkeypatch, tmp_path):
    text = (ROOT / "client/python/README.md").read_text("utf-8")
    (block,) = re.findall(r"^```python cluster\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.setattr("nearfield.ray.Cluster", lambda *_, **__: cluster)
    names: dict[str, Any] = {"vectors": draw_vectors(rng, 40), "ids": np.arange(40)}
    exec(block, names)
    assert len(names["answer"].ids) == 5

"""nearfield.ray.Cluster on a real Ray: every answer is that of one engine with all rows."""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attributes as attribute_model
import nearfield
import numpy as np
import pytest
from nearfield import F
from readme import block

pa = pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Client, Cluster  # noqa: E402
from nearfield.ray._segment import put_tables  # noqa: E402
from ray_model import DIM, PAUSE_SECONDS, SETTINGS, Model, Reader, Writer, draw_vectors  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
DECLARED: dict[str, Any] = {"year": int, "price": float, "good": bool, "language": str, "made": dt.datetime, "tags": [str]}


@pytest.fixture(scope="module")
def cluster(request, local_ray, tmp_path_factory):
    """Two shards of one replica."""
    made = start_cluster(request.config, tmp_path_factory.mktemp("cluster") / "storage", shards=2)
    yield made
    made.stop()


def start_cluster(config: Any, storage: Path, **options: Any) -> Cluster:
    options = {"num_cpus": 0.1, "program": config.getoption("--server"), "settings": SETTINGS, **options}
    return Cluster(str(storage), **options)


def server_pids(cluster: Any) -> list[int]:
    return [each["server_pid"] for each in cluster.status()["servers"]]


@pytest.fixture
def engine():
    with nearfield.open(None, backend="cpu", memory_bytes="64MiB", host_memory_bytes="64MiB") as client:
        yield client


def cluster_storage(cluster: Any) -> Path:
    return Path(cluster.status()["storage"].removeprefix("file://"))


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
        assert (one.parts is None) == (other.parts is None)
        if one.parts is not None:
            assert one.parts.scores.tobytes() == other.parts.scores.tobytes()
            assert one.parts.terms.tobytes() == other.parts.terms.tobytes()
        if one.vectors is not None:
            assert one.vectors.tobytes() == other.vectors.tobytes()
        assert one.to_arrow().equals(other.to_arrow())


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
        {"k": 9, "filter": F.year == 1},
        {"k": 40, "parts": True, "score_weight": 0.5, "terms": [
            nearfield.HalfLife("made", half_life=dt.timedelta(days=30), origin=EPOCH, weight=3),
            nearfield.Linear("price", weight=0.25, missing=1), nearfield.Is('language == "de"')]}]
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
    values = {"attributes": {"year": 2031, "tags": ["new"], "made": EPOCH, "price": None}, "payloads": b"\xff"}
    changed = [docs.update(filter="year >= 2022", **values).rows for docs in pair]
    assert changed[0] == changed[1] == pair[0].count("year == 2031").rows_count > 0
    gone = [docs.delete(filter="year < 2020").rows_deleted for docs in pair]
    assert gone[0] == gone[1] > 0
    assert [docs.delete(list(ids)[:20]).rows_deleted for docs in pair][0] > 0
    same(*(docs.search(queries, k=count, payload=True, attributes="*") for docs in pair))
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
    """And restarts nothing: each server is the process that it was."""
    pids = server_pids(cluster)
    docs = cluster.create_collection("refused", DIM, metric="dot", embedding_model="m")
    vectors = draw_vectors(rng, 50)
    first = docs.upload(vectors, ids=np.arange(50))
    with pytest.raises(nearfield.AlreadyExists, match="id 49 is already"):
        docs.upload(vectors, ids=np.arange(49, 99))
    with pytest.raises(nearfield.AlreadyExists, match="id 100 is twice"):
        docs.upload(vectors, ids=[100] * 50)
    with pytest.raises(nearfield.InvalidArgument, match="not finite"):
        docs.upload(np.full((1, DIM), np.inf, np.float32), ids=[7000], mode="upsert")
    flat = pa.array(np.full(DIM, np.nan, np.float32))
    table = pa.table({"id": pa.array([7], pa.uint64()), "vector": pa.FixedSizeListArray.from_arrays(flat, DIM),
                      "payload": pa.array([b""], pa.binary())})  # fmt: skip
    with pytest.raises(nearfield.InvalidArgument):  # which only the server finds
        cluster.commit("refused", {"kind": "upsert", "segments": put_tables(cluster._store.put, [table])}, None, cluster.deadline(None))
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
    for other in ({"metric": "l2", "embedding_model": "m"}, {"metric": "dot", "embedding_model": "n"}, {"metric": "dot"}):
        with pytest.raises(nearfield.AlreadyExists, match="another declaration"):
            cluster.create_collection("refused", DIM, if_missing=True, **other)
    assert cluster.create_collection("refused", DIM, metric="dot", embedding_model="m", if_missing=True).count().rows_count == 50
    once = docs.upload(vectors, ids=np.arange(100, 150), token="once")
    again = docs.upload(vectors, ids=np.arange(100, 150), token="once")
    assert again.epoch == once.epoch and docs.count().rows_count == 100
    for shards in (0, 4097):
        with pytest.raises(nearfield.InvalidArgument, match="4096"):
            cluster.resize(shards)
    assert server_pids(cluster) == pids and all(each["ready"] for each in cluster.status()["servers"])
    cluster.drop_collection("refused")


def test_a_repeated_create_or_drop_happens_once(cluster, rng):
    """A call whose answer was lost is repeated with its token, even after others changed the collection."""
    cluster.create_collection("again", DIM, metric="dot", token="create")
    cluster.create_collection("again", DIM, metric="dot", token="create")
    cluster.collection("again").upload(draw_vectors(rng, 5), ids=np.arange(5))
    assert cluster.drop_collection("again", token="drop") == 5
    assert cluster.drop_collection("again", token="drop") == 5
    cluster.create_collection("again", DIM, metric="dot")
    assert cluster.drop_collection("again", token="drop") == 5
    assert cluster.collection("again").count().rows_count == 0
    assert cluster.drop_collection("again") == 0
    with pytest.raises(nearfield.NotFound):
        cluster.drop_collection("again")


def test_an_upload_of_several_segments(cluster, rng, monkeypatch):
    """They stream to the servers one by one; compact gathers the pages again into one object per shard."""
    monkeypatch.setattr("nearfield.ray._segment._BYTES_MAX", 1)
    docs = cluster.create_collection("several", DIM, metric="dot")
    vectors = draw_vectors(rng, 20_000)
    done = docs.upload(vectors, ids=np.arange(20_000))
    assert done.rows_count == docs.count().rows_count == 20_000
    done = docs.upload(vectors[:9_000], ids=np.arange(12_000, 21_000), mode="upsert")
    assert (done.rows_count, done.rows_replaced, docs.count().rows_count) == (9_000, 8_000, 21_000)
    with pytest.raises(nearfield.AlreadyExists, match="twice"):
        docs.upload(np.concatenate([vectors, vectors[:1]]), ids=[*range(30_000, 50_000), 30_000])
    assert docs.delete(np.arange(0, 20_000, 2)).rows_deleted == 10_000
    before = len(cluster._store.list("segments"))
    query = draw_vectors(rng, 1)[0]
    wanted = docs.search(query, k=50, vectors=True)
    assert cluster.compact("several") == 2
    assert len(cluster._store.list("segments")) == before - 6 + 2
    cluster.restart()
    same(docs.search(query, k=50, vectors=True), wanted)
    cluster.drop_collection("several")


def test_searches_at_a_manifest_keep_its_epochs(cluster, rng):
    """While all rows are replaced again and again, a client with an older view still gets its answer."""
    docs = cluster.create_collection("kept", DIM, metric="dot")
    vectors = draw_vectors(rng, 500)
    docs.upload(vectors, ids=np.arange(500))
    with Client(cluster.status()["storage"]) as other:
        wanted = other.collection("kept").search(vectors[0], k=9)
        other._look = lambda *_: None  # type: ignore[assignment,method-assign]
        for _ in range(5):
            docs.upload(draw_vectors(rng, 500), ids=np.arange(500), mode="replace")
            found = other.collection("kept").search(vectors[0], k=9, fresh=False)
            assert found.epoch == wanted.epoch
            same(found, wanted)
    cluster.drop_collection("kept")


def test_attributes_named_like_parts_of_a_row_come_back(cluster):
    attributes = {"id": "int64", "vector": "double[]", "payload": "keyword", "score": "double"}
    columns = {"id": [7, 8], "vector": [[1.5], [2.5, 3]], "payload": ["x", None], "score": [0.5, 1]}
    docs = cluster.create_collection("reserved", 2, metric="dot", attributes=attributes)
    docs.upload([[1, 0], [0, 1]], ids=[5, 6], payloads=[b"one", b"two"], attributes=columns)
    docs.delete(ids=[99])
    cluster.compact("reserved")
    before = server_pids(cluster)
    cluster.restart()  # they load what the compaction has written
    assert not set(before) & set(server_pids(cluster))
    docs.delete(ids=[99])
    assert cluster.compact("reserved") == 1
    found = docs.fetch([5, 6], attributes="*")
    assert found.attributes == columns and found.payloads == [b"one", b"two"]
    cluster.drop_collection("reserved")


def test_attributes_that_do_not_fit_are_refused_before_the_manifest(cluster, rng):
    """The servers take their memory with the last block, which staging waits for."""
    pids = server_pids(cluster)
    docs = cluster.create_collection("attributes", DIM, metric="dot", attributes={"name": str})
    docs.upload(draw_vectors(rng, 10), ids=np.arange(10), attributes={"name": ["short"] * 10})
    before = docs.search(np.ones(DIM, np.float32), k=100)
    names = [f"{n:06}" * 60 for n in range(60_000)]
    with pytest.raises(nearfield.ResourceExhausted, match="attribute"):
        docs.upload(draw_vectors(rng, 60_000), ids=np.arange(100, 60_100), attributes={"name": names}, token="big")
    after = docs.search(np.ones(DIM, np.float32), k=100)
    same(after, before)
    assert after.epoch == before.epoch and cluster.status()["collections"]["attributes"]["operations"] == 1
    assert docs.upload(draw_vectors(rng, 10), ids=np.arange(100, 110), token="big").rows_count == 10
    assert server_pids(cluster) == pids
    cluster.drop_collection("attributes")


def test_rows_of_zeros_are_refused_where_they_have_no_cosine(cluster):
    docs = cluster.create_collection("zeros", 2, metric="cosine")
    rows = np.array([[1, 0], [0, -0.0], [0, 1]], np.float32)
    with pytest.raises(nearfield.InvalidArgument, match=r"vectors\[1\] \(id 8\).*no cosine.*zero_rows"):
        docs.upload(rows, ids=[7, 8, 9])
    assert docs.count().rows_count == 0
    docs.upload(rows, ids=[7, 8, 9], zero_rows="accept")
    assert [hit.id for hit in docs.search([1, 0]).hits] == [7, 9, 8]
    with pytest.raises(ValueError, match="zero_rows: 'keep'"):
        docs.upload(rows, ids=[7, 8, 9], zero_rows="keep")


def test_a_setting_of_the_cluster_itself_is_refused(cluster, tmp_path, request):
    with pytest.raises(ValueError, match="settings: data_dir"):
        start_cluster(request.config, tmp_path / "storage", settings={"data_dir": "/tmp"})


def test_a_failed_start_leaves_no_actor(cluster, tmp_path):
    with pytest.raises(ValueError, match="another one"):
        Cluster(str(tmp_path / "elsewhere"), num_cpus=0.1, program="/bin/false")
    with pytest.raises(nearfield.Unavailable, match="not ready after"):
        Cluster(str(tmp_path / "storage"), name="failed", num_cpus=0.1, program="/bin/false", start_timeout=2)
    names = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
    assert not [name for name in names if name.startswith("failed")]


def test_a_start_and_a_resize_report_what_they_wait_for(cluster, request, tmp_path, monkeypatch):
    """Within seconds, not at their end, and `status` meanwhile: they were silent."""
    monkeypatch.setattr("nearfield.ray._client._REPORT_SECONDS", 0.3)
    lines: list[str] = []
    seen = threading.Event()

    class Seen(logging.Handler):
        def emit(self, record: Any) -> None:
            lines.append(record.getMessage())
            seen.set()

    handler = Seen()
    logging.getLogger("nearfield.ray").addHandler(handler)
    try:
        with pytest.raises(nearfield.Unavailable, match="not ready after 3 s: small-1-0-0: it waits for Ray: 5 CPUs wanted, 4 in the cluster"):
            start_cluster(request.config, tmp_path / "small", name="small", num_cpus=5, start_timeout=3)
        assert re.fullmatch("nearfield.ray: not ready: small-1-0-0: it waits for Ray: 5 CPUs wanted, 4 in the cluster", lines[-1])
        with start_cluster(request.config, tmp_path / "large", name="large", num_cpus=3) as large, ThreadPoolExecutor(1) as pool:
            seen.clear()
            resized = pool.submit(large.resize, 2, timeout=5)
            assert seen.wait(60) and "9 CPUs wanted, 4 in the cluster" in lines[-1]
            errors = [each["error"] for each in large.status()["servers"]]
            assert errors == ["", *["it waits for Ray: 9 CPUs wanted, 4 in the cluster"] * 2]
            with pytest.raises(nearfield.Unavailable, match="large-2-0-0, large-2-1-0: it waits for Ray: 9 CPUs wanted"):
                resized.result()
            large.stop()
    finally:
        logging.getLogger("nearfield.ray").removeHandler(handler)


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
        cluster.resize(3, timeout=0.1)  # too short: the present shards stay
    assert cluster.status()["shards"] == 2
    manifests = cluster_storage(cluster) / "commits"
    manifests.rename(manifests.with_name("gone"))
    with pytest.raises(nearfield.Unavailable, match="storage"):
        cluster.resize(1)
    manifests.with_name("gone").rename(manifests)
    writer.commit()
    assert cluster.status()["shards"] == 2
    last = cluster.collection("docs").search(draw_vectors(rng, 1)[0], k=5)
    assert last.epoch >= model.numbers[-1]


def test_the_command(cluster, tmp_path, request):
    storage = cluster.status()["storage"]
    command = [sys.executable, "-m", "nearfield.ray", "--storage", storage]
    status = json.loads(subprocess.run([*command, "status"], check=True, capture_output=True, text=True).stdout)
    assert status["shards"] == 2 and all(server["ready"] for server in status["servers"])
    failed = subprocess.run([*command, "compact", "none"], capture_output=True, text=True)
    assert failed.returncode == 1 and "NOT_FOUND: collection: there is no 'none'" in failed.stderr


def test_the_readme_starts_a_cluster(cluster, rng, monkeypatch, tmp_path):
    monkeypatch.setattr("nearfield.ray.Cluster", lambda *_, **__: cluster)
    names: dict[str, Any] = {"vectors": draw_vectors(rng, 40), "ids": np.arange(40)}
    exec(block(ROOT / "client/python/README.md", "python cluster"), names)
    assert len(names["answer"].ids) == 5

"""Every source of rows gives the same collection, and interrupted uploads continue."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
import signal
import subprocess
import sys
import time
from typing import Any

import h5py
import nearfield
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from links import Link
from nearfield import F

UTC = dt.timezone.utc
ROWS, DIM = 3000, 24
DECLARED = {
    "year": int, "price": float, "good": bool, "language": str, "made": dt.datetime, "tags": [str],
    "sizes": [int],
}


class Data:
    """The same rows in every form."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.vectors = rng.standard_normal((ROWS, DIM), dtype=np.float32)
        self.ids = [f"row-ü{i:05}" for i in rng.permutation(ROWS)]
        number = rng.integers(0, 1000, ROWS).tolist()
        self.columns: dict[str, list[Any]] = {
            "year": [None if n % 7 == 0 else 1980 + n % 45 for n in number],
            "price": [None if n % 5 == 0 else n / 4 for n in number],
            "good": [n % 2 == 0 for n in number],
            "language": [None if n % 3 == 0 else ["de", "en", ""][n % 3] for n in number],
            "made": [None if n % 11 == 0 else dt.datetime(2020, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=n)
                     for n in number],
            "tags": [None if n % 13 == 0 else [f"t{n % 10}", "ä"][: n % 3] for n in number],
            "sizes": [[n % 4] * (n % 3) for n in number],
        }
        self.documents = [{"title": f"Ü {n}", "n": n, "none": None} for n in number]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"id": self.ids[i], "vector": self.vectors[i].tolist(), "payload": self.documents[i],
             **{name: column[i] for name, column in self.columns.items() if column[i] is not None}}
            for i in range(ROWS)
        ]

    def table(self) -> pa.Table:
        types = {"made": pa.timestamp("us", tz="Europe/Berlin"), "language": pa.dictionary(pa.int32(), pa.string())}
        return pa.table({
            "id": pa.array(self.ids),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(self.vectors.reshape(-1)), DIM),
            **{name: pa.array(column, types.get(name)) for name, column in self.columns.items()},
            "title": [each["title"] for each in self.documents],
            "n": [each["n"] for each in self.documents],
            "none": pa.nulls(ROWS),
        })


PAID = {"payloads": ["title", "n", "none"]}


def contents(docs: Any, data: Data) -> Any:
    """Returns what distinguishes two collections: digests of ordered answers under filters that use
    every attribute, and every payload and vector."""
    queries = data.vectors[:3]
    filters = [None, F.year >= 2000, F.price < 100, F.good == True, F.language.isin(["de", ""]),  # noqa: E712
               F.made > data.columns["made"][1].replace(microsecond=500) if data.columns["made"][1] else F.made.exists(),
               F.tags.any(["ä"]), F.tags.exists(), F.sizes.all([1, 1]), ~F.sizes.any([2])]
    digests = [docs.search(queries, k=ROWS, filter=each, with_digest=True).digest for each in filters]
    found = docs.fetch(data.ids)
    return digests, found.payloads, found.vectors.tobytes(), docs.count().rows_count


@pytest.fixture
def data(rng):
    return Data(rng)


def create(client: Any, name: str, **more: Any) -> Any:
    return client.create_collection(name, DIM, metric="dot", id_type="string", attributes=DECLARED, **more)


@pytest.fixture
def expected(client, name, data):
    docs = create(client, name + "-numpy")
    docs.upload(data.vectors, ids=data.ids, attributes=data.columns, payloads=data.documents)
    return contents(docs, data)


def batches_of(table: pa.Table, rows: int = 700):
    return table.to_batches(max_chunksize=rows)


def jsonl(data: Data) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, default=lambda time: int(time.timestamp() * 10**6 + 0.5)) + "\n" for row in data.rows())


def test_every_source_gives_the_same_collection(client, name, data, expected, tmp_path):
    table = data.table()
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=900)
    (tmp_path / "rows.jsonl").write_text(jsonl(data), "utf-8")
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(jsonl(data))
    np.save(tmp_path / "rows.npy", data.vectors)
    with open(tmp_path / "rows.fbin", "wb") as file:
        file.write(np.array([ROWS, DIM], "<i4").tobytes() + data.vectors.tobytes())
    with open(tmp_path / "rows.fvecs", "wb") as file:
        for row in data.vectors:
            file.write(np.int32(DIM).tobytes() + row.tobytes())
    with h5py.File(tmp_path / "rows.hdf5", "w") as file:
        file["train"] = data.vectors
    frame = table.to_pandas()
    assert frame["made"].dt.tz is not None
    beside = {"ids": data.ids, "attributes": data.columns, "payloads": data.documents}
    halves = [{"id": data.ids[at:at + 1500], "vector": data.vectors[at:at + 1500],
               "payload": data.documents[at:at + 1500],
               **{key: column[at:at + 1500] for key, column in data.columns.items()}} for at in (0, 1500)]
    sources: dict[str, tuple[Any, dict[str, Any]]] = {
        "table": (table, PAID),
        "reader": (pa.RecordBatchReader.from_batches(table.schema, batches_of(table)), PAID),
        "batches": (iter(batches_of(table)), PAID),
        "sliced": ((table.slice(at, 1000) for at in (0, 1000, 2000)), PAID),
        "pandas": (frame, PAID),
        "frames": ((frame.iloc[at:at + 1000] for at in (0, 1000, 2000)), PAID),
        "parquet": (tmp_path / "rows.parquet", PAID),
        "rows": (data.rows(), {}),
        "row iterator": (iter(data.rows()), {}),
        "column batches": (iter(halves), {}),
        "jsonl": (str(tmp_path / "rows.jsonl"), {}),
        "jsonl.gz": (tmp_path / "rows.jsonl.gz", {}),
        "npy": (tmp_path / "rows.npy", beside),
        "fbin": (tmp_path / "rows.fbin", beside),
        "fvecs": (tmp_path / "rows.fvecs", beside),
        "hdf5": (tmp_path / "rows.hdf5", beside),
    }
    docs = create(client, name)
    for source, (given, more) in sources.items():
        done = docs.upload(given, mode="replace", block_bytes=40_000, **more)
        assert done.rows_count == ROWS, source
        assert contents(docs, data) == expected, source


def test_a_table_shows_its_own_declaration(client, name, data):
    table = data.table().drop_columns(["none"])
    docs = client.create_collection(name, metric="dot", like=table)
    info = docs.info()
    assert (info.dim, info.dtype, info.id_type) == (DIM, "float32", "string")
    assert {each.name: each.text for each in info.attributes} == {
        "year": "int64", "price": "double", "good": "bool", "language": "keyword", "made": "timestamp",
        "tags": "keyword[]", "sizes": "int64[]", "title": "keyword", "n": "int64"}
    for payloads in (None, "title", ["title", "n"]):  # a payload may also be an attribute
        docs.upload(table, payloads=payloads, mode="replace")
        assert docs.count((F.n >= 0) & (F.title != "")).rows_count == ROWS
    same = client.create_collection(name, metric="dot", like=table, if_missing=True)
    assert same.count().rows_count == ROWS
    with pytest.raises(nearfield.AlreadyExists, match="metric dot, not l2"):
        client.create_collection(name, metric="l2", like=table, if_missing=True)


def test_attributes_named_like_parts_of_a_row_are_exported_and_uploaded(client, name, tmp_path):
    attributes = {"id": "keyword", "vector": "double[]", "payload": "keyword", "score": "double", "query": "int64"}
    columns = {"id": ["a", "b"], "vector": [[1.5], [2.5, 3]], "payload": ["x", None], "score": [0.5, 1], "query": [3, 4]}
    docs = client.create_collection(name, 2, metric="dot", attributes=attributes)
    docs.upload([[1, 0], [0, 1]], ids=[5, 6], payloads=[b"one", b"two"], attributes=columns)
    docs.export(tmp_path / "rows.parquet", payload=True, attributes="*")
    copy = client.create_collection(name + "-copy", 2, metric="dot", attributes=attributes)
    for data in (tmp_path / "rows.parquet", pq.read_table(tmp_path / "rows.parquet")):
        copy.upload(data, payloads="payload", mode="replace")
        found = copy.fetch([5, 6], attributes="*")
        assert found.attributes == columns and found.payloads == [b"one", b"two"]
        assert found.vectors.tolist() == [[1, 0], [0, 1]]
    plain = pa.table({"id": pa.array([7], pa.uint64()), "vector": pa.array([[1.0, 1]]), "score": [2.5]})
    copy.upload(plain)
    assert copy.fetch([7], attributes="*").attributes == {
        each: [2.5 if each == "score" else None] for each in attributes}


def test_modes_and_ids(client, name, data):
    docs = client.create_collection(name, DIM, metric="dot")
    assert docs.upload(data.vectors[:10]).rows_count == 10
    with pytest.raises(nearfield.AlreadyExists, match="9"):
        docs.upload(data.vectors[:1], ids=[9])
    done = docs.upload(data.vectors[:5], ids=np.array([9, 10, 11, 12, 2**64 - 1], np.uint64), mode="upsert")
    assert (done.rows_count, done.rows_replaced) == (5, 1)
    assert docs.upload(data.vectors[:3], mode="replace").rows_count == 3
    assert docs.count().rows_count == 3
    assert docs.upload([]).rows_count == 0
    for ids, words in (([1.5], "all int or all str"), ([-1], "2\\*\\*64"), (["a"], "ids of type uint64"), ([1, 2], "2 for 1"),
                       (np.array([-3]), "-3; a number must not be negative")):
        with pytest.raises((TypeError, ValueError), match=words):
            docs.upload(data.vectors[:1], ids=ids)


def test_mistakes_in_data_name_their_place(client, name, data, tmp_path):
    docs = create(client, name)
    naive = data.table().set_column(6, "made", pa.array([dt.datetime(2020, 1, 1)] * ROWS))
    good = data.rows()[:3]
    (tmp_path / "bad.jsonl").write_text(json.dumps(good[0], default=str) + "\n{]\n")
    for given, more, words in (
        (naive, PAID, "made.*has no zone"),
        (data.table().drop_columns(["vector"]), {}, "no column 'vector'"),
        (data.table(), {"attributes": ["yaer"]}, "declares year:int64"),
        ([{**good[0], "yaer": 1}], {}, "declares year:int64"),
        ([good[0], {**good[1], "vector": [1.0]}], {}, r"row 1 \(id \"row-.*\"\): a vector of 1 numbers"),
        ([good[0], {"vector": good[1]["vector"]}], {}, "row 1: no member id"),
        ([{**good[0], "year": 1.5}], {}, "1.5; the attribute is declared int64"),
        (tmp_path / "bad.jsonl", {}, "bad.jsonl"),
        (data.vectors[:, :3], {"ids": data.ids}, f"needs \\[rows, {DIM}\\]"),
        (data.vectors, {}, "ids of type string"),
        (data.vectors, {"ids": data.ids, "attributes": {"year": [1]}}, "1 values for 3000 vectors"),
        (good, {"ids": ["a", "b", "c"]}, "ids: these rows have members"),
        (tmp_path / "bad.jsonl", {"payloads": "payload"}, "payloads: these rows have members"),
        (tmp_path / "x.py", {}, "x.py; give a NumPy array, .* or a file .parquet, .csv"),
        (7, {}, "data: int"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            docs.upload(given, **more)
    with pytest.raises(nearfield.InvalidArgument) as caught:
        docs.upload(np.full((1, DIM), np.nan), ids=["x"])
    assert caught.value.field and docs.count().rows_count == 0


def test_a_failing_iterator_commits_nothing(client, name, data):
    docs = create(client, name)

    def rows():
        yield from data.rows()[:10]
        raise KeyError("the source failed")

    with pytest.raises(KeyError, match="the source failed"):
        docs.upload(rows())
    assert docs.count().rows_count == 0


def test_an_upload_reports_its_progress(client, name, data):
    docs = create(client, name)
    seen: list[nearfield.Progress] = []
    docs.upload(data.vectors, ids=data.ids, progress=seen.append, block_bytes=30_000)
    assert len(seen) > 5 and seen[-1].rows_sent == seen[-1].rows_received == seen[-1].rows_max == ROWS
    sent = [each.rows_sent for each in seen[:-1]]
    assert sent[0] == 0 and sent == sorted(sent) and sent[-1] == ROWS
    assert seen[-2].rows_received == ROWS  # all rows are confirmed before the commit
    docs.upload(data.vectors, ids=data.ids, progress=True, mode="replace")


def test_rows_that_differ_in_size_are_cut_below_the_limit(client, name):
    docs = client.create_collection(name, 1, metric="dot")
    sizes = [1, 60_000] * 40
    docs.upload(np.ones((80, 1)), payloads=[b"x" * size for size in sizes], block_bytes=65_000)
    assert [len(each) for each in docs.fetch(range(80)).payloads] == sizes
    with pytest.raises(nearfield.InvalidArgument, match="a block may take 1000"):
        docs.upload(np.ones((1, 1)), ids=[900], payloads=[b"x" * 2000], block_bytes=1000)


BIG = 20_000  # rows of 384 dimensions: more than a connection holds in flight


@pytest.fixture
def big(rng):
    return rng.standard_normal((BIG, 384), dtype=np.float32)


def check_big(docs: Any, big: np.ndarray) -> None:
    """The collection holds these rows, to the bit."""
    assert docs.count().rows_count == BIG
    for begin in range(0, BIG, 5000):
        found = docs.fetch(np.arange(begin, begin + 5000), payload=False)
        assert (found.vectors == big[begin:begin + 5000]).all()


def test_a_broken_link_is_continued(connect, shared, name, big):
    with Link(shared.address) as link:
        client = connect(link.address)
        docs = client.create_collection(name, 384, metric="dot")
        cut_at = [BIG // 4, BIG // 2]

        def cut(now: nearfield.Progress) -> None:
            if cut_at and now.rows_received >= cut_at[0]:
                cut_at.pop(0)
                link.cut()

        done = docs.upload(big, token=name, progress=cut, block_bytes=100_000)
        assert (done.rows_count, link.cuts) == (BIG, 2)
        assert BIG // 4 <= done.rows_resumed < BIG
        check_big(docs, big)
        again = docs.upload(big, token=name)
        assert (again.epoch, again.rows_resumed) == (done.epoch, BIG)
        assert client.get_upload(name, name).committed


def test_a_row_of_zeros_in_a_collection_of_cosine_is_refused_unless_accepted(client, name):
    """It was stored, and came back as a hit with the score -inf, which is no number in JSON."""
    docs = client.create_collection(name, 2, metric="cosine", id_type="string")
    rows = [{"id": "a", "vector": [1, 0]}, {"id": "b", "vector": [0, -0.0]}]
    with pytest.raises(nearfield.InvalidArgument, match=r'row 1 \(id "?b"?\).*no cosine'):
        docs.upload(rows)
    assert docs.count().rows_count == 0
    with pytest.raises(ValueError, match="zero_rows"):
        docs.upload(rows, zero_rows="maybe")
    docs.upload(rows, zero_rows="accept")
    assert [(hit.id, hit.score) for hit in docs.search([1, 0], k=2)] == [("a", 1.0), ("b", -math.inf)]


def test_a_broken_link_without_a_token_commits_nothing(connect, shared, name, big):
    with Link(shared.address) as link:
        docs = connect(link.address).create_collection(name, 384, metric="dot")
        with pytest.raises(nearfield.Unavailable, match="no row was stored: repeat the upload, or give token="):
            docs.upload(big, progress=lambda now: now.rows_received and link.cut())
        assert docs.count().rows_count == 0


KILLED = """
import os, signal, sys
import nearfield
address, name, path = sys.argv[1:]
def progress(now):
    if now.rows_received >= 5000:
        os.kill(os.getpid(), signal.SIGKILL)
nearfield.connect(address).collection(name).upload(path, token=name, progress=progress, block_bytes=100_000)
"""


def test_a_killed_process_is_continued(client, shared, name, big, tmp_path):
    docs = client.create_collection(name, 384, metric="dot")
    path = tmp_path / "rows.npy"
    np.save(path, big)
    killed = subprocess.run([sys.executable, "-c", KILLED, shared.address, name, str(path)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while [each for each in client.list_uploads() if each.token == name and each.is_live]:
        assert time.monotonic() < deadline, "the server has not noticed the end of the process"
    with pytest.raises(nearfield.InvalidArgument, match="rows_max: 100"):  # not the data of this token
        docs.upload(big[:100], token=name)
    done = docs.upload(path, token=name)
    assert done.rows_count == BIG and done.rows_resumed >= 5000
    check_big(docs, big)


def test_an_upload_may_be_abandoned(client, shared, name, big, tmp_path):
    docs = client.create_collection(name, 384, metric="dot")
    path = tmp_path / "rows.npy"
    np.save(path, big)
    subprocess.run([sys.executable, "-c", KILLED, shared.address, name, str(path)], timeout=60, check=False)
    deadline = time.monotonic() + 30
    while True:
        try:
            assert client.drop_upload(name, name) >= 5000
            break
        except nearfield.FailedPrecondition:  # the server has not noticed the end of the process
            assert time.monotonic() < deadline
    for gone in (client.get_upload, client.drop_upload):
        with pytest.raises(nearfield.NotFound):
            gone(name, name)
    assert docs.count().rows_count == 0


def test_a_restarted_server_is_continued(start, connect, name, big, tmp_path):
    """The server is killed in the middle of an upload and starts again on the same address."""
    address = f"unix:{tmp_path}/server.sock"
    arguments = ["--data-dir", str(tmp_path / "data"), "--listen", address]
    servers = [start(*arguments)]
    docs = connect(address).create_collection(name, 384, metric="dot")

    def kill(now: nearfield.Progress) -> None:
        if len(servers) == 1 and now.rows_received >= 5000:
            servers[0].kill()
            servers.append(start(*arguments))

    assert docs.upload(big, token=name, progress=kill, block_bytes=100_000).rows_count == BIG
    assert len(servers) == 2
    check_big(docs, big)


def test_an_arrow_table_may_have_a_chunk_without_rows(client, name):
    """Its vectors had no dimension, and the upload was refused."""
    kind = pa.list_(pa.float32(), 2)
    parts = [pa.table({"id": [7], "vector": pa.array([[1.0, 2.0]], kind)}), pa.table({"id": pa.array([], pa.int64()), "vector": pa.array([], kind)})]
    docs = client.create_collection(name, 2, metric="dot")
    assert docs.upload(pa.concat_tables(parts)).rows_count == 1
    assert docs.upload(iter(parts[::-1]), mode="upsert").rows_count == 1

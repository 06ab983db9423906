"""`nearfield export` and Scan with real servers: an upload of exported files makes an equal
collection."""

from __future__ import annotations

import random
import shlex
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import attributes
import grpc
import numpy as np
import pytest
from calls import Api
from conftest import DEADLINE_S

DIM = 5
ROWS = 400
# Payloads that are JSON, are almost JSON, or are not UTF-8.
PAYLOADS = [b"", b"null", b"{}", b'{"a":1}', b'{ "a": 1}', b"text", b'"quoted"', b"1.50", b"\xff\x00", b"\xef\xbb\xbf{}",
            b'{"$base64":"AAAA"}', "ältere\u2028".encode(), b"line\nline\r\n", bytes(range(256))]


def draw_vectors(rng: np.random.Generator, dtype: str, count: int, dim: int = DIM) -> np.ndarray:
    """Returns finite rows of arbitrary bits; bfloat16 as its bits."""
    bits = rng.integers(0, 2**32, (count, dim), dtype=np.uint32)
    if dtype == "FLOAT32":
        rows = bits.view(np.float32)
        return np.where(np.isfinite(rows), rows, np.float32(-0.0)).astype("<f4")
    half = (bits >> 16).astype("<u2")
    if dtype == "FLOAT16":
        rows = half.view("<f2")
        return np.where(np.isfinite(rows), rows, np.float16(-0.0)).astype("<f2")
    return np.where((half & 0x7F80) == 0x7F80, np.uint16(0x8000), half).astype("<u2")


def scan(api: Api, name: str, **more) -> list:
    pb = api.pb
    return list(api.server.retrieval.Scan(pb.ScanRequest(collection=name, **more), timeout=DEADLINE_S))


def content(api: Api, name: str) -> dict:
    """Returns the rows of a collection as Fetch returns them: id -> vector, payload and attributes,
    each as bytes."""
    pb = api.pb
    ids = [each for reply in scan(api, name, with_payload=False, with_vectors=False)
           for each in list(reply.ids.numbers) + list(reply.ids.texts)]
    rows = {}
    for identity in ids:
        found = api.server.retrieval.Fetch(
            pb.FetchRequest(collection=name, ids=api.ids([identity]), attributes=["*"]), timeout=DEADLINE_S)
        assert not found.missing.numbers and not found.missing.texts
        rows[identity] = (found.vectors.SerializeToString(), found.payloads[0],
                          [column.SerializeToString() for column in found.attributes])
    return rows


def digests(api: Api, name: str, queries: np.ndarray) -> list[bytes]:
    return [api.search(name, query, 50, with_digest=True).result_digest for query in queries]


@pytest.fixture
def collection(api, shared, rng):
    """collection(name, dtype, ids) -> a collection with rows of several uploads, some replaced and
    some deleted."""
    def make(name: str, dtype: str, ids: str) -> Api:
        client = api(shared)
        pb = client.pb
        client.create(name, DIM, "L2", dtype, ids, attributes=attributes.specs(pb))
        draw = random.Random(int(rng.integers(2**32)))
        names = [f"row {n}\n" if n % 7 == 0 else f"r{n}" for n in range(ROWS)] if ids == "STRING" else \
            list({int(n) for n in rng.integers(0, 2**63, ROWS)} | {2**64 - 1})
        for part in (names, draw.sample(names, 50)):
            request = client.block(part, draw_vectors(rng, dtype, len(part)), [draw.choice(PAYLOADS) for _ in part])
            request.block.attributes.extend(attributes.columns(pb, [attributes.draw_row(draw) for _ in part]))
            client.send(client.begin(name, len(part), 1 << 20, "UPSERT"), request, client.commit(len(part)))
        shared.ingest.Delete(pb.DeleteRequest(collection=name, ids=client.ids(draw.sample(names, 30))))
        return client
    return make


@pytest.mark.parametrize("form", ["jsonl", "npy"])
@pytest.mark.parametrize("ids", ["UINT64", "STRING"])
@pytest.mark.parametrize("dtype", ["FLOAT32", "FLOAT16", "BFLOAT16"])
def test_an_upload_of_exported_files_makes_an_equal_collection(nearfield, collection, rng, tmp_path: Path, dtype, ids, form):
    name = f"{dtype}-{ids}-{form}"
    client = collection(name, dtype, ids)
    files = [tmp_path / f"rows.{form}"]
    if form == "npy":
        files += ["--ids", tmp_path / "ids.jsonl", "--payloads", tmp_path / "payloads.jsonl",
                  "--attributes", tmp_path / "attributes.jsonl"]
    exported = nearfield(client.server, "export", name, *files, "--json").json[0]
    word, upload, original, *rest = shlex.split(exported["upload_command"])
    assert (word, upload, original) == ("nearfield", "upload", name)
    uploaded = nearfield(client.server, "upload", f"{name}-copy", *rest, "--json").json[0]
    assert uploaded["rows_count"] == exported["rows_count"]

    before = content(client, name)
    assert len(before) == exported["rows_count"] and content(client, f"{name}-copy") == before
    queries = rng.standard_normal((20, DIM)).astype(np.float32)
    assert digests(client, name, queries) == digests(client, f"{name}-copy", queries)
    infos = [client.server.admin.GetCollection(client.pb.GetCollectionRequest(name=each)).collection
             for each in (name, f"{name}-copy")]
    for field in ("dim", "metric", "dtype", "id_type", "scan", "rows"):
        assert getattr(infos[0], field) == getattr(infos[1], field), field
    assert list(infos[0].attributes) == list(infos[1].attributes)
    # A second export writes the same bytes.
    again = [tmp_path / f"again.{form}"]
    nearfield(client.server, "export", f"{name}-copy", *again, *(["--ids", tmp_path / "again.ids.jsonl"] if form == "npy" else []))
    assert again[0].read_bytes() == files[0].read_bytes()


def test_a_filter_chooses_the_exported_rows(nearfield, collection, tmp_path: Path):
    client = collection("filtered", "FLOAT32", "UINT64")
    exported = nearfield(client.server, "export", "filtered", tmp_path / "rows.jsonl", "--filter", "year >= 2020", "--json").json[0]
    count = nearfield(client.server, "count", "filtered", "--filter", "year >= 2020", "--json").json[0]["rows_count"]
    assert exported["rows_count"] == count > 0
    nearfield(client.server, *shlex.split(exported["upload_command"].replace("filtered", "filtered-copy", 1))[1:])
    everything = content(client, "filtered")
    copy = content(client, "filtered-copy")
    assert len(copy) == count and copy.items() <= everything.items()


def test_an_export_during_uploads_has_the_rows_of_one_epoch(nearfield, api, start, rng, tmp_path: Path):
    """Each upload replaces all rows by those of one number, so rows of two epochs show."""
    client = api(start("--host-memory-bytes", "512MiB", "--epochs-kept-percent", "50"))
    client.create("a", 2)
    rows = 3000
    ids = list(range(rows))

    def upload(number: int) -> None:
        vectors = np.full((rows, 2), number, dtype="<f4")
        payloads = [b"%d" % number + b"p" * 500] * rows
        blocks = [client.block(ids[at:at + 1000], vectors[at:at + 1000], payloads[at:at + 1000]) for at in range(0, rows, 1000)]
        client.send(client.begin("a", rows, rows * 510, "REPLACE"), *blocks, client.commit(rows))

    upload(0)
    done = threading.Event()

    def keep_uploading() -> None:
        number = 0
        while not done.is_set():
            number += 1
            upload(number)

    uploader = threading.Thread(target=keep_uploading)
    uploader.start()
    try:
        for _ in range(5):
            nearfield(client.server, "export", "a", tmp_path / "a.npy", "--ids", tmp_path / "ids.npy")
            vectors = np.load(tmp_path / "a.npy")
            assert vectors.shape == (rows, 2) and len(np.unique(vectors)) == 1
            assert np.load(tmp_path / "ids.npy").tolist() == ids
    finally:
        done.set()
        uploader.join()


def test_a_scan_goes_on_after_a_restart_at_the_same_epoch(start, api, rng, tmp_path: Path):
    data = ["--data-dir", str(tmp_path / "data")]
    client = api(start(*data))
    client.create("a", 2)
    client.upload("a", list(range(1000)), rng.standard_normal((1000, 2)).astype("<f4"), [b"p" * 3000] * 1000)
    whole = scan(client, "a")
    assert len(whole) > 2
    client.server.kill()
    client = api(start(*data))
    rest = scan(client, "a", cursor=whole[0].next_cursor)
    assert [n for reply in rest for n in reply.ids.numbers] == [n for reply in whole[1:] for n in reply.ids.numbers]
    assert b"".join(reply.vectors.data for reply in rest) == b"".join(reply.vectors.data for reply in whole[1:])
    # A restart keeps only the current epoch.
    client.upload("a", [5000], np.zeros((1, 2), dtype="<f4"))
    client.server.kill()
    client = api(start(*data))
    with pytest.raises(grpc.RpcError) as gone:
        scan(client, "a", cursor=whole[0].next_cursor)
    assert gone.value.code() == grpc.StatusCode.FAILED_PRECONDITION


def test_export_and_upload_of_many_rows_with_their_times(nearfield, api, start, rng, request, tmp_path: Path, capsys):
    """--export-rows sets the number of rows; with -s, it prints the times."""
    rows, dim = request.config.getoption("--export-rows"), 32
    client = api(start("--memory-bytes", "2GiB", "--host-memory-bytes", "1GiB") if rows > 200_000 else start())
    np.save(tmp_path / "first.npy", rng.standard_normal((rows, dim)).astype("<f4"))
    (tmp_path / "payloads.jsonl").write_text("".join(f'{{"n":{n}}}\n' for n in range(rows)))

    def timed(what: str, *arguments) -> SimpleNamespace:
        begin = time.monotonic()
        done = nearfield(client.server, *arguments, timeout=1800)
        seconds = time.monotonic() - begin
        with capsys.disabled():
            print(f"\n{what}: {seconds:.1f} s, {rows / seconds:,.0f} rows/s", end="")
        return done

    files = {"npy": [tmp_path / "rows.npy", "--ids", tmp_path / "ids.npy", "--payloads", tmp_path / "p.jsonl"],
             "jsonl": [tmp_path / "rows.jsonl"]}
    create = ["--create", "--metric", "dot"]
    timed("upload .npy", "upload", "a", tmp_path / "first.npy", "--payloads", tmp_path / "payloads.jsonl", *create)
    queries = rng.standard_normal((10, dim)).astype(np.float32)
    expected = digests(client, "a", queries)
    for form, paths in files.items():
        timed(f"export .{form}", "export", "a", *paths)
        timed(f"upload .{form}", "upload", form, *paths, *create)
        assert digests(client, form, queries) == expected
        client.server.admin.DropCollection(client.pb.DropCollectionRequest(name=form))
    assert np.array_equal(np.load(tmp_path / "rows.npy"), np.load(tmp_path / "first.npy"))

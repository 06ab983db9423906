"""The content of the data directories in data/: how it is written, and what a server with it must
answer. Later versions of the server read the same calls, so `write` and `record` may not change in
a way that an archive that exists does not fit."""

from __future__ import annotations

import random

import attributes
import grpc
import numpy as np
from calls import Api

DIM = 6
METRICS = ("DOT", "COSINE", "L2")
DTYPES = ("FLOAT32", "FLOAT16", "BFLOAT16")
SCANS = ("AUTO", "INT8", "ROWS")
COMMITTED, OPEN = b"committed", b"open"
OPEN_COLLECTION = "dot_float16"
OPEN_BLOCKS = 3  # of the unfinished upload; its last block was never sent
# Not from a generator, whose numbers another version of numpy may change.
QUERIES = np.array([[(37 * i + 11 * j) % 17 / 4 - 2 for j in range(DIM)] for i in range(3)], dtype=np.float32)


def names() -> list[str]:
    return [f"{metric}_{dtype}".lower() for metric in METRICS for dtype in DTYPES]


def has_texts(name: str) -> bool:
    """Returns whether the ids of the collection are texts."""
    return names().index(name) % 2 == 1


def identity(name: str, number: int):
    return f"id {number} \u00e4" if has_texts(name) else number * 1_000_003


def rows_of(name: str, count: int, seed: int) -> np.ndarray:
    """Returns rows in the collection's element type; bfloat16 as its bits."""
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    if name.endswith("bfloat16"):
        return (rows.view(np.uint32) >> 16).astype("<u2")
    return rows.astype("<f2" if name.endswith("float16") else "<f4")


def block(api: Api, name: str, numbers: range, seed: int):
    """Returns a block with a payload for each row, and attributes for most."""
    draw = random.Random(seed)
    ids = [identity(name, number) for number in numbers]
    payloads = [b"payload %d of %d" % (number, seed) for number in numbers]
    request = api.block(ids, rows_of(name, len(ids), seed), payloads)
    request.block.attributes.extend(attributes.columns(api.pb, [attributes.draw_row(draw) for _ in ids]))
    return request


def upload(api: Api, name: str, numbers: range, seed: int, mode: str = "INSERT", token: bytes | None = None):
    half = numbers.start + len(numbers) // 2
    parts = [range(numbers.start, half), range(half, numbers.stop)]
    begin = api.begin(name, len(numbers), 1 << 12, mode, token)
    blocks = [block(api, name, part, seed + i) for i, part in enumerate(parts) if part]
    return api.send(begin, *blocks, api.commit())[-1].committed


def delete(api: Api, name: str, numbers: list[int]) -> None:
    ids = api.ids([identity(name, number) for number in numbers])
    api.server.ingest.Delete(api.pb.DeleteRequest(collection=name, ids=ids), timeout=60)


def write_before_snapshot(api: Api) -> None:
    pb, admin = api.pb, api.server.admin
    for place, name in enumerate(names()):
        metric, dtype = name.upper().split("_")
        api.create(name, DIM, metric, dtype, "STRING" if has_texts(name) else "UINT64",
                   attributes=attributes.specs(pb), scan=pb.ScanChoice.Value(f"SCAN_CHOICE_{SCANS[place % 3]}"))
        upload(api, name, range(40), 100 * place)
        upload(api, name, range(35, 50), 100 * place + 10, "UPSERT")
        delete(api, name, [1, 7, 36, 49])
    # The rows of one upload may be superseded by later ones of the same upload.
    api.send(api.begin("l2_float32", 4, 1 << 12, "UPSERT"), block(api, "l2_float32", range(60, 62), 5),
             block(api, "l2_float32", range(61, 63), 6), api.commit())
    upload(api, "cosine_float32", range(20, 45), 7, "REPLACE", COMMITTED)
    api.create("dropped", DIM)
    admin.DropCollection(pb.DropCollectionRequest(name="dropped"), timeout=60)
    api.create("empty", DIM)
    for collection in ("dot_float32", "l2_float32"):
        admin.SetAlias(pb.SetAliasRequest(alias="live", collection=collection), timeout=60)
    for name in ("dot_float32", "l2_bfloat16"):
        admin.Compact(pb.CompactRequest(collection=name), timeout=60)
    try:
        api.send(*open_upload(api)[:-2])
    except grpc.RpcError as error:  # the stream ends without a commit
        assert "commit" in error.details(), error


def write_after_snapshot(api: Api) -> None:
    delete(api, "dot_float32", [2, 3])
    upload(api, "dot_float32", range(70, 75), 900, "UPSERT")
    upload(api, "cosine_bfloat16", range(0, 5), 901, "UPSERT")


def open_upload(api: Api) -> list:
    """Returns the messages of the upload that is not finished."""
    begin = api.begin(OPEN_COLLECTION, 10 * OPEN_BLOCKS, 1 << 12, "INSERT", OPEN)
    blocks = [block(api, OPEN_COLLECTION, range(80 + 10 * i, 90 + 10 * i), 950 + i) for i in range(OPEN_BLOCKS)]
    return [begin, *blocks, api.commit()]


def upload_state(api: Api, collection: str, token: bytes) -> dict:
    try:
        state = api.server.ingest.GetUpload(api.pb.GetUploadRequest(collection=collection, upload_token=token), timeout=60)
    except grpc.RpcError as error:
        return {"code": error.code().name}
    return {"committed": state.committed, "next_block": state.next_block, "rows_count": state.rows_count, "epoch": state.epoch}


def record_collection(api: Api, info) -> dict:
    """Returns what the server answers about one collection, for a comparison as JSON."""
    pb, name = api.pb, info.name
    recorded = {
        "name": name, "dim": info.dim, "metric": info.metric, "dtype": info.dtype, "id_type": info.id_type,
        "scan": info.scan, "rows": info.rows, "aliases": list(info.aliases), "epoch": info.epoch,
        "rows_count": info.rows_count, "attributes": [[spec.name, spec.type, spec.is_list] for spec in info.attributes],
    }
    if name not in names():
        return recorded
    rows = api.search(name, QUERIES, 100, with_payload=True, with_digest=True)
    assert rows.epoch == info.epoch
    recorded["digest"] = rows.result_digest.hex()
    recorded["neighbors"] = [api.answer(result) for result in rows.results]
    recorded["payloads"] = [payload.hex() for payload in rows.results[0].payloads]
    wanted = [identity(name, number) for number in (0, 1, 38, 61)]
    fetched = api.server.retrieval.Fetch(pb.FetchRequest(collection=name, ids=api.ids(wanted)), timeout=60)
    recorded["fetched"] = [list(fetched.ids.texts or fetched.ids.numbers), fetched.vectors.data.hex(),
                           [payload.hex() for payload in fetched.payloads]]
    draw = random.Random(name)
    recorded["filtered"] = []
    numbers = [identity(name, number) for number in range(60)] if not has_texts(name) else None
    while len(recorded["filtered"]) < 8:
        tree = attributes.draw_filter(draw, numbers or [1])
        if numbers is None and "has_id" in str(tree):  # to_text makes numbers only
            continue
        reply = api.search(name, QUERIES[:1], 100, filter_text=attributes.to_text(tree), with_digest=True)
        recorded["filtered"].append([str(tree), reply.results[0].matched_rows, reply.result_digest.hex()])
    verdict = api.server.admin.Verify(pb.VerifyRequest(collection=name, query=api.query(QUERIES[0]), k=50), timeout=60)
    assert verdict.equal, verdict.explanation
    return recorded


def record(api: Api) -> dict:
    """Returns everything that a later version must answer in the same way."""
    infos = api.server.admin.ListCollections(api.pb.ListCollectionsRequest(), timeout=60).collections
    assert not any(info.error for info in infos), infos
    return {"collections": [record_collection(api, info) for info in infos],
            "uploads": {token.decode(): upload_state(api, name, token) for name, token in (("cosine_float32", COMMITTED), (OPEN_COLLECTION, OPEN))}}

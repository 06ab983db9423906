"""Makes collections in other stores with their own packages, and writes down what is in them. Runs in the
environment of requirements-stores.txt:  python stores.py FOLDER

FOLDER/expected.json has a list for each source: {"id", "payload", "attributes", "vector"}, where the vector
is the number of a row of FOLDER/vectors.npy."""

from __future__ import annotations

import datetime as dt
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

ROWS, DIM = 300, 6
UTC = dt.timezone.utc
TEXTS = ["", "plain", "\u00fc \U0001f600 \"quoted\"", "a\nb\tc\\", "x" * 200]


def vectors() -> np.ndarray:
    made = np.random.default_rng(7).standard_normal((ROWS, DIM), np.float32)
    made[:5] = [[0, -0.0, 1, 2, 3, 4], [1e-45, 1, 0, 0, 0, 0], [3e4, 1, 0, 0, 0, 0], [-1, -1, -1, -1, -1, -1], [1, 0, 0, 0, 0, 0]]
    return made


def metadata(i: int) -> dict[str, Any]:
    """Values that an attribute holds, some of them absent."""
    fields: dict[str, Any] = {"count": (-1) ** i * (2**53 + i), "price": i / 7, "good": i % 3 == 0, "word": TEXTS[i % len(TEXTS)]}
    if i % 4:
        fields["year"] = 1990 + i
    return fields


def nested(i: int) -> dict[str, Any]:
    """Also values that only a payload holds."""
    return {**metadata(i), "tags": TEXTS[: i % 4], "deep": {"list": [1, 2.5, None, {"a": []}]}, "Upper": i, "mixed": i if i % 2 else str(i)}


def row(i: int, id: Any, payload: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "payload": payload, "attributes": attributes, "vector": i}


def qdrant_ids() -> list[Any]:
    return [i if i % 2 else f"0f8fad5b-d9cb-469f-a165-7086{i:08d}" for i in range(ROWS)]


def known(i: int) -> dict[str, Any]:
    """The attributes that an import makes of nested(i)."""
    return {**metadata(i), "tags": nested(i)["tags"]}


def make_qdrant_local(folder: Path, rows: np.ndarray) -> dict[str, list[Any]]:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / "qdrant"))
    found = {}
    for name, ids in (("mixed", qdrant_ids()), ("numbers", list(range(ROWS)))):
        client.create_collection(name, models.VectorParams(size=DIM, distance=models.Distance.DOT))
        client.upsert(name, [models.PointStruct(id=ids[i], vector=rows[i].tolist(), payload=nested(i)) for i in range(ROWS)])
        found[f"qdrant {name}"] = [row(i, str(each) if name == "mixed" else each, nested(i), known(i)) for i, each in enumerate(ids)]
    params = {name: models.VectorParams(size=size, distance=models.Distance.EUCLID) for name, size in (("a", DIM), ("b", 2))}
    client.create_collection("named", params, sparse_vectors_config={"words": models.SparseVectorParams()})
    client.upsert("named", [models.PointStruct(id=i, vector={"a": rows[i].tolist(), "b": [1, 2]}) for i in range(ROWS)])
    found["qdrant named"] = [row(i, i, None, {}) for i in range(ROWS)]
    client.close()
    return found


def make_qdrant_snapshots(folder: Path, rows: np.ndarray) -> dict[str, list[Any]]:
    """Writes shards with the engine of Qdrant, in the layout of a server's snapshots: segments in archives of
    their own, or (shard 1) as folders."""
    from qdrant_edge import Distance, EdgeConfig, EdgeShard, EdgeVectorParams, Point, UpdateOperation

    config = EdgeConfig(vectors=EdgeVectorParams(size=DIM, distance=Distance.Euclid))
    for number, part in enumerate((range(200), range(200, ROWS))):
        shard = EdgeShard.create(str(folder / f"shard{number}"), config)
        shard.update(UpdateOperation.upsert_points([Point(i, rows[i].tolist(), nested(i)) for i in part]))
        shard.flush()
        shard.close()
    with tarfile.open(folder / "docs-1-2026-01-31-12-00-00.snapshot", "w") as archive:
        for number in range(2):
            add_shard(archive, folder / f"shard{number}", f"./{number}/", streamable=number == 1)
    with tarfile.open(folder / "shard.snapshot", "w") as archive:
        add_shard(archive, folder / "shard0", "", streamable=True)
    everything = [row(i, i, nested(i), known(i)) for i in range(ROWS)]
    return {"collection snapshot": everything, "shard snapshot": everything[:200]}


def add_shard(archive: tarfile.TarFile, shard: Path, prefix: str, *, streamable: bool) -> None:
    for segment in (shard / "segments").iterdir():
        place = f"{prefix}segments/{segment.name}"
        if streamable:
            archive.add(segment, f"{place}/files")
            continue
        inner = shard / "segment.tar"
        with tarfile.open(inner, "w") as packed:
            packed.add(segment, "snapshot/files")
        archive.add(inner, f"{place}.tar")
    archive.add(shard / "wal", f"{prefix}wal")


def make_chroma(folder: Path, rows: np.ndarray) -> dict[str, list[Any]]:
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(folder / "chroma"), settings=Settings(anonymized_telemetry=False))
    docs = client.create_collection("docs", configuration={"hnsw": {"space": "l2"}}, embedding_function=None)
    texts = [None if i % 5 == 0 else f"{TEXTS[i % 5]} {i}" for i in range(ROWS)]
    docs.add([f"id {i}" for i in range(ROWS)], embeddings=rows, metadatas=[metadata(i) for i in range(ROWS)], documents=texts)
    payloads = [{"metadata": metadata(i)} if text is None else {"text": text, "metadata": metadata(i)} for i, text in enumerate(texts)]
    return {"chroma": [row(i, f"id {i}", payloads[i], metadata(i)) for i in range(ROWS)]}


def make_lance(folder: Path, rows: np.ndarray) -> dict[str, list[Any]]:
    import lancedb
    import pyarrow as pa

    times = [dt.datetime(2024, 5, 17, 9, 30, tzinfo=UTC) + dt.timedelta(microseconds=i) for i in range(ROWS)]
    fields = [{**metadata(i), "tags": TEXTS[: i % 4], "made": times[i], "deep": {"x": i, "y": None}} for i in range(ROWS)]
    schema = pa.schema([
        ("key", pa.string()), ("vector", pa.list_(pa.float32(), DIM)), ("count", pa.int64()), ("price", pa.float64()),
        ("good", pa.bool_()), ("word", pa.string()), ("year", pa.int32()), ("tags", pa.list_(pa.string())),
        ("made", pa.timestamp("us", tz="UTC")), ("deep", pa.struct([("x", pa.int64()), ("y", pa.string())]))])
    table = pa.Table.from_pylist([{"key": f"k{i}", "vector": rows[i], **fields[i]} for i in range(ROWS)], schema)
    database = lancedb.connect(str(folder / "lance"))
    database.create_table("docs", table)
    half = pa.table({"id": np.arange(ROWS) + 10, "vector": pa.FixedSizeListArray.from_arrays(pa.array(rows.astype(np.float16).ravel()), DIM)})
    database.create_table("half", half)
    for each in fields:
        each.setdefault("year", None)
    attributes = [{name: value for name, value in each.items() if name != "deep"} for each in fields]
    for each in (*fields, *attributes):
        each["made"] = each["made"].isoformat()
    return {"lance docs": [row(i, f"k{i}", fields[i], attributes[i]) for i in range(ROWS)],
            "lance half": [row(i, i + 10, None, {}) for i in range(ROWS)]}


def make_faiss(folder: Path, rows: np.ndarray) -> dict[str, list[Any]]:
    import faiss

    ids = np.random.default_rng(8).permutation(10**6)[:ROWS].astype(np.int64)
    ivf = [faiss.IndexIVFFlat(faiss.IndexFlatL2(DIM), DIM, 8) for _ in range(2)]
    ivf.append(faiss.IndexIVFFlat(faiss.IndexFlatIP(DIM), DIM, 8, faiss.METRIC_INNER_PRODUCT))
    for each in ivf:
        each.train(rows[5:])  # without the largest ones
    ivf[0].set_direct_map_type(faiss.DirectMap.Hashtable)
    sparse = faiss.IndexIVFFlat(faiss.IndexFlatL2(DIM), DIM, 250)
    sparse.train(rows[5:])
    indexes = {"flat": faiss.IndexFlatIP(DIM), "map": faiss.IndexIDMap2(faiss.IndexFlatL2(DIM)), "ivf": ivf[0],
               "map_ivf": faiss.IndexIDMap(ivf[1]), "ivf_ip": ivf[2], "sparse": sparse}
    found = {}
    for name, index in indexes.items():
        numbered, few = name in ("flat", "ivf_ip"), rows[:3] if name == "sparse" else rows
        index.add(few) if numbered else index.add_with_ids(few, ids[: len(few)])
        faiss.write_index(index, str(folder / f"{name}.faiss"))
        found[f"faiss {name}"] = [row(i, i if numbered else int(ids[i]), None, {}) for i in range(len(few))]
    graph = faiss.IndexHNSWFlat(DIM, 8)
    graph.add(rows)
    faiss.write_index(graph, str(folder / "graph.faiss"))
    return found


def main(folder: Path) -> None:
    rows = vectors()
    np.save(folder / "vectors.npy", rows)
    expected: dict[str, list[Any]] = {}
    for make in (make_qdrant_local, make_qdrant_snapshots, make_chroma, make_lance, make_faiss):
        expected.update(make(folder, rows))
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Qdrant: the folder of a client in local mode (qdrant-client), and snapshots of a server's
collection or shard (qdrant-edge-py, the engine of Qdrant in the process)."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nearfield._import.found import Choice, Found, ImportRefused, Part, chosen

PAGE_POINTS = 4096
_METRICS = {"Cosine": "cosine", "Dot": "dot", "Euclid": "l2"}
# Scrolls from a point: returns points, and the id of the next one or None.
Scroll = Callable[[Any], tuple[list[Any], Any]]


def open_local(path: Path, stack: ExitStack, choice: Choice) -> Found:
    """Opens a folder of qdrant-client's local mode until the stack is closed. No other process may
    have it open."""
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(path))
    stack.callback(client.close)
    names = [each.name for each in client.get_collections().collections]
    name = chosen(path, "collection", "--from", choice.collection, names)
    params = client.get_collection(name).config.params
    vectors = params.vectors or {}
    named = vectors if isinstance(vectors, dict) else {"": vectors}
    vector = _vector(path, choice, list(named), list(params.sparse_vectors or {}))
    wanted = named[vector]
    if wanted.multivector_config is not None:
        raise _several(path, vector)

    def scroll(offset: Any) -> tuple[list[Any], Any]:
        found: tuple[list[Any], Any] = client.scroll(
            name,
            limit=PAGE_POINTS,
            offset=offset,
            with_payload=True,
            with_vectors=[vector] if vector else True,
        )
        return found

    metric = _METRICS.get(str(wanted.distance.value), "")
    return _found(path, Found(name, wanted.size, metric), vector, [scroll])


def open_snapshot(path: Path, folder: Path, choice: Choice) -> Found:
    """Opens a snapshot of a collection, or of one of its shards. folder: an empty one, for the
    files in it; the snapshot is not changed."""
    from qdrant_edge import EdgeShard, ScrollRequest

    shards = _unpacked(path, folder)
    vectors, sparse = _declared(path, shards[0])
    vector = _vector(path, choice, list(vectors), sparse)
    wanted = vectors[vector]
    if wanted.get("multivector_config"):
        raise _several(path, vector)
    with_vector = [vector] if vector else True

    def scroll_of(shard: Path) -> Scroll:
        opened = EdgeShard.load(str(shard))
        return lambda offset: opened.scroll(
            ScrollRequest(
                offset=offset, limit=PAGE_POINTS, with_payload=True, with_vector=with_vector
            )
        )

    # A server names the file COLLECTION-PEER-TIME.snapshot.
    name = re.sub(r"-\d+-\d{4}(-\d\d){5}$", "", path.stem)
    metric = _METRICS.get(wanted["distance"], "")
    return _found(path, Found(name, wanted["size"], metric), vector, [*map(scroll_of, shards)])


def _unpacked(path: Path, folder: Path) -> list[Path]:
    """Unpacks the shards of a snapshot; returns their folders."""
    from qdrant_edge import EdgeShard

    try:
        with tarfile.open(path, "r:") as archive:
            places = [each.name.removeprefix("./").split("/") for each in archive]
            names = sorted({each[0] for each in places if each[1:2] == ["segments"]})
            archives = [_copy_shard(archive, name, folder) for name in names]
    except (tarfile.TarError, EOFError) as error:
        raise ImportRefused(f"{path}: {error}") from None
    if any(place[0] == "segments" for place in places):
        archives = [path]
    if not archives:
        raise ImportRefused(f"{path}: no folder segments, so it is no snapshot of Qdrant")
    found = []
    for number, each in enumerate(archives):
        found.append(folder / f"shard-{number}")
        EdgeShard.unpack_snapshot(str(each), str(found[-1]))
    return found


def _copy_shard(archive: tarfile.TarFile, shard: str, folder: Path) -> Path:
    """Writes the files of a shard of a collection as a snapshot of this shard."""
    path = folder / f"{shard}.tar"
    with tarfile.open(path, "w:") as copy:
        for each in archive:
            first, _, rest = each.name.removeprefix("./").partition("/")
            if first == shard and rest and each.isreg():
                kept = tarfile.TarInfo(rest)
                kept.size = each.size
                copy.addfile(kept, archive.extractfile(each))
    return path


def _declared(path: Path, shard: Path) -> tuple[dict[str, Any], list[str]]:
    """Returns the vectors that the segments of a shard declare by name, and the names of sparse
    ones."""
    for state in sorted(shard.glob("segments/*/segment.json")):
        config = json.loads(state.read_text("utf-8"))["config"]
        return config.get("vector_data", {}), list(config.get("sparse_vector_data", {}))
    raise ImportRefused(f"{path}: a snapshot without segments")


def _vector(path: Path, choice: Choice, dense: list[str], sparse: list[str]) -> str:
    """Returns the name of the vectors to read. Nothing is left out that was not named."""
    if sparse and not choice.vector:
        raise ImportRefused(
            f"{path}: it also has sparse vectors ({', '.join(sparse)}), which cannot be imported;"
            f" --vector says which to import: {', '.join(map(repr, dense)) or 'there is none'}"
        )
    return chosen(path, "vector", "--vector", choice.vector, dense)


def _several(path: Path, vector: str) -> ImportRefused:
    return ImportRefused(f"{path}: vector {vector!r} has several vectors for each point")


def _found(path: Path, found: Found, vector: str, scrolls: list[Scroll]) -> Found:
    def pages() -> Iterator[list[Any]]:
        for scroll in scrolls:
            points, offset = scroll(None)
            yield points
            while offset is not None:
                points, offset = scroll(offset)
                yield points

    def parts() -> Iterator[Part]:
        for points in filter(None, pages()):
            vectors = [_dense(path, vector, point) for point in points]
            fields = [dict(point.payload or {}) for point in points]
            yield Part(
                [each.id if isinstance(each.id, int) else str(each.id) for each in points],
                np.array(vectors, np.float32),
                fields,
                [each or None for each in fields],
            )

    return replace(found, parts=parts)


def _dense(path: Path, name: str, point: Any) -> Any:
    found = point.vector
    if isinstance(found, dict):
        found = found.get(name)
    if found is None:
        raise ImportRefused(f"{path}: point {point.id} has no vector {name!r}; every row needs one")
    return found

"""The index of a folder: one row for each passage, and unchanged files are skipped.

A row has the id `source#number`, the payload {"text": passage} and the attributes source (its path
in the folder), position (its first line) and digest (of the file and the model). A file is
unchanged if all of its rows have the digest that it has now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearfield._client import Client
from nearfield._collection import Collection
from nearfield._embed import Embedder
from nearfield._errors import NotFound
from nearfield._filter import F
from nearfield._text import TextError
from nearfield._text.passages import SUFFIXES, Cut, digest_of, find_files, read_passages

ATTRIBUTES = {"source": "keyword", "position": "int64", "digest": "keyword"}
# Texts that are embedded and packed together.
BATCH_PASSAGES = 128
# Files that are committed together, by their size: what an interruption loses.
GROUP_BYTES = 1 << 20
NAME_BYTES_MAX = 63

Progress = Callable[[int, int, int], None]


@dataclass
class Indexed:
    """The outcome. gone: sources with rows whose files do not exist any more."""

    files: int = 0
    unchanged: int = 0
    passages: int = 0
    deleted: int = 0
    gone: list[str] = field(default_factory=list)


def collection_name(folder: Path) -> str:
    """Returns the name of a folder as a collection can have it."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-._")
    return name[:NAME_BYTES_MAX] or "text"


def open_collection(client: Client, name: str, embedder: Embedder) -> Collection:
    """Returns the collection of an index; creates it if there is none. Raises TextError or
    EmbedError."""
    try:
        info = client.get_collection(name)
    except NotFound:
        return client.create_collection(
            name,
            embedder.dim,
            metric="cosine",
            id_type="string",
            attributes=ATTRIBUTES,
            embedding_model=embedder.name,
            if_missing=True,
        )
    embedder.check(info)
    found = {each.name: each.text for each in info.attributes}
    for attribute, kind in ATTRIBUTES.items():
        if found.get(attribute) != kind:
            raise TextError(
                f"collection {name!r} has no attribute {attribute}:{kind}: it was not made by"
                " nearfield text; give another --collection"
            )
    return client.collection(name)


def index_folder(
    docs: Collection, folder: Path, embedder: Embedder, cut: Cut, *, prune: bool, progress: Progress
) -> Indexed:
    """Makes the rows of every file what they should be. Committed file by file or in groups of
    small files: an interrupted run is continued by the next one."""
    sources = _sources(folder)
    stored = _stored(docs)
    outcome = Indexed(files=len(sources))
    context = (embedder.name, str(cut.chars_max), *cut.fields)
    group: list[tuple[str, str]] = []
    size = 0
    for number, source in enumerate(sources, 1):
        digest = digest_of(folder / source, *context)
        if stored.get(source) == {digest}:
            outcome.unchanged += 1
            continue
        group.append((source, digest))
        size += (folder / source).stat().st_size
        if size >= GROUP_BYTES:
            _commit(docs, _Rows(folder, group, embedder, cut), stored, outcome)
            group, size = [], 0
        progress(number, len(sources), outcome.passages)
    _commit(docs, _Rows(folder, group, embedder, cut), stored, outcome)
    progress(len(sources), len(sources), outcome.passages)
    outcome.gone = sorted(stored.keys() - set(sources))
    if prune:
        for source in outcome.gone:
            outcome.deleted += docs.delete(filter=F.source == source).rows_deleted
        outcome.gone = []
    return outcome


def _sources(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise TextError(f"{folder}: no such folder")
    sources = find_files(folder)
    if not sources:
        raise TextError(f"{folder}: no file in it ends in {', '.join(SUFFIXES)}")
    return sources


def _stored(docs: Collection) -> dict[str, set[str]]:
    """Returns the digests of the rows of each source."""
    found: dict[str, set[str]] = {}
    for page in docs.scan(payload=False, vectors=False, attributes=["source", "digest"]):
        columns = page.attributes
        for source, digest in zip(columns["source"], columns["digest"], strict=True):
            found.setdefault(source or "", set()).add(digest or "")
    return found


@dataclass
class _Rows:
    """The rows of a group of files, as batches of columns."""

    folder: Path
    group: list[tuple[str, str]]
    embedder: Embedder
    cut: Cut

    def batches(self) -> Iterator[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for row in self._rows():
            rows.append(row)
            if len(rows) == BATCH_PASSAGES:
                yield self._batch(rows)
                rows = []
        if rows:
            yield self._batch(rows)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for source, digest in self.group:
            passages = read_passages(self.folder / source, self.cut)
            for number, passage in enumerate(passages, 1):
                yield {
                    "id": f"{source}#{number}",
                    "payload": {"text": passage.text},
                    "source": source,
                    "position": passage.position,
                    "digest": digest,
                }

    def _batch(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        vectors = self.embedder.documents([row["payload"]["text"] for row in rows])
        return {"vector": vectors, **{name: [row[name] for row in rows] for name in rows[0]}}


def _commit(docs: Collection, rows: _Rows, stored: dict[str, set[str]], outcome: Indexed) -> None:
    """Uploads the rows of a group, then deletes rows that its files had before and have no more."""
    batches = rows.batches()
    first = next(batches, None)
    if first is not None:
        outcome.passages += docs.upload(_chained(first, batches), mode="upsert").rows_count
    for source, digest in rows.group:
        if source in stored:
            stale = (F.source == source) & (F.digest != digest)
            outcome.deleted += docs.delete(filter=stale).rows_deleted


def _chained(first: dict[str, Any], rest: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield first
    yield from rest

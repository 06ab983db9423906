"""Index files of FAISS that hold the vectors themselves: flat, IVF-flat, and either with ids. They
are mapped and read without FAISS, because its reader allocates what a damaged header asks for.

Source: the format of faiss/impl/index_write.cpp, FAISS 1.15. Numbers are little-endian."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._import.found import Choice, Found, ImportRefused, Part
from nearfield._sources.source import BATCH_ROWS

FLAT = {b"IxFI": "dot", b"IxF2": "l2", b"IxFl": ""}
IVF_FLAT = b"IwFl"
ID_MAPS = (b"IxMp", b"IxM2")
_METRICS = {0: "dot", 1: "l2"}
_HASH_TABLE = 2  # a kind of direct map


def is_faiss(first: bytes) -> bool:
    """first: the first four bytes of a file. Every index of FAISS begins with I and three more."""
    return len(first) == 4 and first[:1] == b"I" and first[1:].isalnum()


@dataclass(frozen=True)
class _Index:
    """dim and metric; lists: vectors [n, dim] with their ids [n], or None if they are numbered."""

    dim: int
    metric: str
    rows: int
    lists: list[tuple[NDArray[Any], NDArray[Any] | None]]


class _Reader:
    """Reads a mapped file from its beginning. Nothing is allocated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data: Any = np.memmap(path, np.uint8, "r")
        self._at = 0

    def array(self, field: str, kind: str, count: int) -> NDArray[Any]:
        size = np.dtype(kind).itemsize
        left = len(self._data) - self._at
        if count > left // size:
            raise self.refused(
                f"{field} = {count}, which takes {count * size} bytes; {left} follow"
            )
        begin, self._at = self._at, self._at + count * size
        return np.frombuffer(self._data, kind, count, begin)

    def number(self, field: str, kind: str) -> int:
        return int(self.array(field, kind, 1)[0])

    def vector(self, field: str, kind: str, per_element: int = 1) -> NDArray[Any]:
        """Reads a number of elements, and the elements."""
        return self.array(field, kind, self.number(field, "<u8") * per_element)

    def kind(self) -> bytes:
        return self.array("kind", "u1", 4).tobytes()

    def refused(self, text: str) -> ImportRefused:
        return ImportRefused(f"{self._path}: byte {self._at}: {text}")


def _header(reader: _Reader) -> tuple[int, int, str]:
    """Returns the dimension, the rows and the metric."""
    dim, rows = reader.number("d", "<i4"), reader.number("ntotal", "<i8")
    if dim < 1 or rows < 0:
        raise reader.refused(f"d = {dim}, ntotal = {rows}; a header has d >= 1 and ntotal >= 0")
    reader.array("unused fields", "<i8", 2)
    reader.number("is_trained", "u1")
    metric = reader.number("metric_type", "<i4")
    if metric > 1:
        reader.number("metric_arg", "<f4")
    return dim, rows, _METRICS.get(metric, "")


def _flat(reader: _Reader) -> _Index:
    dim, rows, metric = _header(reader)
    numbers = reader.vector("codes", "<f4")
    if len(numbers) != rows * dim:
        raise reader.refused(f"{len(numbers)} numbers for ntotal = {rows} vectors of d = {dim}")
    return _Index(dim, metric, rows, [(numbers.reshape(rows, dim), None)])


def _ivf_flat(reader: _Reader) -> _Index:
    dim, rows, metric = _header(reader)
    lists_count = reader.number("nlist", "<u8")
    reader.number("nprobe", "<u8")
    kind = reader.kind()
    if kind not in FLAT:
        raise reader.refused(f"a quantizer of the kind {kind!r}; a flat one is read")
    _flat(reader)
    direct_map = reader.number("direct_map", "u1")
    reader.vector("direct_map.array", "<i8")
    if direct_map == _HASH_TABLE:
        reader.vector("direct_map.hashtable", "<i8", 2)
    kind = reader.kind()
    if kind != b"ilar":
        raise reader.refused(f"inverted lists of the kind {kind!r}; b'ilar' is read")
    if (count := reader.number("nlist", "<u8")) != lists_count:
        raise reader.refused(f"nlist = {count} of the lists, {lists_count} of the index")
    if (size := reader.number("code_size", "<u8")) != 4 * dim:
        raise reader.refused(f"code_size = {size}, must be {4 * dim} for d = {dim}")
    lists: list[tuple[NDArray[Any], NDArray[Any] | None]] = []
    for length in _list_lengths(reader, lists_count):
        vectors = reader.array("codes of a list", "<f4", length * dim).reshape(length, dim)
        lists.append((vectors, reader.array("ids of a list", "<i8", length)))
    if (total := sum(len(vectors) for vectors, _ in lists)) != rows:
        raise reader.refused(f"the lists have {total} vectors, ntotal = {rows}")
    return _Index(dim, metric, rows, lists)


def _list_lengths(reader: _Reader, lists_count: int) -> Iterator[int]:
    """Yields the lengths of the lists that are not empty."""
    kind = reader.kind()
    if kind == b"full":
        lengths = reader.vector("sizes", "<u8")
        if len(lengths) != lists_count:
            raise reader.refused(f"{len(lengths)} sizes for nlist = {lists_count}")
    elif kind == b"sprs":
        lengths = reader.vector("sizes", "<u8")[1::2]  # each list has its number before its size
    else:
        raise reader.refused(f"list sizes of the kind {kind!r}; b'full' and b'sprs' are read")
    return (int(length) for length in lengths[lengths > 0])


def _index(reader: _Reader, *, in_map: bool = False) -> _Index:
    kind = reader.kind()
    if kind in FLAT:
        return _flat(reader)
    if kind == IVF_FLAT:
        return _ivf_flat(reader)
    if kind not in ID_MAPS or in_map:
        raise reader.refused(
            f"an index of the kind {kind!r}; those that hold exact vectors are read: IndexFlat,"
            " IndexIVFFlat, and IndexIDMap of either"
        )
    dim, rows, _ = _header(reader)
    inner = _index(reader, in_map=True)
    ids = reader.vector("id_map", "<i8")
    if (inner.dim, inner.rows, len(ids)) != (dim, rows, rows):
        raise reader.refused(
            f"{len(ids)} ids and {inner.rows} vectors of d = {inner.dim} for ntotal = {rows} and"
            f" d = {dim}"
        )
    return _Index(
        dim, inner.metric, rows, [(each, _mapped(reader, ids, at)) for each, at in inner.lists]
    )


def _mapped(reader: _Reader, ids: NDArray[Any], places: NDArray[Any] | None) -> NDArray[Any]:
    if places is None:
        return ids
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(ids):
        raise reader.refused(f"a list names the place {places.max()} of {len(ids)} ids")
    found: NDArray[Any] = ids[places]
    return found


def open_faiss(path: Path, choice: Choice) -> Found:
    """Maps an index file. Raises ImportRefused for one that does not hold the vectors, or that is
    damaged."""
    index = _index(_Reader(path))
    for _, ids in index.lists:
        if ids is not None and len(ids) and int(ids.min()) < 0:
            raise ImportRefused(f"{path}: the id {ids.min()}; ids must not be negative")
    if len(index.lists) == 1:
        ((vectors, ids),) = index.lists
        numbers = None if ids is None else ids.astype(np.uint64)
        return Found(path.stem, index.dim, index.metric, array=vectors, ids=numbers)

    def parts() -> Iterator[Part]:
        for vectors, ids in index.lists:
            for at in range(0, len(vectors), BATCH_ROWS):
                part = slice(at, at + BATCH_ROWS)
                yield Part(None if ids is None else ids[part].tolist(), vectors[part])

    return Found(path.stem, index.dim, index.metric, parts=parts)

"""Documents of LangChain and LlamaIndex as rows: a payload {"text": ..., "metadata": {...}}, and
attributes of the metadata that the collection declares."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._arguments import several
from nearfield._attributes import Attribute, convert, time_of
from nearfield._changes import Updated, Uploaded
from nearfield._collection import AsyncCollection
from nearfield._errors import FailedPrecondition
from nearfield._filter import FilterLike
from nearfield._records import Limits
from nearfield._results import Rows
from nearfield._sources.source import compact_json
from nearfield._values import listed

METADATA_KEY = "metadata"
# The part of Limits.response_bytes_max that the rows of one fetch may take.
_REPLY_PART = 2


@dataclass(frozen=True)
class Document:
    """One row. metadata: JSON, and the attributes that the payload does not have."""

    id: str
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """Documents that can be stored, without their vectors."""

    ids: list[str]
    payloads: list[bytes]
    attributes: dict[str, list[Any]]

    async def upload(self, docs: AsyncCollection, vectors: NDArray[Any]) -> Uploaded:
        """Adds the documents as one commit; replaces those whose id exists."""
        return await docs.upload(
            vectors,
            ids=self.ids,
            payloads=self.payloads,
            attributes=self.attributes,
            mode="upsert",
            zero_rows="accept",  # an empty text may have no direction
        )

    async def update(self, docs: AsyncCollection, epoch: int, incarnation: int) -> Updated:
        """Replaces payloads and attributes of documents that were read at this epoch. Raises
        FailedPrecondition if there is a later one."""
        return await docs.update(
            self.ids,
            payloads=self.payloads,
            attributes=self.attributes,
            if_epoch=epoch,
            incarnation=incarnation,
        )


async def prepare(
    docs: AsyncCollection,
    text_key: str,
    texts: Sequence[str],
    metadatas: Sequence[Mapping[str, Any] | None] | None,
    ids: Sequence[str | None] | None,
) -> Batch:
    """Checks documents before their texts are embedded. Raises TypeError or ValueError for one that
    cannot be stored; the message has its place, its id and the key of its metadata."""
    deadline = docs._core.deadline(None)
    limits = await docs._core.limits(deadline)
    info = await docs._core.info(docs.name, deadline, fresh=True)
    if info.id_type != "string":
        raise TypeError(
            f"collection {info.name!r}: ids of type {info.id_type}; documents need string"
        )
    declared = info.declared
    metadatas = None if metadatas is None else several("metadatas", metadatas)
    ids = None if ids is None else several("ids", ids)
    for field, values in (("metadatas", metadatas), ("ids", ids)):
        if values is not None and len(values) != len(texts):
            raise ValueError(f"{field}: {len(values)} for {len(texts)} texts")
    names = [each or str(uuid.uuid4()) for each in ([None] * len(texts) if ids is None else ids)]
    batch = Batch(names, [], {name: [] for name in declared})
    for i, (name, text) in enumerate(zip(names, texts, strict=True)):
        _check_text(f"ids[{i}]", name, limits.id_bytes_max)
        _check_text(f"texts[{i}]", text, limits.payload_bytes_max)
        where = f"metadatas[{i}] (id {name!r})"
        given = None if metadatas is None else metadatas[i]
        if not isinstance(given, (Mapping, type(None))):
            raise TypeError(f"{where}: {given!r}, must be a dict or None")
        metadata = to_json(given or {}, where)
        try:
            payload = compact_json({text_key: text, METADATA_KEY: metadata})
        except UnicodeEncodeError as error:
            raise ValueError(f"{where}: {error}") from None
        if len(payload) > limits.payload_bytes_max:
            raise ValueError(
                f"{where}: {len(payload)} bytes with the text; the server accepts"
                f" {limits.payload_bytes_max}"
            )
        batch.payloads.append(payload)
        for each in declared.values():
            value = attribute_value(each, metadata.get(each.name), f"{where}: {each.name}", limits)
            batch.attributes[each.name].append(value)
    return batch


def _check_text(where: str, value: Any, bytes_max: int) -> None:
    """Raises TypeError or ValueError, with `where`, unless a value is a text that can be stored."""
    if not isinstance(value, str):
        raise TypeError(f"{where}: {value!r}, must be a text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: {error}") from None
    if size > bytes_max:
        raise ValueError(f"{where}: {size} bytes; the server accepts {bytes_max}")


def to_json(value: Any, where: str) -> Any:
    """Returns a value of metadata as JSON has it: times as ISO 8601, UUIDs and paths as texts.
    Raises TypeError or ValueError, with `where`, for one that would change."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "mM":
        value = value.tolist()  # nanoseconds would become numbers
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, (str, uuid.UUID, PurePath)):
        return str(value)
    if isinstance(value, (dt.datetime, dt.date, dt.time)) and value == value:  # not pandas.NaT
        return value.isoformat()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where}: {value} has no form in JSON; leave it out, or give None")
        return float(value)
    if isinstance(value, (list, tuple)):
        return [to_json(each, f"{where}[{i}]") for i, each in enumerate(value)]
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{where}: {value!r} ({type(value).__name__}) has no form in JSON; give a number, a"
            " text, a time, a list or a dict"
        )
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"{where}: the key {name!r} is no text")
    return {name: to_json(each, f"{where}: {name}") for name, each in value.items()}


def attribute_value(attribute: Attribute, value: Any, where: str, limits: Limits) -> Any:
    """Returns a value of to_json() as the declared attribute takes it."""

    def one(value: Any) -> Any:
        value = convert(attribute, time_of(attribute, value, where), where)
        if isinstance(value, str):
            _check_text(where, value, limits.attribute_keyword_bytes_max)
        return value

    if value is None:
        return None
    if not attribute.is_list:
        return one(value)
    if not isinstance(value, list):
        raise TypeError(f"{where}: {value!r}; the attribute is declared {attribute.text}")
    if len(value) > limits.attribute_list_values_max:
        raise ValueError(
            f"{where}: {len(value)} values; the server accepts {limits.attribute_list_values_max}"
        )
    return [one(each) for each in value]


def read_documents(rows: Rows, text_key: str) -> list[Document]:
    """Returns rows as documents. A payload that is no JSON object is the text itself. Raises
    ValueError, with the id of the row, for one without a text."""
    columns = rows.attributes
    found = []
    for i, (name, payload) in enumerate(zip(listed(rows.ids), rows.payloads, strict=True)):
        metadata = {key: each[i] for key, each in columns.items() if each[i] is not None}
        text = _read_payload(f"row {name!r}", payload, text_key, metadata)
        found.append(Document(str(name), text, metadata))
    return found


def _read_payload(where: str, payload: bytes, text_key: str, metadata: dict[str, Any]) -> str:
    """Returns the text; adds the other members to the metadata."""
    if not payload:
        raise ValueError(f"{where}: it has no payload, and so no text")
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{where}: its payload is no text of UTF-8") from None
    try:
        stored = json.loads(text)
    except ValueError:
        return text
    if not isinstance(stored, dict):
        return text
    found = stored.pop(text_key, None)
    if not isinstance(found, str):
        members = ", ".join(stored) or "none"
        raise ValueError(
            f"{where}: its payload has no text {text_key!r}; the members are {members}: name the"
            " one that has the text with text_key="
        )
    inner = stored.pop(METADATA_KEY, None) or {}
    metadata.update(stored)
    metadata.update(inner if isinstance(inner, dict) else {METADATA_KEY: inner})
    return found


def revised(document: Document, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metadata of a document of LangChain with new members."""
    return {**document.metadata, **changes}


async def update_documents(
    docs: AsyncCollection,
    text_key: str,
    ids: Sequence[str],
    metadatas: Sequence[Mapping[str, Any]],
    revise: Callable[[Document, Mapping[str, Any]], dict[str, Any]] = revised,
) -> list[str]:
    """Adds members to the metadata of stored documents, or replaces them; texts and vectors stay.
    Returns the ids that exist. Each call of the server is atomic, and takes as many documents as
    surely fit into a reply. revise: makes the new metadata."""
    ids, metadatas = several("ids", ids), several("metadatas", metadatas)
    if len(ids) != len(metadatas):
        raise ValueError(f"metadatas: {len(metadatas)} for {len(ids)} ids")
    for i, each in enumerate(metadatas):
        if not isinstance(each, Mapping):
            raise TypeError(f"metadatas[{i}] (id {ids[i]!r}): {each!r}, must be a dict")
    changes = dict(zip(ids, metadatas, strict=True))
    if len(changes) < len(ids):
        raise ValueError(f"ids: {next(each for each in ids if ids.count(each) > 1)!r} twice")
    updated = []
    for some in parts(ids, await _fetch_max(docs)):
        updated += await _update_some(
            docs, text_key, some, lambda each: revise(each, changes[each.id])
        )
    return updated


async def _update_some(
    docs: AsyncCollection,
    text_key: str,
    ids: Sequence[str],
    revise: Callable[[Document], dict[str, Any]],
) -> list[str]:
    """Reads documents and updates them, again if another commit came in between."""
    epoch = None
    while True:
        rows = await docs.fetch(ids, vectors=False, attributes="*")
        found = read_documents(rows, text_key)
        if not found:
            return []
        texts, names = [each.text for each in found], [each.id for each in found]
        batch = await prepare(docs, text_key, texts, list(map(revise, found)), names)
        try:
            await batch.update(docs, rows.epoch, rows.incarnation)
            return names
        except FailedPrecondition:
            if rows.epoch == epoch:  # no other commit is the reason
                raise
            epoch = rows.epoch


async def fetch_documents(
    docs: AsyncCollection, ids: Sequence[str], text_key: str
) -> list[Document]:
    """Returns the documents that exist, in the order of the ids. Any number: one call for as many
    as surely fit into a reply."""
    ids = several("ids", ids)
    found = []
    for some in parts(ids, await _fetch_max(docs)):
        rows = await docs.fetch(some, vectors=False, attributes="*")
        found += read_documents(rows, text_key)
    return found


async def _fetch_max(docs: AsyncCollection) -> int:
    """Returns the number of documents that surely fit into a reply."""
    limits = await docs._core.limits(docs._core.deadline(None))
    row_bytes = limits.payload_bytes_max + limits.attribute_row_bytes_max + limits.id_bytes_max
    return max(1, min(limits.fetch_ids_max, limits.response_bytes_max // _REPLY_PART // row_bytes))


async def delete_documents(docs: AsyncCollection, ids: Sequence[str]) -> None:
    """Deletes documents by id. Each call is atomic, and takes at most Limits.fetch_ids_max ids."""
    ids = several("ids", ids)
    limits = await docs._core.limits(docs._core.deadline(None))
    for some in parts(ids, limits.fetch_ids_max):
        await docs.delete(some)


async def delete_chosen(
    docs: AsyncCollection, ids: list[str] | None, filter: FilterLike | None, all: bool
) -> bool:
    """Deletes documents by exactly one of ids, filter and all. Raises TypeError otherwise."""
    if not isinstance(all, bool):
        raise TypeError(f"all: {all!r}, must be True or False")
    if (ids is not None) + (filter is not None) + all != 1:
        raise TypeError("give exactly one of ids, filter= and all=True, which deletes every row")
    if all:
        await docs.upload([], mode="replace")
    elif ids is not None:
        await delete_documents(docs, ids)
    else:
        await docs.delete(filter=filter)
    return True


def parts(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yields at most `size` values at a time."""
    return (values[begin : begin + size] for begin in range(0, len(values), size))


def check_vectors(vectors: Any, texts: int) -> NDArray[Any]:
    """Returns what an embedding made of some texts as an array [texts, dim]."""
    array = np.asarray(vectors, np.float32)
    if array.ndim != 2 or len(array) != texts:
        raise ValueError(
            f"the embedding made vectors of shape {list(array.shape)} of {texts} texts"
        )
    return array


@contextlib.contextmanager
def showing(
    progress: bool | Callable[[int, int], None], total: int
) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of texts that are embedded. progress: True draws a
    bar with tqdm; a function is called with that number and the total."""
    if callable(progress):
        report = progress
        yield lambda done: report(done, total)
    elif not progress:
        yield lambda done: None
    else:
        from tqdm.auto import tqdm

        with tqdm(total=total, unit="text") as bar:

            def advance(done: int) -> None:
                bar.update(done - bar.n)

            yield advance

"""Words in and words out: calls of a collection that make the vectors of texts with a model."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._arguments import check_names_of, several
from nearfield._core import Core
from nearfield._embed import Embed, known_embedder
from nearfield._records import CollectionInfo, Limits
from nearfield._row_calls import RowCalls, UploadMode
from nearfield._sources.arrays import array_source
from nearfield._sources.source import Spec
from nearfield._values import Ids, IdsLike, to_ids

TEXT_KEY = "text"  # the member of a payload that has the text


@dataclass(frozen=True)
class Added:
    """Texts that were added.

    ids            of the rows, in the order of the texts
    epoch          the first epoch that shows the rows, and its incarnation
    rows_replaced  rows of earlier epochs that were replaced
    """

    ids: Ids
    epoch: int
    incarnation: int
    rows_replaced: int


async def query_vectors(
    core: Core, name: str, text: str | Iterable[str], embed: Embed | None, deadline: float | None
) -> NDArray[np.float32]:
    """Returns the vector [dim] of a text to search with, or of several texts [texts, dim]. Raises
    EmbedError if the collection has vectors of another model."""
    texts = [text] if isinstance(text, str) else several("text", text)
    info = await core.info(name, deadline, fresh=True)

    def make() -> NDArray[np.float32]:
        embedder = known_embedder(embed)
        embedder.check_name(info)
        vectors = embedder.queries(texts)
        embedder.check(info)
        return vectors

    vectors = await core.transport.compute(make)
    return vectors[0] if isinstance(text, str) else vectors


@check_names_of
class TextCalls(RowCalls):
    """Uploads of texts to one collection."""

    async def add_texts(
        self,
        texts: Iterable[str],
        *,
        embed: Embed | None = None,
        ids: IdsLike | None = None,
        attributes: Mapping[str, Any] | None = None,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
        mode: UploadMode = "insert",
        timeout: float | None = None,
    ) -> Added:
        """Makes the vectors of texts and adds them as one atomic, durable commit. A row's payload
        is {"text": ...}; search(text=...) finds it. All but the vectors is checked before the model
        is called. Raises EmbedError if the collection has vectors of another model.

        embed       the model: a function from a list of texts to one vector for each, an Embedder,
                    or a text such as "fastembed:BAAI/bge-small-en-v1.5"; by default NEARFIELD_EMBED
        ids         one for each text; by default random ones, UUIDs or numbers below 2**63
        attributes  as in upload(): a column for each name
        payloads    a dict for each text: further members of its payload
        mode        as in upload(): "upsert" replaces rows whose ids exist
        timeout     seconds of the upload, without the time of the model; None: no limit"""
        deadline = self._core.deadline(None)
        limits = await self._core.limits(deadline)
        info = await self._core.info(self.name, deadline, fresh=True)
        given = several("texts", texts)
        names = _new_ids(info, len(given)) if ids is None else to_ids(ids)
        rows = _payloads(given, payloads)

        def make() -> NDArray[np.float32]:
            embedder = known_embedder(embed)
            embedder.check_name(info)
            _check(info, limits, names, attributes, rows)
            vectors = embedder.documents(given)
            embedder.check(info)
            return vectors

        vectors = await self._core.transport.compute(make)
        done = await self.upload(
            vectors,
            ids=names,
            payloads=rows,
            attributes=attributes,
            mode=mode,
            zero_rows="accept",  # an empty text may have no direction
            timeout=timeout,
        )
        return Added(names, done.epoch, done.incarnation, done.rows_replaced)


def _new_ids(info: CollectionInfo, count: int) -> Ids:
    if info.id_type == "string":
        return [str(uuid.uuid4()) for _ in range(count)]
    return np.array([secrets.randbits(63) for _ in range(count)], np.uint64)


def _payloads(
    texts: list[Any], payloads: Sequence[Mapping[str, Any] | None] | None
) -> list[dict[str, Any]]:
    more = [None] * len(texts) if payloads is None else several("payloads", payloads)
    if len(more) != len(texts):
        raise ValueError(f"payloads: {len(more)} for {len(texts)} texts")
    for i, (text, each) in enumerate(zip(texts, more, strict=True)):
        if not isinstance(text, str):
            raise TypeError(f"texts[{i}]: {text!r}, must be a text")
        if each is not None and (not isinstance(each, Mapping) or TEXT_KEY in each):
            raise TypeError(f"payloads[{i}]: {each!r:.60}; a dict without {TEXT_KEY!r}, or None")
    return [{TEXT_KEY: text, **(each or {})} for text, each in zip(texts, more, strict=True)]


def _check(
    info: CollectionInfo,
    limits: Limits,
    ids: Ids,
    attributes: Mapping[str, Any] | None,
    payloads: list[dict[str, Any]],
) -> None:
    """Packs the rows with vectors of zeros, which take no memory. Raises as upload()."""
    zeros = np.broadcast_to(np.float32(0), (len(payloads), info.dim))
    spec = Spec(info, ids, None, attributes, payloads, limits)
    for _ in array_source(spec, zeros).batches():
        pass


def declared_model(embed: Embed, dim: int | None, embedding_model: str) -> tuple[int, str]:
    """Returns the dimension and the name of the model of a collection that is created for a model.
    Calls the model once. Raises TypeError for another dimension or name."""
    embedder = known_embedder(embed)
    for name, given, made in (
        ("dim", dim, embedder.dim),
        ("embedding_model", embedding_model or None, embedder.name),
    ):
        if given is not None and given != made:
            raise TypeError(f"{name}: {given!r}; the model of embed= has {made!r}")
    return embedder.dim, embedder.name

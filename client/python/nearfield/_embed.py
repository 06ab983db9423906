"""Embedder: a model that makes vectors of texts, as `embed=` and --embed take it."""

from __future__ import annotations

import functools
import inspect
import reprlib
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._identity import given
from nearfield._records import CollectionInfo

#: A function from a list of texts to one vector for each.
Make = Callable[[list[str]], Any]
Floats = NDArray[np.float32]
# Texts of one call of a model: bounds its memory, and the size of a request.
BATCH_TEXTS = 64
FORMS = (
    "fastembed:MODEL, sentence-transformers:MODEL, either with @FOLDER, openai:MODEL@URL or"
    " MODULE:FUNCTION"
)
#: The model of `nearfield text`, which is also that of `nearfield demo`.
DEFAULT = "fastembed:sentence-transformers/all-MiniLM-L6-v2"


class EmbedError(ValueError):
    """A model that cannot be loaded, that has failed, or that is not the collection's. If a library
    or a server has refused, `__cause__` is its exception."""


class Embedder:
    """A model that makes vectors of texts. Use it where the model has one function for the texts
    that are found and another for those that are searched with. Thread safety: any number of
    threads; they call the model one at a time.

    documents  a function from a list of texts to one vector for each, for texts to be found
    queries    the same for texts to search with; by default `documents`
    name       of the model: a collection that has the name of another model refuses this one
    """

    def __init__(self, documents: Make, queries: Make | None = None, *, name: str = "") -> None:
        if not isinstance(name, str):
            raise TypeError(f"name: {name!r}, must be a text")
        self.name = name
        self._documents = documents
        self._queries = queries or documents
        self._dim = 0  # unknown
        self._lock = threading.Lock()

    @property
    def dim(self) -> int:
        """The dimension of the vectors; the model is called once to find it."""
        return self._dim or len(self.query("a text"))

    def documents(self, texts: Sequence[str]) -> Floats:
        """Returns [texts, dim] vectors of texts to be found. Raises EmbedError."""
        return self._batches(self._documents, texts)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Returns [texts, dim] vectors of texts to search with. Raises EmbedError."""
        return self._batches(self._queries, texts)

    def query(self, text: str) -> Floats:
        """Returns the [dim] vector of a text to search with. Raises EmbedError."""
        vector: Floats = self.queries([text])[0]
        return vector

    def check_name(self, info: CollectionInfo) -> None:
        """Raises EmbedError if a collection has vectors of a model of another name. Calls no
        model."""
        stored = info.embedding_model
        if stored and stored != self.name:
            hint = "" if self.name else ", a function without a name: set its attribute name"
            raise EmbedError(
                f"embed: collection {info.name!r} has vectors of the model {stored!r}, not of"
                f" {self.name!r}{hint}"
            )

    def check(self, info: CollectionInfo) -> None:
        """Raises EmbedError if a collection has vectors of another model or dimension."""
        self.check_name(info)
        if info.dim != self.dim:
            raise EmbedError(
                f"embed: the model {self.name!r} makes vectors of {self.dim} numbers; the"
                f" collection {info.name!r} has dim {info.dim}"
            )

    def _batches(self, make: Make, texts: Sequence[str]) -> Floats:
        parts = (texts[at : at + BATCH_TEXTS] for at in range(0, len(texts), BATCH_TEXTS))
        made = [self._make(make, list(part)) for part in parts]
        return np.concatenate(made) if made else np.empty((0, self.dim), np.float32)

    def _make(self, make: Make, texts: list[str]) -> Floats:
        try:
            with self._lock:
                found = make(texts)
            if inspect.isawaitable(found):
                if inspect.iscoroutine(found):
                    found.close()
                raise TypeError("it is asynchronous; write one that returns vectors, with def")
            with np.errstate(over="ignore"):
                array = np.asarray(found, np.float32)
        except Exception as error:
            raise self._failed(f"{type(error).__name__}: {error}") from error
        if array.ndim != 2 or len(array) != len(texts) or not array.size:
            raise self._failed(
                f"it made {reprlib.repr(found)} of a list of {len(texts)} texts, which is not one"
                " vector for each"
            )
        if array.shape[1] != (self._dim or array.shape[1]):
            raise self._failed(f"it made vectors of {array.shape[1]} numbers, before {self._dim}")
        if not np.isfinite(array).all():
            raise self._failed("it made a number that is not finite")
        self._dim = array.shape[1]
        return array

    def _failed(self, reason: str) -> EmbedError:
        return EmbedError(f"embed: {self.name or 'the function'}: {reason}")


#: A function from a list of texts to one vector for each, perhaps with the attribute `name`; an
#: Embedder; or a text in one of FORMS.
Embed = Make | Embedder | str


def embedder_of(embed: Embed) -> Embedder:
    """Returns the model that embed= or --embed names. Raises EmbedError, or TypeError for a value
    of another type."""
    if isinstance(embed, Embedder):
        return embed
    if callable(embed):
        return Embedder(embed, name=getattr(embed, "name", ""))
    if not isinstance(embed, str):
        raise TypeError(f"embed: {embed!r}; give a function, an Embedder, or a text: {FORMS}")
    from nearfield import _embed_models  # for HTTP, which takes long to import

    provider, _, rest = embed.partition(":")
    model, _, place = rest.partition("@")
    if not provider or not model:
        raise EmbedError(f"embed: {embed!r}; write {FORMS}")
    try:
        load = _embed_models.PROVIDERS.get(provider)
        if load is None:
            return embedder_of(_embed_models.load_function(provider, rest))
        return Embedder(*load(model, place), name=model)
    except ImportError as error:
        hint = f"; pip install {provider}" if provider in _embed_models.PROVIDERS else ""
        raise EmbedError(f"embed: {embed!r}: {error}{hint}") from error
    except Exception as error:  # each library has its own
        raise EmbedError(f"embed: {embed!r}: {type(error).__name__}: {error}") from error


def known_embedder(embed: Embed | None) -> Embedder:
    """As embedder_of, but keeps the models of the last calls: loading one takes long. None: that of
    NEARFIELD_EMBED."""
    wanted = given(None, "NEARFIELD_EMBED") if embed is None else embed
    if wanted == "":
        raise TypeError(f"embed: no model; give a function, an Embedder, or a text: {FORMS}")
    return _kept(wanted) if isinstance(wanted, Hashable) else embedder_of(wanted)


@functools.lru_cache(maxsize=8)
def _kept(embed: Embed) -> Embedder:
    return embedder_of(embed)

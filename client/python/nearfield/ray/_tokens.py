"""Tokens: which commits have taken place, so that one that is repeated takes place once. And the
objects with the earlier tokens and operations, which a manifest names.

A manifest has at most TOKENS_MAX tokens, and names of at most TOKEN_PAGES_MAX objects with
TOKENS_MAX earlier ones each, of which it drops those older than TOKEN_SECONDS. A coordinator holds
all tokens in memory, about 40 MiB at most."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from typing import Any

import xxhash

from nearfield._errors import FailedPrecondition
from nearfield.ray._manifest import TAIL_MAX, CollectionState, Done, Manifest, checked_page
from nearfield.ray._steps import Steps, store

TOKENS_MAX = 512
TOKEN_PAGES_MAX = 256  # 131,072 tokens
TOKEN_SECONDS = 24 * 3600.0  # by the clock of the coordinators


def token_key(token: str, size: int = 10) -> str:
    """Returns what a manifest remembers of a token, whose length has no limit."""
    return hashlib.blake2b(token.encode(), digest_size=size).hexdigest()


def operation_key(name: str, kind: str) -> str:
    return token_key(f"{kind} {name}", 4)


class Tokens:
    """The tokens as one coordinator has read them."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[str, list[Any]]] = {}  # by the name of the object

    def done(self, manifest: Manifest, token: str, name: str, kind: str) -> Steps[Done | None]:
        """Returns what the commit with this token returned; None if none is known. Errors:
        FailedPrecondition if it was of another collection or kind; OSError; DataLoss."""
        missing = [page[:2] for page in manifest.token_pages if page[0] not in self._pages]
        if missing:
            found = yield store("get_all", [page for page, _ in missing])
            for (page, checksum), data in zip(missing, found, strict=True):
                self._pages[page] = checked_page(page, checksum, data)
        self._pages = {page: self._pages[page] for page, *_ in manifest.token_pages}
        key = token_key(token)
        for tokens in (manifest.tokens, *self._pages.values()):
            if key in tokens:
                *record, operation = tokens[key]
                if operation != operation_key(name, kind):
                    raise FailedPrecondition("token: another operation has used it")
                return Done(*record)
        return None

    def added(
        self, manifest: Manifest, token: str, name: str, kind: str, done: Done, by: str
    ) -> Steps[Manifest]:
        """Returns the manifest with the result of a commit; moves its tokens into an object if they
        are too many. by: id of the operation."""
        tokens, pages = manifest.tokens, manifest.token_pages
        if len(tokens) >= TOKENS_MAX:
            now = int(time.time())
            page = yield from _put_page(tokens, by)
            self._pages[page[0]] = tokens
            pages = [each for each in pages if each[2] >= now - TOKEN_SECONDS]
            pages, tokens = [*pages, [*page, now]][-TOKEN_PAGES_MAX:], {}
        record = [*done, operation_key(name, kind)]
        return replace(manifest, tokens={**tokens, token_key(token): record}, token_pages=pages)


def folded(state: CollectionState, by: str) -> Steps[CollectionState]:
    """Moves the operations of a full tail into objects. by: id of the operation that needs room."""
    pages, tail = list(state.pages), state.tail
    while len(tail) >= TAIL_MAX:
        pages.append((yield from _put_page(tail[:TAIL_MAX], by)))
        tail = tail[TAIL_MAX:]
    return replace(state, pages=pages, tail=tail)


def _put_page(contents: Any, by: str) -> Steps[list[str]]:
    """Writes an object, as checked_page reads it; returns its name and checksum. No other operation
    has an object of this name, so that the file of a commit that failed can be deleted."""
    data = json.dumps(contents).encode()
    name = f"log/{hashlib.sha256(by.encode() + data).hexdigest()}.json"
    yield store("put", name, data)
    return [name, xxhash.xxh64_hexdigest(data)]

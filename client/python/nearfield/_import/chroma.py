"""Chroma: the folder of a persistent client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearfield._import.found import Choice, Found, ImportRefused, Part, chosen

PAGE_ROWS = 4096
_METRICS = {"cosine": "cosine", "ip": "dot", "l2": "l2"}


def open_chroma(path: Path, choice: Choice) -> Found:
    """Opens a folder with chroma.sqlite3. A later release of chromadb than the one that wrote it
    may migrate the file."""
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))
    name = chosen(
        path,
        "collection",
        "--from",
        choice.collection,
        [each.name for each in client.list_collections()],
    )
    docs = client.get_collection(name, embedding_function=None)
    first = docs.get(limit=1, include=["embeddings"])
    if not first["ids"]:
        raise ImportRefused(f"{path}: collection {name!r} has no row")
    configuration: dict[str, Any] = docs.configuration_json
    space = next((each["space"] for each in configuration.values() if _has_space(each)), "l2")

    def parts() -> Iterator[Part]:
        for at in range(0, docs.count(), PAGE_ROWS):
            page: Any = docs.get(
                limit=PAGE_ROWS, offset=at, include=["embeddings", "documents", "metadatas", "uris"]
            )
            # Sorted, because Chroma returns them in another order each time.
            fields = [dict(sorted((each or {}).items())) for each in page["metadatas"]]
            rows = zip(page["documents"], fields, page["uris"] or [None] * len(fields), strict=True)
            yield Part(
                list(page["ids"]),
                np.asarray(page["embeddings"], np.float32),
                fields,
                [_payload(*row) for row in rows],
            )

    return Found(name, len(first["embeddings"][0]), _METRICS.get(space, ""), parts=parts)


def _has_space(settings: Any) -> bool:
    return isinstance(settings, dict) and "space" in settings


def _payload(text: str | None, metadata: dict[str, Any], uri: str | None) -> dict[str, Any] | None:
    """Returns the payload in the form of the stores of LangChain and LlamaIndex."""
    members = {"text": text, "metadata": metadata or None, "uri": uri}
    return {name: each for name, each in members.items() if each is not None} or None

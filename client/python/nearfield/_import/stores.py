"""Finds out what a path holds, and opens it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from nearfield._errors import Error
from nearfield._import.chroma import open_chroma
from nearfield._import.faiss_files import is_faiss, open_faiss
from nearfield._import.found import Choice, Found, ImportRefused, Part
from nearfield._import.lance import SUFFIX, open_lance
from nearfield._import.qdrant import open_local, open_snapshot
from nearfield._sources.files import OPENERS
from nearfield._sources.open import open_vectors, suffix_of
from nearfield._sources.places import naming
from nearfield._values import is_bfloat16

KINDS = (
    "a folder of Qdrant's local mode, of Chroma or of LanceDB; a snapshot of Qdrant (.snapshot); an"
    f" index file of FAISS; vectors ({', '.join(OPENERS)})"
)


@contextmanager
def opened(path: Path, choice: Choice) -> Iterator[Found]:
    """Opens a collection of another store, or a file of vectors, until the end of the block. Errors
    of the packages that read it become ImportRefused, with the name of the path."""
    with ExitStack() as stack:
        with _refusing(path):
            found = _open(path, choice, stack)
        read = found.parts
        yield found if read is None else replace(found, parts=lambda: _rows_of(path, read))


def _rows_of(path: Path, read: Callable[[], Iterator[Part]]) -> Iterator[Part]:
    with _refusing(path):
        yield from read()


def _open(path: Path, choice: Choice, stack: ExitStack) -> Found:
    if not path.exists():
        raise ImportRefused(f"{path}: no such file or folder")
    if path.is_dir():
        if (path / "chroma.sqlite3").is_file():
            return open_chroma(path, choice)
        if (path / "meta.json").is_file() and (path / "collection").is_dir():
            return open_local(path, stack, choice)
        if path.suffix == SUFFIX or any(path.glob(f"*{SUFFIX}")):
            return open_lance(path, choice)
        raise ImportRefused(f"{path}: none of: {KINDS}")
    if path.suffix == ".snapshot":
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nearfield-"))
        return open_snapshot(path, Path(folder), choice)
    if suffix_of(path) in OPENERS:
        vectors, close = open_vectors(path, None)
        stack.callback(close)
        if len(vectors.shape) != 2:
            raise ImportRefused(f"{path}: shape {list(vectors.shape)}; it must be [rows, dim]")
        dtype = "float16" if vectors.dtype == np.float16 else "float32"
        dtype = "bfloat16" if is_bfloat16(vectors.dtype) else dtype
        return Found(path.stem, vectors.shape[1], dtype=dtype, array=vectors)
    with path.open("rb") as file:
        first = file.read(4)
    if is_faiss(first):
        return open_faiss(path, choice)
    raise ImportRefused(f"{path}: begins with {first!r}; none of: {KINDS}")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        with naming(path):
            yield
    except (Error, ImportRefused, ImportError, OSError, MemoryError):
        raise
    except BaseException as error:  # each package has its own; a panic of Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        text = str(error)
        named = text if str(path) in text else f"{path}: {type(error).__name__}: {text}"
        raise ImportRefused(named) from error

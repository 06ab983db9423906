"""Objects by name, in a folder or in a bucket of an S3-compatible store."""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

FOLDERS = ("terms", "manifests", "log", "segments")
_NAME = re.compile(rf"({'|'.join(FOLDERS)})/\w[\w.-]*")
_S3_CONNECT_SECONDS = 2.0
_S3_REQUEST_SECONDS = 30.0  # without a byte
_S3_TRIES = 2


class Store:
    """Reads and writes whole objects. Thread safety: any number of threads.

    uri  a folder, or a URI of pyarrow.fs: "s3://bucket/prefix", also with
         ?endpoint_override=HOST:PORT&scheme=http for a store other than that of AWS. The keys are
         those of the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).
    Requires: a listing shows every object that was written before it began, on every node. A local
    folder and S3 have this; an NFS mount has it with the options lookupcache=none and actimeo=0.
    Errors: OSError."""

    def __init__(self, uri: str) -> None:
        self.uri = uri if "://" in uri else Path(uri).absolute().as_uri()
        self._files, self._root = _file_system(self.uri)
        self._local = isinstance(self._files, fs.LocalFileSystem)

    def create(self) -> None:
        """Creates the folders, durably, if the storage is a folder."""
        if not self._local:
            return
        for name in FOLDERS:
            Path(self._root, name).mkdir(parents=True, exist_ok=True)
        _sync_folder(Path(self._root))
        _sync_folder(Path(self._root).parent)

    def _path(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r}: no name of an object")
        return f"{self._root}/{name}"

    def put(self, name: str, data: bytes) -> None:
        """Writes an object: as a whole or not at all, and durable when the call returns."""
        path = self._path(name)
        if self._local:
            _write_durably(Path(path), data)
            return
        with self._files.open_output_stream(path) as out:
            out.write(data)

    def get(self, name: str) -> bytes:
        with self._files.open_input_stream(self._path(name)) as source:
            return bytes(source.read())

    def open(self, name: str) -> Any:
        """Returns a file of pyarrow, to read parts of the object."""
        return self._files.open_input_file(self._path(name))

    def list(self, folder: str, age_seconds_min: float | None = None) -> list[str]:
        """Returns the names of the objects of a folder in their order; with an age, only of
        those that are at least that old, by the clocks of the storage and of this machine."""
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=not self._local)
        found = self._files.get_file_info(selector)
        files = [each for each in found if each.type == fs.FileType.File]
        if age_seconds_min is not None:
            latest_ns = time.time_ns() - int(age_seconds_min * 1e9)
            files = [
                each for each in files if each.mtime_ns is not None and each.mtime_ns <= latest_ns
            ]
        names = [f"{folder}/{each.base_name}" for each in files]
        return sorted(name for name in names if _NAME.fullmatch(name))

    def delete(self, name: str) -> None:
        """Deletes an object, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self._path(name))


def _file_system(uri: str) -> tuple[Any, str]:
    """As FileSystem.from_uri, but S3 does not retry for minutes: the caller does."""
    parts = urlsplit(uri)
    if parts.scheme != "s3":
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
        return found
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    options["allow_bucket_creation"] = options.get("allow_bucket_creation") == "true"
    files = fs.S3FileSystem(
        access_key=parts.username,
        secret_key=parts.password,
        connect_timeout=_S3_CONNECT_SECONDS,
        request_timeout=_S3_REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_S3_TRIES),
        **options,
    )
    return files, f"{parts.hostname}{parts.path}".rstrip("/")


def _write_durably(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

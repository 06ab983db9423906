"""Objects by name, in a folder or in a bucket."""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

from nearfield._errors import FailedPrecondition

# The last two are of the formats 1 to 3: nearfield.ray._upgrade.
FOLDERS = ("commits", "coordinators", "log", "probes", "segments", "manifests", "terms")
_NAME = re.compile(rf"({'|'.join(FOLDERS)})/\w[\w.-]*")
_IDENTITY = "storage.id"  # of a folder: a file with some random text
_READERS = 16
_PROBES = 8  # writers of one name, of which one may win
_RETRY: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=60)}  # the caller tries again
_CLIENT = {"connect_timeout": "2s", "read_timeout": "30s", "timeout": "600s"}
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|bucket does not exist")
# Members of a URI of pyarrow.fs, which earlier versions took.
_OLD_OPTIONS = ("scheme", "endpoint_override", "allow_bucket_creation")


class Store:
    """Reads and writes whole objects. Thread safety: any number of threads.

    uri  a folder that all nodes share, or the URI of a bucket: "s3://bucket/prefix", "gs://..." or
         "az://...". Options of obstore may follow, such as
         ?endpoint=http://HOST:PORT&region=us-east-1 for a store other than that of AWS. The keys
         are those of the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).
    Requires: an object that was written is there for every read that begins afterwards, on every
    node, and of several put_new of one name one takes effect, which probe() tests. A local folder,
    S3, GCS, Azure and R2 have this; an NFS mount has it with the options lookupcache=none and
    actimeo=0.
    Errors: OSError; ValueError for a wrong URI."""

    def __init__(self, uri: str) -> None:
        self.uri = uri if "://" in uri else Path(uri).absolute().as_uri()
        parts = urlsplit(self.uri)
        self._folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._place: tuple[int, int] | None = None  # device and inode of the folder
        self._identity = b""  # what the folder has as _IDENTITY
        self._opened: Any = None
        if self._folder is None:
            try:
                self._opened = self._open_bucket()
            except (BaseError, ValueError) as error:
                raise ValueError(f"storage: {self.name}: {_message(error)}") from None

    @property
    def name(self) -> str:
        """Returns the URI without options and keys."""
        return re.sub("//[^/]*@", "//", self.uri.partition("?")[0])

    @property
    def _files(self) -> Any:
        if self._opened is None:
            self._opened = LocalStore(self._folder)  # which must exist
        return self._opened

    def _open_bucket(self) -> Any:
        parts = urlsplit(self.uri)
        options: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
        scheme, host, _ = (options.pop(name, None) for name in _OLD_OPTIONS)
        if host:
            options["endpoint"] = f"{scheme or 'https'}://{host}"
        if parts.username:
            options["access_key_id"] = unquote(parts.username)
            options["secret_access_key"] = unquote(parts.password or "")
        client: Any = {**_CLIENT, "allow_http": options.get("endpoint", "").startswith("http:")}
        return from_url(self.name, retry_config=_RETRY, client_options=client, **options)

    def prepare(self) -> None:
        """Creates the folders, durably, if the storage is a folder."""
        if self._folder is None:
            return
        for name in FOLDERS:
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        with _opened(self._folder.parent) as parent:
            os.fsync(parent)
        with _opened(self._folder) as root, contextlib.suppress(FileExistsError):
            _write_durably(root, _IDENTITY, uuid.uuid4().hex.encode(), os.link)

    @contextlib.contextmanager
    def _opened_folder(self, name: str) -> Iterator[int]:
        """Opens one of the folders, so that a file that is not in it is absent, and not merely out
        of reach, as while a share is mounted again."""
        assert self._folder is not None
        with _opened(self._folder) as root:
            self._check_place(root)
            with _opened(name, root) as folder:
                yield folder

    def _check_place(self, root: int) -> None:
        """Raises OSError if another folder is where the storage was, such as the one below the
        mount point of a share that is away."""
        found = os.fstat(root)
        place = (found.st_dev, found.st_ino)
        if place == self._place:
            return
        identity = _read(root, _IDENTITY) or b""
        if self._identity and identity != self._identity:
            raise OSError(f"{self.name}: another folder is in the place of the storage")
        self._place, self._identity = place, identity

    def put(self, name: str, data: bytes) -> None:
        """Writes an object: as a whole or not at all, and durable when the call returns."""
        folder, last = _parts(name)
        if self._folder is not None:
            with self._opened_folder(folder) as opened:
                _write_durably(opened, last, data, os.replace)
            return
        with _os_errors():
            obstore.put(self._files, name, data, use_multipart=False)

    def put_new(self, name: str, data: bytes) -> bool:
        """As put, unless there is an object of this name: then returns False. After OSError the
        object may be there, or may come later."""
        folder, last = _parts(name)
        try:
            if self._folder is not None:
                with self._opened_folder(folder) as opened:
                    _write_durably(opened, last, data, os.link)
                return True
            with _os_errors():
                obstore.put(self._files, name, data, mode="create", use_multipart=False)
        except (FileExistsError, AlreadyExistsError):
            return False
        return True

    def get(self, name: str) -> bytes:
        with _os_errors():
            return bytes(obstore.get(self._files, _checked(name)).bytes())

    def find(self, name: str) -> bytes | None:
        """Returns an object; None if there is none."""
        if self._folder is None:
            try:
                return self.get(name)
            except FileNotFoundError:
                return None
        folder, last = _parts(name)
        with self._opened_folder(folder) as opened:
            return _read(opened, last)

    def get_all(self, names: list[str]) -> list[bytes]:
        """Returns objects, in the order of their names here."""
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(self.get, names))

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Returns a part of an object."""
        with _os_errors():
            found = obstore.get_range(self._files, _checked(name), start=offset, length=length)
            return bytes(found)

    def _pages(self, folder: str, timed: bool) -> Iterator[list[tuple[str, float]]]:
        """Yields names in their order, page by page; those of a folder in one page, in any order.
        timed: with the seconds since 1970 of their last writes."""
        if self._folder is not None:
            with self._opened_folder(folder) as opened:
                yield list(_files_of(opened, folder, timed))
            return
        with _os_errors():
            for page in obstore.list(self._files, folder, chunk_size=1000):
                found = [(str(each["path"]), each["last_modified"].timestamp()) for each in page]
                yield [each for each in found if _NAME.fullmatch(each[0])]

    def first(self, folder: str) -> str | None:
        """Returns the first name of a folder; None if it is empty."""
        return next((min(page)[0] for page in self._pages(folder, timed=False) if page), None)

    def list(self, folder: str, age_seconds_min: float | None = None) -> list[str]:
        """Returns the names of the objects of a folder in their order; with an age, only of
        those that are at least that old, by the clocks of the storage and of this machine."""
        timed = age_seconds_min is not None
        latest = time.time() - age_seconds_min if age_seconds_min is not None else math.inf
        found = (each for page in self._pages(folder, timed) for each in page)
        return sorted(name for name, written in found if written <= latest)

    def delete(self, name: str) -> None:
        """Deletes an object, if it exists."""
        with contextlib.suppress(FileNotFoundError), _os_errors():
            obstore.delete(self._files, _checked(name))

    def probe(self) -> None:
        """Raises FailedPrecondition unless one of several concurrent put_new takes effect. It is a
        test, not a proof."""
        name = f"probes/{uuid.uuid4().hex}"
        start = threading.Barrier(_PROBES)

        def write(number: int) -> bool:
            start.wait()
            return self.put_new(name, b"%d" % number)

        try:
            with ThreadPoolExecutor(_PROBES) as pool:
                won = [place for place, each in enumerate(pool.map(write, range(_PROBES))) if each]
            there = self.find(name)
        finally:
            with contextlib.suppress(OSError):
                self.delete(name)
        if [b"%d" % place for place in won] != [there]:
            raise FailedPrecondition(
                f"storage: {self.name}: of {_PROBES} concurrent writes of one new object"
                f" {len(won)} succeeded, must be 1, and be what is there: commits need an atomic"
                " put-if-absent"
            )


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except AlreadyExistsError:
        raise
    except FileNotFoundError as error:
        kind = OSError if _NO_BUCKET.search(str(error)) else FileNotFoundError
        raise kind(_message(error)) from None
    except BaseError as error:
        raise OSError(_message(error)) from None


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r}: no name of an object")
    return name


def _parts(name: str) -> tuple[str, str]:
    folder, _, last = _checked(name).partition("/")
    return folder, last


def _message(error: Exception) -> str:
    return " ".join(str(error).partition("\nDebug source")[0].split())


@contextlib.contextmanager
def _opened(path: Path | str, parent: int | None = None) -> Iterator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _read(folder: int, name: str) -> bytes | None:
    """Returns the contents of a file of an open folder; None if there is none."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as found:
        return found.read()


def _write_durably(folder: int, name: str, data: bytes, place: Callable[..., None]) -> None:
    partial = f".{name}.{uuid.uuid4().hex}"
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        place(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=folder)
        os.fsync(folder)  # also if there is an object: its writer may not have done so yet


def _files_of(opened: int, folder: str, timed: bool) -> Iterator[tuple[str, float]]:
    """Yields the names of an open folder's objects, and on demand the times of their writes."""
    with os.scandir(opened) as found:
        for each in found:
            name = f"{folder}/{each.name}"
            if _NAME.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    yield name, each.stat().st_mtime if timed else 0.0

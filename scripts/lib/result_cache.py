"""Remembers checks that passed, by a key of everything that they depend on.

The folders lie next to ccache's. A check whose key is known is not run again. An entry that no run
has used for 30 days is removed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import subprocess
import threading
import time
from collections.abc import Iterable

UNUSED_DAYS_MAX = 30


def default_folder(name: str) -> pathlib.Path:
    """Returns a folder next to ccache's, or in the user's cache folder if there is no ccache."""
    try:
        asked = subprocess.run(["ccache", "--get-config", "cache_dir"], check=False, capture_output=True, text=True)
        found = asked.stdout.strip()
    except FileNotFoundError:
        found = ""
    return pathlib.Path(found or pathlib.Path.home() / ".cache/ccache").parent / name


def key_of(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


class ResultCache:
    """Thread safety: several threads and processes may use one folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        for entry in self.folder.iterdir():
            if entry.stat().st_mtime < time.time() - UNUSED_DAYS_MAX * 86400:
                entry.unlink(missing_ok=True)

    def find(self, key: str) -> str | None:
        """Returns the text that was stored with the key; None if the key is unknown or empty."""
        entry = self.folder / key
        if not key or not entry.is_file():
            return None
        entry.touch()
        return entry.read_text(encoding="utf-8")

    def add(self, key: str, text: str = "") -> None:
        """Stores a key. An empty key is not stored: its dependencies are not known."""
        if not key:
            return
        whole = self.folder / f"{key}.{os.getpid()}.{threading.get_ident()}"
        whole.write_text(text, encoding="utf-8")
        whole.rename(self.folder / key)


class Contents:
    """Names of the contents of files and folders, which do not depend on the path of the checkout.

    A file of the checkout is known by its text, any other file by its size and time.
    """

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root

    @functools.cache
    def file(self, path: pathlib.Path) -> str:
        if path.is_relative_to(self.root):
            text = path.read_bytes().replace(bytes(self.root), b".")
            return f"{path.relative_to(self.root)} {hashlib.sha256(text).hexdigest()}"
        state = path.stat()
        return f"{path} {state.st_size} {state.st_mtime_ns}"

    @functools.cache
    def tracked(self, *pathspecs: str) -> list[pathlib.Path]:
        """Returns the files of the checkout that match git's pathspecs; new files too, unless git
        ignores them."""
        command = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *pathspecs]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        return [path for name in sorted(set(listed)) if name and (path := self.root / name).is_file()]

    def tree(self, *pathspecs: str) -> str:
        """Returns one name for all these files and their contents."""
        return key_of(self.file(path) for path in self.tracked(*pathspecs))


@functools.cache
def installed_packages() -> str:
    """Returns one name for the Debian packages of this machine and their versions."""
    listed = subprocess.run(["dpkg-query", "--show"], check=True, capture_output=True, text=True).stdout
    return key_of([listed])

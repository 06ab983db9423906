"""Workspaces of the selections: device memory that a framework has allocated."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Workspace:
    """Initialized device memory for selections, one at a time: calls on streams that may run
    concurrently need one each. It must exist as long as a CUDA graph that was captured with it.

    memory  the framework's own array of bytes
    bytes   its size
    device  CUDA ordinal
    lock    held while a call is enqueued, because the kernels of two calls must not mix
    """

    memory: Any
    address: int
    bytes: int
    device: int
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)


Key = tuple[str, int, int, int]  # framework, device, stream, thread


class Workspaces:
    """The workspaces that calls without an own one use: one for each stream, the recently used.

    A workspace that is dropped goes back to the framework, which reuses it in the order of the
    stream."""

    COUNT_MAX = 16
    BYTES_MAX = 512 << 20

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: collections.OrderedDict[Key, Workspace] = collections.OrderedDict()

    def take(self, key: Key, size: int, make: Callable[[int], Workspace]) -> Workspace:
        """Returns a workspace of at least `size` bytes. One above BYTES_MAX is not kept."""
        with self._lock:
            found = self._recent.get(key)
            if found is not None and found.bytes >= size:
                self._recent.move_to_end(key)
                return found
        made = make(size)
        with self._lock:
            self._recent[key] = made
            self._recent.move_to_end(key)
            while self._recent and not self._fits():
                self._recent.popitem(last=False)
        return made

    def _fits(self) -> bool:
        total = sum(each.bytes for each in self._recent.values())
        return total <= self.BYTES_MAX and len(self._recent) <= self.COUNT_MAX

    def drop(self, key: Key) -> None:
        """Drops the workspace of a stream, whose content is unknown after a failed call."""
        with self._lock:
            self._recent.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._recent.clear()

    def __len__(self) -> int:
        return len(self._recent)

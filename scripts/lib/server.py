"""Starts a server process, waits until it is ready, and stops it. Used by the demo, the service
campaign, the end-to-end tests and the image's tests."""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

READY_SECONDS_MAX = 120
STOP_SECONDS_MAX = 120
LOG_SHOWN = 4000  # characters of a log's end in an error
IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100  # linux/inotify.h

Found = TypeVar("Found")


class ServerEnded(Exception):
    """The server process ended before it was ready; the message has its exit code and its log."""


class FolderWatch:
    """Reports changes of the files in a folder (inotify)."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.descriptor < 0 or libc.inotify_add_watch(
            self.descriptor, os.fsencode(folder), IN_MODIFY | IN_MOVED_TO | IN_CREATE
        ) < 0:  # fmt: skip
            raise OSError(ctypes.get_errno(), f"cannot watch {folder}")

    def close(self) -> None:
        os.close(self.descriptor)


class ServerProcess:
    """A server whose output goes to a log file."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None,
                 new_session: bool = False, pass_fds: Collection[int] = ()) -> None:  # fmt: skip
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                            env=environment, start_new_session=new_session, pass_fds=pass_fds)  # fmt: skip

    def log_end(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-LOG_SHOWN:]

    def wait_for(self, probe: Callable[[], Found | None], seconds: float = READY_SECONDS_MAX) -> Found:
        """Calls probe after each change in the folder of the log, until it returns a value. Raises
        ServerEnded or TimeoutError."""
        deadline = time.monotonic() + seconds
        self._check_running()
        watch = FolderWatch(self.log.parent)
        ended = os.pidfd_open(self.process.pid)
        try:
            while (found := probe()) is None:
                self._check_running()
                left = deadline - time.monotonic()
                changed, _, _ = select.select([watch.descriptor, ended], [], [], max(0.0, left))
                if not changed:
                    raise TimeoutError(f"the server was not ready after {seconds} s:\n{self.log_end()}")
                if watch.descriptor in changed:
                    os.read(watch.descriptor, 1 << 16)
            return found
        finally:
            os.close(ended)
            watch.close()

    def _check_running(self) -> None:
        if self.process.poll() is not None:
            raise ServerEnded(f"the server ended with {self.process.returncode}:\n{self.log_end()}")

    def wait_ready(self, seconds: float = READY_SECONDS_MAX) -> str:
        """Waits for the log line that the server writes when it serves; returns its address."""

        def address() -> str | None:
            found = re.search(r"serving on ([^\s\"]+:\d+)", self.log.read_text(encoding="utf-8", errors="replace"))
            return found.group(1) if found else None

        return self.wait_for(address, seconds)

    def terminate(self, seconds: float = STOP_SECONDS_MAX) -> int:
        """Sends SIGTERM and returns the exit code. Kills the process if it does not end in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        self.process.kill()
        return self.process.wait()

"""A nearfield-server as a child process that does not outlive this one."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import ray

from nearfield._errors import Unavailable

PROGRAM_VARIABLE = "NEARFIELD_SERVER"
READY_SECONDS_MAX = 600.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def find_program(given: str | None) -> str:
    """Returns the path of nearfield-server: given, of NEARFIELD_SERVER, of nearfield-native or of
    PATH."""
    found = given or os.environ.get(PROGRAM_VARIABLE)
    if found is None:
        try:
            found = str(importlib.import_module("nearfield_native").program("nearfield-server"))
        except ImportError:
            found = shutil.which("nearfield-server")
    if found is None:
        raise FileNotFoundError("nearfield-server: install nearfield-native, or name the program")
    return found


def node_address() -> str:
    """Returns the address of this node of Ray."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


class ServerProcess:
    """A server with its rows in memory only, since its rows are also in the storage.

    on_end  is called with the exit code when the process ends"""

    def __init__(
        self,
        program: str,
        host: str,
        settings: Mapping[str, Any],
        on_end: Callable[[int], None],
    ) -> None:
        fixed = {"listen": f"{host}:0", "data_dir": "none", "ops_listen": "none"}
        if not host.startswith("127."):
            fixed["allow_insecure"] = "true"
        self._command = [program]
        for name, value in {**settings, **fixed}.items():
            self._command.append(f"--{name.replace('_', '-')}={value}")
        self._on_end = on_end
        self._known = threading.Event()
        self._address: str | None = None
        self.pid = 0
        # The kernel ends the child when the thread that started it ends.
        threading.Thread(target=self._run, daemon=True).start()

    def address(self) -> str:
        """Waits until the server serves; returns its address."""
        self._known.wait(READY_SECONDS_MAX)
        if self._address is None:
            raise Unavailable("the server did not start: see the log of the actor")
        return self._address

    def _run(self) -> None:
        with subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=_end_with_parent,
        ) as process:
            self.pid = process.pid
            assert process.stdout is not None
            for line in process.stdout:
                sys.stderr.write(line)
                found = re.search(r"serving on ([^\s\"]+:\d+)", line)
                if found:
                    self._address = found[1]
                    self._known.set()
        self._address = None
        self._known.set()
        self._on_end(process.returncode)


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

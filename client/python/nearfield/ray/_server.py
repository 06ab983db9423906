"""A nearfield-server as a child process that does not outlive this one."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ray

from nearfield._errors import InvalidArgument, Unavailable
from nearfield.ray._rpc import none_free
from nearfield.ray._staging import DECISION_SECONDS_MAX

PROGRAM_VARIABLE = "NEARFIELD_SERVER"
READY_SECONDS_MAX = 600.0
_LOOPBACK = "127.0.0.1"
_PORT_MAX = 65535
_TAKEN = "cannot be bound: .*" + os.strerror(errno.EADDRINUSE)  # in the log of a server
# Runs a program that the kernel ends (9: SIGKILL) when the thread that started it ends: 1 is
# PR_SET_PDEATHSIG of linux/prctl.h. A preexec_fn would run between fork and exec in a process that
# has gRPC's threads, which is not safe.
_END_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Settings:
    """The arguments that a cluster was started with: Cluster.__init__."""

    name: str
    shards: int
    replicas: int
    storage: str
    program: str
    host: str
    num_cpus: float
    num_gpus: float
    settings: Mapping[str, Any]
    hang_timeout: float
    compact_after: int
    cluster: str = field(default_factory=lambda: uuid.uuid4().hex)  # which no other cluster has
    ports: str = ""  # "FIRST-LAST": where the processes listen; "": any free port
    port: int = 0  # of these, the one that a process had before

    @property
    def resources(self) -> dict[str, float]:
        """Returns what Ray reserves for each server."""
        wanted = {"CPU": self.num_cpus, "GPU": self.num_gpus}
        return {name: count for name, count in wanted.items() if count}

    def changed(self, given: Mapping[str, Any]) -> Settings:
        """Returns these with some settings of the servers; "" and None remove one. Errors:
        InvalidArgument for one that a cluster sets."""
        merged = {**self.settings, **{name.replace("-", "_"): given[name] for name in given}}
        for name in _OWN_SETTINGS & set(merged):
            raise InvalidArgument(f"settings: {name} is set by the cluster")
        kept = {name: value for name, value in merged.items() if value not in ("", None)}
        return replace(self, settings=kept)

    @property
    def listen_ports(self) -> list[int]:
        """Returns the ports that a process tries, in their order; 0: any free port."""
        return sorted(port_range(self.ports), key=lambda each: each != self.port)


def port_range(ports: str) -> range:
    """Returns the ports of "FIRST-LAST", and 0 for "". Errors: ValueError."""
    found = re.fullmatch(r"(\d+)-(\d+)", ports or "0-0")
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if ports and not 1 <= first <= last <= _PORT_MAX:
        raise ValueError(f"ports: {ports!r}, must be FIRST-LAST, of 1 .. {_PORT_MAX}")
    return range(first, last + 1)


def _is_free(host: str, port: int) -> bool:
    """Returns False if a process listens there: no server is to try it in vain."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        return error.errno != errno.EADDRINUSE
    return True


def find_program(given: str | None) -> str:
    """Returns the path of nearfield-server: given, of NEARFIELD_SERVER, of nearfield-native or of
    PATH."""
    name = "nearfield-server"
    if found := given or os.environ.get(PROGRAM_VARIABLE):
        return found
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("nearfield_native").program(name))
    if found := shutil.which(name):
        return found
    raise FileNotFoundError(f"{name}: install nearfield-native, or name the program")


def live_nodes() -> list[dict[str, Any]]:
    """Returns the nodes of Ray that are alive."""
    return [each for each in ray.nodes() if each["Alive"]]  # type: ignore[no-untyped-call]


def listen_host(given: str) -> str:
    """Returns where a process of this node listens: as given, else on loopback if the node is the
    only one, else at the node's address in Ray."""
    if given:
        return given
    address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
    return _LOOPBACK if len(live_nodes()) == 1 else address


def must_move(given: str, address: str) -> bool:
    """Returns True if the process listens on loopback, but another node has joined since."""
    return not given and address.startswith(_LOOPBACK) and len(live_nodes()) > 1


# Settings of the server, unless the user gives others. Applied operations keep the epoch before
# them, because the clients read it until they know the next manifest. Epochs are kept for a short
# time and in a small number, because each may hold the rows of a whole replaced collection.
DEFAULTS = {
    "upload_idle_ms": 2 * 1000 * int(DECISION_SECONDS_MAX),
    "cursor_ms": 20_000,
    "epochs_kept_max": 64,
    "epochs_kept_percent": 50,
    "log_sample": 0,
}
# A cluster sets these.
_OWN_SETTINGS = frozenset(("listen", "data_dir", "http_listen", "ops_listen"))


def _arguments(options: Mapping[str, Any], host: str) -> list[str]:
    fixed = {"data_dir": "none", "http_listen": "none", "ops_listen": "none"}
    if not host.startswith("127."):
        fixed["allow_insecure"] = "true"
    return [f"--{name.replace('_', '-')}={value}" for name, value in {**options, **fixed}.items()]


def _environment() -> dict[str, str]:
    """Returns the environment of a server, without a variable that it would report."""
    return {k: v for k, v in os.environ.items() if k != PROGRAM_VARIABLE}


def check_settings(settings: Settings) -> None:
    """Lets the program check the settings of the servers on this node. Errors: InvalidArgument."""
    host = listen_host(settings.host)
    command = [settings.program, "--check-config", f"--listen={host}:0"]
    command += _arguments(settings.settings, host)
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True)
    if done.returncode or not done.stdout.startswith("listen = "):  # else --help or the like
        raise InvalidArgument(f"settings: {done.stderr.strip() or 'one is none of the server'}")


class ServerProcess:
    """A server with its rows in memory only, since its rows are also in the storage. It takes the
    first of its ports that is free. `ended` is set when the process has ended."""

    def __init__(self, settings: Settings, host: str, options: Mapping[str, Any]) -> None:
        launcher = [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid())]
        self._command = [*launcher, settings.program, *_arguments(options, host)]
        self._settings, self._host = settings, host
        self._known = threading.Event()
        self._address: str | None = None
        self._error = "the server did not start: see the log of the actor"
        self._starting = threading.Lock()
        self._killed = False
        self._process: subprocess.Popen[str] | None = None
        self.ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def serves(self) -> bool:
        return self._address is not None and not self.ended.is_set()

    def address(self) -> str:
        """Waits until the server serves; returns its address."""
        self._known.wait(READY_SECONDS_MAX)
        if self._address is None:
            raise Unavailable(self._error)
        return self._address

    def kill(self) -> None:
        """Ends the process, also one that is stopped."""
        with self._starting:
            self._killed = True
            if self._process is not None:
                self._process.kill()
        self.ended.wait()

    def _run(self) -> None:
        try:
            # Another server may take the port between the look and the start.
            for port in self._settings.listen_ports:
                if _is_free(self._host, port) and not self._serve(port):
                    return
            self._error = none_free(self._settings.listen_ports, self._host).message
        finally:
            self.ended.set()
            self._known.set()

    def _serve(self, port: int) -> bool:
        """Runs the server until it ends. Returns True if another process has the port."""
        taken = False
        pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        command = [*self._command, f"--listen={self._host}:{port}"]
        with self._starting:
            if self._killed:
                return False
            self._process = subprocess.Popen(
                command, env=_environment(), stderr=subprocess.STDOUT, **pipes
            )
        with self._process:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                sys.stderr.write(line)
                if "error" in line:
                    self._error = f"the server did not start: {line.strip()}"
                taken = taken or re.search(_TAKEN, line) is not None
                found = re.search(r"serving on ([^\s\"]+:\d+)", line)
                if found:
                    self._address = found[1]
                    self._known.set()
        return taken

"""Faults of a cluster on Ray."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import ray
from ray_model import TRY_SECONDS_MAX, repeat

FOLDERS = ("commits", "coordinators")
# A node is lost in the long ones of its cuts: Ray ends it when it is back, and another one starts, which takes long.
CUT_SECONDS_MAX = 5.0
LONG_CUTS = 0.1
NODE_SECONDS_MAX = 300  # until a node that was lost is back


class Faults:
    """Faults by name: each method causes one, and returns when it is over. They are those of a cluster of two replicas,
    and of another one on the same storage, the rival, which has one replica of each shard."""

    # The share of each fault. A server starts again in a fraction of a second, a process of Ray in two.
    SHARES: ClassVar[dict[str, int]] = {
        "server": 30, "storage": 12, "doubt": 10, "flaky": 8, "pause": 10, "frozen": 3, "compact": 8, "stop": 4, "coordinator": 4,
        "actor": 4, "rival": 7}  # fmt: skip
    # With two replicas no read fails while one of these lasts, if all servers were there before.
    HARMLESS = ("server", "storage", "doubt", "flaky", "pause", "compact", "stop", "actor", "rival", "cut")
    # Nor does a read of the rival, whose processes are others.
    HARMLESS_TO_RIVAL = ("server", "storage", "doubt", "flaky", "pause", "compact", "stop", "actor", "coordinator", "frozen")

    def __init__(
        self, client: Any, rival: Any, storage: Path, draw: random.Random, frozen_seconds_max: float, network: Any = None
    ) -> None:
        """network: of the nodes, whose connections are cut, too."""
        self.shares = {**self.SHARES, **({"cut": 12} if network is not None else {})}
        self._frozen_seconds_max = frozen_seconds_max
        self._client = client
        self._rival = rival
        self._network = network
        self._node = ""  # which the next cut takes
        self._storage = storage
        self._draw = draw
        self._ended: set[int | None] = set()  # processes that were killed, or stand still for good

    def healed(self) -> bool:
        """Returns whether all servers are ready, and none is one that has ended unnoticed."""
        servers = [each for of in (self._client, self._rival) for each in repeat(of.status)["servers"]]
        pids = {each.get(member) for each in servers for member in ("pid", "server_pid")}
        if not all(each["ready"] for each in servers) or not self._ended.isdisjoint(pids):
            return False
        self._ended.clear()  # a new process may get the number of one that has ended
        return True

    def await_healed(self) -> None:
        deadline = time.monotonic() + TRY_SECONDS_MAX
        while not self.healed():
            assert time.monotonic() < deadline, (self._client.status(), self._rival.status())
            self._settle()

    def _settle(self) -> None:
        """Waits for a change of the cluster, for a short time."""
        repeat(lambda: self._client.call("view", 10, have=self._client.call("view", 10)["have"], wait=0.1))

    def choose(self) -> str:
        return self._draw.choices([*self.shares], [*self.shares.values()])[0]

    def prepare(self, kind: str) -> str:
        """Chooses the node of a cut. Returns the kind, "cut off" for one that no cluster of two replicas survives: it takes
        the coordinator or all replicas of a shard."""
        if kind != "cut":
            return kind
        self._node = self._draw.choice(self._network.names)
        status = repeat(self._client.status)
        left = [each["shard"] for each in status["servers"] if each["ready"] and self._network.name_of(each["pid"]) != self._node]
        taken = self._network.name_of(status["pid"]) == self._node or len(set(left)) < status["shards"]
        return "cut off" if taken else kind

    def cause(self, kind: str, during: Any) -> None:
        """Causes a fault and calls `during` while it lasts, or right after it."""
        getattr(self, kind.partition(" ")[0])(during)

    def _some(self, member: str, of: Any = None) -> int | None:
        servers = [each for each in repeat((of or self._client).status)["servers"] if each["ready"]]
        return self._draw.choice(servers)[member] if servers else None

    @contextlib.contextmanager
    def _soon(self, *calls: tuple[float, Any]) -> Iterator[None]:
        """Makes calls, each that many seconds after the one before, the first in the first commit."""
        begin, pause = self._draw.uniform(0, 0.06), threading.Event()

        def run() -> None:
            pause.wait(begin)
            for seconds, call in calls:
                pause.wait(seconds)
                call()

        with ThreadPoolExecutor(1) as pool:
            called = pool.submit(run)
            yield
            called.result()

    def _end(self, pid: int | None, number: int) -> None:
        self._ended.add(pid)
        kill(pid, number)

    def server(self, during: Any) -> None:
        pid = self._some("server_pid")
        with self._soon((0, lambda: self._end(pid, signal.SIGKILL))):
            during()

    def actor(self, during: Any) -> None:
        pid = self._some("pid")
        with self._soon((0, lambda: self._end(pid, signal.SIGKILL))):
            during()

    def coordinator(self, during: Any) -> None:
        """Half of the times a manifest may be in doubt then."""
        pid = repeat(self._client.status)["pid"]
        doubt = self._away(self._draw.choice(FOLDERS), 0.2) if self._draw.random() < 0.5 else ()
        with self._soon(*doubt, (0, lambda: kill(pid, signal.SIGKILL))):
            during()

    def rival(self, during: Any) -> None:
        """A process of the other cluster ends or stands still."""
        member = self._draw.choice(["pid", "server_pid", "coordinator", "frozen"])
        pid = self._some(member, self._rival) if "pid" in member else repeat(self._rival.status)["pid"]
        calls = [(0.0, lambda: self._end(pid, signal.SIGKILL))]
        if member == "frozen":
            kill(pid, signal.SIGSTOP)
            calls = [(self._draw.uniform(1, self._frozen_seconds_max), lambda: kill(pid, signal.SIGCONT))]
        with self._soon(*calls):
            during()

    def cut(self, during: Any) -> None:
        """Nothing comes to a node, or from it, or both. Ray may lose it, and starts its actors elsewhere, while its
        processes run on; the storage is not cut. Then one of two replicas on one node moves."""
        chains = self._draw.choice([("INPUT",), ("OUTPUT",), ("INPUT", "OUTPUT")])
        self._network.cut(self._node, chains)
        seconds = self._draw.uniform(0.5, CUT_SECONDS_MAX)
        if self._draw.random() < LONG_CUTS:
            seconds += self._frozen_seconds_max / 3
        with self._soon((seconds, lambda: self._network.heal(self._node))):
            during()
        self._spread()

    def _spread(self) -> None:
        """Waits until all nodes are back and all servers are ready; ends one of two replicas of a shard on one node."""
        deadline = time.monotonic() + NODE_SECONDS_MAX
        while sum(each["Alive"] for each in ray.nodes()) <= len(self._network.names):
            assert time.monotonic() < deadline, ray.nodes()
            self._settle()
        self.await_healed()
        servers = repeat(self._client.status)["servers"]
        for server in servers:
            twins = [each for each in servers if (each["shard"], each["node"]) == (server["shard"], server["node"])]
            if len(twins) > 1 and server is twins[0]:
                self._end(server["pid"], signal.SIGKILL)

    def pause(self, during: Any) -> None:
        """A server that stands still for less than the time after which it is started again."""
        pid = self._some("server_pid")
        kill(pid, signal.SIGSTOP)
        with self._soon((self._draw.uniform(0.05, 0.8), lambda: kill(pid, signal.SIGCONT))):
            during()

    def frozen(self, during: Any) -> None:
        """The coordinator stands still; the rival goes on."""
        pid = repeat(self._client.status)["pid"]
        kill(pid, signal.SIGSTOP)
        with self._soon((self._draw.uniform(1, self._frozen_seconds_max), lambda: kill(pid, signal.SIGCONT))):
            during()

    def stop(self, during: Any) -> None:
        """A server that stands still for good is started again."""
        self._end(self._some("server_pid"), signal.SIGSTOP)
        during()

    def storage(self, during: Any) -> None:
        """The storage fails for a while, in the middle of commits."""
        with self._soon(*self._away("", 0.6)):
            during()

    def doubt(self, during: Any) -> None:
        """Manifests cannot be written or read for a while, or the address of the coordinator cannot. Half of the times the
        servers cannot read the rows right after that."""
        calls = self._away(self._draw.choice(FOLDERS), 0.3)
        if self._draw.random() < 0.5:
            calls += self._away("segments", 0.5)
        with self._soon(*calls):
            during()

    def flaky(self, during: Any) -> None:
        """The storage fails now and then."""
        calls = [each for _ in range(5) for each in self._away(self._draw.choice(["", *FOLDERS]), 0.1)]
        with self._soon(*calls):
            during()

    def _away(self, folder: str, seconds_max: float) -> list[tuple[float, Any]]:
        """Returns the calls that put a file in the place of a folder, and the folder back."""
        path, gone = self._storage / folder, self._storage.with_name("gone")

        def take() -> None:
            path.rename(gone)
            path.write_text("in the way")

        def back() -> None:
            path.unlink()
            gone.rename(path)

        return [(0, take), (self._draw.uniform(0.05, seconds_max), back)]

    def compact(self, during: Any) -> None:
        with ThreadPoolExecutor(1) as pool:
            compacted = pool.submit(repeat, lambda: self._client.compact("docs", timeout=30))
            during()
            compacted.result()


def kill(pid: int | None, number: int) -> None:
    try:
        if pid:
            os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended already

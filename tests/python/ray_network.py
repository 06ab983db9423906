"""Nodes of Ray in network namespaces of their own, whose connections can be cut. Needs root, ip and iptables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

BRIDGE, HEAD, PORT = "nearfield0", "10.77.0.1", 6379
MEMORY = 100 << 20  # of Ray's object store on each node
# A node is lost after 8 s without an answer, instead of one minute. Workers are as urgent as other processes here.
HEALTH = '{"health_check_period_ms": 1000, "health_check_timeout_ms": 1000, "health_check_failure_threshold": 4, "worker_niceness": 0}'
# A node has a folder of its own in the place of /tmp/ray, for its sockets. One that was lost ends when it is connected
# again; then another one is started in its place.
FOR_EVER = 'mount --bind "$0" /tmp/ray; while true; do "$@"; done'


def run(*command: str) -> None:
    subprocess.run(command, check=True)


class Network:
    """A head without cores in this namespace, and nodes with four cores each on one bridge with it."""

    def __init__(self, log: Path, nodes: int = 2) -> None:
        self.names = [f"nearfield{number}" for number in range(1, nodes + 1)]
        self._ray = str(Path(sys.executable).with_name("ray"))
        self._log = log.open("ab")
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{HEAD}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        # Ray finds the address of a process by the route to an address of the internet; else it asks for names.
        run("ip", "route", "add", "default", "dev", BRIDGE)
        head = [f"--node-ip-address={HEAD}", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false", f"--system-config={HEALTH}"]
        subprocess.run(self._command("--head", *head), stdout=self._log, stderr=self._log, check=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.address = f"{HEAD}:{PORT}"
        for number, name in enumerate(self.names, 11):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"{name}a", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"{name}a", "master", BRIDGE, "up")
            for command in (f"addr add 10.77.0.{number}/24 dev eth0", "link set lo up", "link set eth0 up", "route add default dev eth0"):
                run("ip", "-n", name, *command.split())
            node = self._command("--block", f"--address={self.address}", f"--node-ip-address=10.77.0.{number}", "--num-cpus=4")
            (log.parent / name).mkdir()
            command = ["ip", "netns", "exec", name, "bash", "-c", FOR_EVER, str(log.parent / name), *node]
            self._processes.append(subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True))

    def _command(self, *arguments: str) -> list[str]:
        return [self._ray, "start", "--disable-usage-stats", "--include-log-monitor=false", f"--object-store-memory={MEMORY}", *arguments]

    def cut(self, name: str, chains: Any) -> None:
        """Drops what comes to a node (INPUT), or from it (OUTPUT); neither side gets an error."""
        for chain in chains:
            run("ip", "netns", "exec", name, "iptables", "-w", "-A", chain, "-o" if chain == "OUTPUT" else "-i", "eth0", "-j", "DROP")

    def heal(self, name: str) -> None:
        run("ip", "netns", "exec", name, "iptables", "-w", "-F")

    def name_of(self, pid: int) -> str:
        """Returns the namespace of a process; "" if it is that of the head, or the process has ended."""
        try:
            mine = os.stat(f"/proc/{pid}/ns/net").st_ino
        except FileNotFoundError:
            return ""
        return next((name for name in self.names if os.stat(f"/run/netns/{name}").st_ino == mine), "")

    def close(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
        subprocess.run([self._ray, "stop", "--force"], stdout=self._log, stderr=self._log, check=False)
        for process in self._processes:
            process.wait(60)
        for name in self.names:
            run("ip", "netns", "del", name)
        run("ip", "link", "del", BRIDGE)
        self._log.close()

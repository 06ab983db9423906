"""The proxy of deploy/haproxy as a process on a free loopback port, with certificates of its own."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

from server import ServerProcess

CONFIG = Path(__file__).resolve().parents[2] / "deploy" / "haproxy" / "haproxy.cfg"
# Debian installs it where only root's PATH leads.
PROGRAM = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")


def new_certificate(folder: Path, name: str, authority: str | None = None) -> None:
    """Writes NAME.pem and NAME.key: an authority, or a certificate for 127.0.0.1 that one signed."""
    issuer = [] if authority is None else ["-CA", str(folder / f"{authority}.pem"), "-CAkey", str(folder / f"{authority}.key")]
    extension = "basicConstraints=critical,CA:TRUE" if authority is None else "subjectAltName=IP:127.0.0.1"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", extension, *issuer,
                    "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")],
                   check=True, capture_output=True)  # fmt: skip


class Edge(ServerProcess):
    """A running HAProxy with the configuration of deploy/haproxy. `changes` replaces lines of it."""

    def __init__(self, folder: Path, server: str, ops: str, changes: dict[str, str] | None = None) -> None:
        text = CONFIG.read_text()
        for old, new in (changes or {}).items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (folder / "haproxy.cfg").write_text(text)
        new_certificate(folder, "ca")
        new_certificate(folder, "edge", "ca")
        self.ca = folder / "ca.pem"
        (folder / "both.pem").write_text((folder / "edge.pem").read_text() + (folder / "edge.key").read_text())
        # The listening socket exists before HAProxy does, so no client has to wait for it.
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            self.port = listener.getsockname()[1]
            self.address = f"127.0.0.1:{self.port}"
            environment = {**os.environ, "EDGE_LISTEN": f"fd@{listener.fileno()}", "EDGE_CERT": str(folder / "both.pem"),
                           "EDGE_SERVER": server, "EDGE_OPS_PORT": ops.rpartition(":")[2], "EDGE_ADMIN": str(folder / "admin.sock"),
                           "EDGE_USER": pwd.getpwuid(os.getuid()).pw_name, "EDGE_GROUP": grp.getgrgid(os.getgid()).gr_name}  # fmt: skip
            assert PROGRAM
            super().__init__([PROGRAM, "-f", str(folder / "haproxy.cfg")], folder / "edge.log", environment,
                             pass_fds=[listener.fileno()])

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()

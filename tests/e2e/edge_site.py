"""A server with keys, the edge in front of it, honest callers and their collection "c"; the fixture `site`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import grpc
import numpy as np
import pytest
from conftest import start_server
from edge import Edge
from honest import LIMITS, ROWS, Honest, announced_sum


class Site:
    """A server with keys, the edge in front of it, and honest callers through the edge."""

    def __init__(self, request: pytest.FixtureRequest, pb, folder: Path) -> None:
        self.bare = request.config.getoption("--bare")
        self.program = Path(request.config.getoption("--cli")).resolve()
        self.folder = folder
        self.seed = request.config.getoption("--seed")
        key_file = folder / "keys.json"
        self.token_file = folder / "token"
        self.token_file.write_text(self.command("keys", "create", "operator", "--scopes", "search,read,write,admin", NEARFIELD_KEY_FILE=key_file))
        self.metadata = [("authorization", "Bearer " + self.token_file.read_text().strip())]
        self.server = start_server(request, folder, *LIMITS, "--ops-listen", "127.0.0.1:0", "--key-file", str(key_file))
        self.edge: Edge | None = None
        self.address = self.server.address
        self.channel = self.server.channel
        if not self.bare:
            self.edge = self.new_edge(folder)
            self.address = self.edge.address
            self.channel = self.channel_to(self.edge)
        self.admin = pb.AdminStub(self.channel)
        self.pb = pb

    def new_edge(self, folder: Path, changes: dict[str, str] | None = None) -> Edge:
        return Edge(folder, self.server.address, self.server.ops_address(), changes)

    def channel_to(self, edge: Edge) -> grpc.Channel:
        return grpc.secure_channel(edge.address, grpc.ssl_channel_credentials(edge.ca.read_bytes()))

    def command(self, *arguments: object, code: int = 0, **environment: object) -> str:
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                              stdin=subprocess.DEVNULL, cwd=self.folder,
                              env={**os.environ, **{name: str(value) for name, value in environment.items()}})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def through(self, *arguments: object, code: int = 0) -> str:
        """Runs the command with the address and the key of this site."""
        tls = {} if self.edge is None else {"NEARFIELD_CA": self.edge.ca}
        return self.command(*arguments, code=code, NEARFIELD_ADDRESS=self.address, NEARFIELD_TOKEN_FILE=self.token_file, **tls)

    def searches(self) -> int:
        """Returns the number of searches that reached the server, whatever their status."""
        counters = self.admin.GetCounters(self.pb.GetCountersRequest(), timeout=20, metadata=self.metadata)
        return sum(each.calls_count for each in counters.calls if each.method == "Search")

    def descriptors(self) -> list[int]:
        processes = [self.server.process] + ([self.edge.process] if self.edge else [])
        return [len(os.listdir(f"/proc/{each.pid}/fd")) for each in processes]

    def close(self) -> None:
        self.channel.close()
        if self.edge:
            self.edge.close()
        self.server.close()


@pytest.fixture(scope="module")
def site(request, pb, tmp_path_factory):
    site = Site(request, pb, tmp_path_factory.mktemp("site"))
    site.honest = Honest(pb, site.channel, np.random.default_rng(site.seed), site.metadata)
    np.save(site.folder / "rows.npy", site.honest.rows)
    np.save(site.folder / "ids.npy", np.arange(1, ROWS + 1, dtype=np.uint64))
    site.through("upload", "c", "rows.npy", "--ids", "ids.npy", "--create", "--metric", "dot")
    site.honest.p99()  # makes the connections
    site.sum = announced_sum(request.config.getoption("--server"))
    yield site
    site.close()


def search_by_id(pb) -> bytes:
    return pb.SearchRequest(collection="c", queries=[pb.Query(row_id=pb.Id(number=1))], k=3).SerializeToString()

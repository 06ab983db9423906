"""Abuse through the HAProxy configuration of deploy/haproxy: honest callers are served, memory and descriptors stay bounded, the
attacker is cut off or limited.

Each attack comes from a loopback address of its own, in a separate process with a lower priority. With --bare the attacks hit
the server itself, and only the honest callers, their answers and the memory are checked: some then fail, which
deploy/README.md, "The edge", lists.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge import PROGRAM
from edge_site import Site, search_by_id, site  # noqa: F401
from honest import BASE_S_MIN, forget_peak, gzip_bomb, peak_bytes

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs haproxy")

FLOOD = Path(__file__).with_name("flood.py")
MIB = 1 << 20
EDGE_BYTES_MAX = 96 * MIB
# The limits of haproxy.cfg.
CONNECTIONS_MAX = 64
CONNECTIONS_PER_10S_MAX = 200
CALLS_MAX = 200
UNANSWERED_MAX = 1000


_sources: Iterator[int] = iter(range(2, 250))


class Flood:
    """A flood.py, from an address of its own."""

    def __init__(self, site: Site, kind: str, connections: int, seconds: float, *, message: bytes = b"", until: tuple[str, int] | None = None,
                 source: str | None = None) -> None:
        self.source = source or f"127.0.0.{next(_sources)}"
        self.connections = connections
        arguments = [kind, site.address.rpartition(":")[2], str(connections), str(seconds), str(site.seed), "--source", self.source,
                     "--token", str(site.token_file)]
        if site.edge:
            arguments += ["--ca", str(site.edge.ca)]
        if message:
            (site.folder / kind).write_bytes(message)
            arguments += ["--message", str(site.folder / kind)]
        if until:
            arguments += ["--until", until[0], str(until[1])]
        self.command = [sys.executable, str(FLOOD), *arguments]

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)

    def running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> dict[str, int]:
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return {"opened": 0, "refused": 0, "ended": 0, "bytes_sent": 0, **json.loads(out)}


def check(site: Site, *floods: Flood) -> list[dict[str, int]]:
    """Measures the honest callers before and while the floods run; returns what the attackers saw."""
    # Where other work waits for the cores, a call waits its turn as often as there are processes in line.
    in_line = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    base = max(site.honest.p99(), BASE_S_MIN * in_line)
    for flood in floods:
        flood.start()
    forget_peak(site.server.process)
    p99 = site.honest.p99(lambda: any(flood.running() for flood in floods))
    seen = [flood.end() for flood in floods]
    server = peak_bytes(site.server.process)
    edge = peak_bytes(site.edge.process) if site.edge else 0
    print(f"\n  p99 {p99 * 1000:.1f} ms, base {base * 1000:.1f} ms; peak of the server {server / MIB:.0f} MiB of {site.sum / MIB:.0f}, "
          f"of the edge {edge / MIB:.0f} MiB\n  {seen}")
    assert p99 <= 10 * base, f"p99 {p99:.3f} s, base {base:.3f} s; {seen}"
    assert server <= site.sum, f"{server / MIB:.0f} MiB of {site.sum / MIB:.0f}; {seen}"
    assert edge <= EDGE_BYTES_MAX, f"{edge / MIB:.0f} MiB; {seen}"
    assert site.server.process.poll() is None and (site.edge is None or site.edge.process.poll() is None)
    return seen


def is_shut_out(site: Site, flood: Flood) -> bool:
    """Returns whether the edge closes new connections of this attacker before the TLS handshake."""
    again = Flood(site, "churn", 1, 0.3, source=flood.source)
    again.start()
    late = again.end()
    return late["opened"] == 0 and late["refused"] > 0


@pytest.mark.parametrize("kind", ["headers", "continuations"])
def test_a_connection_with_endless_headers_is_cut(site, kind):
    """60 KB of metadata for each call; one header block that never ends. The bare server kept 930 MB of the latter."""
    (seen,) = check(site, Flood(site, kind, 4, 4))
    if not site.bare:
        assert seen["ended"] >= 4 and seen["bytes_sent"] / seen["opened"] < 4 * MIB, seen
        assert seen["opened"] <= CONNECTIONS_PER_10S_MAX + 4, seen


def test_calls_reset_at_once_do_not_reach_the_server(site):
    """Rapid reset: the bare server kept 1.7 GB, and honest callers waited for 20 s."""
    before = site.searches()
    mine = 0

    def count(number: int, call=site.honest.call) -> None:
        nonlocal mine
        mine += 1
        call(number)

    site.honest.call = count
    try:
        flood = Flood(site, "resets", 4, 20, until=("bytes_sent", 30_000_000))
        check(site, flood)
    finally:
        del site.honest.call
    if not site.bare:
        assert site.searches() - before - mine <= UNANSWERED_MAX + 4 * CALLS_MAX
        assert is_shut_out(site, flood)


def test_a_storm_of_cancelled_searches_is_cut(site, pb):
    # A connection that was closed is opened again, and refused for as long as the others go on.
    (seen,) = check(site, Flood(site, "cancels", 4, 4 if site.bare else 30, message=search_by_id(pb), until=("refused", 10)))
    if not site.bare:
        assert seen.get("goaway_11", 0) >= 1, seen  # ENHANCE_YOUR_CALM
        assert seen["refused"] >= 10, seen


def test_answers_that_nobody_takes_are_limited(site, pb):
    """Calls whose window never opens: 16 KiB each in the edge."""
    (seen,) = check(site, Flood(site, "unread", 6, 4, message=search_by_id(pb)))
    if not site.bare:
        assert seen.get("grpc_status_8", 0) >= 600 - CALLS_MAX, seen


def test_slow_and_pointless_connections_are_closed(site, pb):
    """Headers byte by byte, frames that make no call, calls whose message never ends."""
    seconds = 8 if site.bare else 40  # each ends earlier, when all of its connections were closed
    kinds = {"slow_headers": 30, "empty_continuations": 2, "pings": 2, "settings": 2}
    floods = [Flood(site, kind, count, seconds, until=("ended", count)) for kind, count in kinds.items()]
    floods.append(Flood(site, "slow_bodies", CONNECTIONS_MAX + 10, seconds, message=search_by_id(pb),
                        until=("grpc_status_4", CONNECTIONS_MAX)))
    *seen, bodies = check(site, *floods)
    if not site.bare:
        for flood, each in zip(floods[:-1], seen, strict=True):
            assert each["ended"] >= flood.connections, each
        assert bodies["open"] == bodies["grpc_status_4"] == CONNECTIONS_MAX and bodies["refused"] > 0, bodies


def test_churning_connections_are_refused_before_their_handshake(site):
    (seen,) = check(site, Flood(site, "churn", 1, 4 if site.bare else 20, until=("refused", 100)))
    if not site.bare:
        assert 0 < seen["opened"] <= CONNECTIONS_PER_10S_MAX / 10 < seen["refused"], seen


def test_a_gzip_bomb_is_refused_packed(site):
    (seen,) = check(site, Flood(site, "gzip", 4, 3, message=gzip_bomb()))
    assert seen.get("grpc_status_12", 0) == 4, seen  # UNIMPLEMENTED


def test_garbage_ends_its_connection_only(site):
    (seen,) = check(site, Flood(site, "garbage", 4, 4))
    if not site.bare:
        assert seen["ended"] > 4, seen


def test_descriptors_return_to_their_number_before_the_floods(site):
    """The edge closes the connections to the server that it needs no more."""
    deadline = time.monotonic() + 60
    while (now := site.descriptors()) and max(now) > 40:  # 20 each when idle
        assert time.monotonic() < deadline, now
        site.honest.p99()

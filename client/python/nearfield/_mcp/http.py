"""HTTP of nearfield-mcp: where it listens, and which hosts it answers for."""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Sequence
from ipaddress import ip_address

from mcp.server.transport_security import TransportSecuritySettings

_LISTEN = re.compile(r"(?:(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]*)):)?([0-9]{1,5})")
_HOST = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def listen_address(text: str) -> tuple[str, int]:
    """Returns the host and the port of HOST:PORT, [IPv6]:PORT, or PORT on loopback."""
    found = _LISTEN.fullmatch(text)
    if found is None or int(found[3]) > 65535:
        raise argparse.ArgumentTypeError(
            f"{text!r}; write HOST:PORT, such as 127.0.0.1:8000 or [::1]:8000"
        )
    return found[1] or found[2] or LOOPBACK[0], int(found[3])


def check_listen(host: str, port: int, *, allow_insecure: bool) -> None:
    """Raises ValueError if the address is beyond loopback without `allow_insecure`, or cannot be
    bound: the message of the HTTP server does not name a host that does not exist."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        if not allow_insecure and not all(ip_address(each[4][0]).is_loopback for each in found):
            raise ValueError(
                f"--http: {host} is beyond loopback, and callers are not authenticated: listen on"
                f" {LOOPBACK[0]}:{port} and let a proxy authenticate them, or give --allow-insecure"
                " if trusted callers alone can reach the port"
            )
        family, _, _, _, address = found[0]
        socket.create_server(address[:2], family=family).close()
    except OSError as error:
        raise ValueError(f"--http: {host} port {port}: {error.strerror}") from None


def host_name(text: str) -> str:
    """Checks a host as browsers and proxies send it in the header Host."""
    if _HOST.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r}; write a host without scheme or path, such as mcp.example.com"
        )
    return text.lower()


def security(hosts: Sequence[str]) -> TransportSecuritySettings | None:
    """Returns the check of requests by their headers Host and Origin. Without hosts it is the
    SDK's: only loopback where it listens on loopback, else any host."""
    if not hosts:
        return None
    names = [each for host in (*LOOPBACK, *hosts) for each in (host, f"{host}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)

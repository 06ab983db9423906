"""A TCP link to a server that a test can cut."""

from __future__ import annotations

import contextlib
import socket
import threading


class Link:
    """Forwards connections on a loopback port to `address`."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.cuts = 0
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            with self._lock:
                self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Ends all connections; new ones are accepted."""
        with self._lock:
            self.cuts += 1
            cut, self._sockets = self._sockets, []
        for each in cut:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

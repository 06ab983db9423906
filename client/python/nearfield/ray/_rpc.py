"""Calls to the coordinator: JSON over gRPC, so that a client needs neither Ray nor pickles."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from nearfield._errors import Error, Unavailable, error_of, from_rpc_error

_METHOD = "/nearfield.ray.Coordinator/Call"
_THREADS = 64  # calls at a time; a client that waits for a change holds one
_BYTES_MAX = 256 << 20
_OPTIONS = [
    ("grpc.max_receive_message_length", _BYTES_MAX),
    ("grpc.max_send_message_length", _BYTES_MAX),
    ("grpc.so_reuseport", 0),  # else two coordinators could share a port
    # A machine that is gone is noticed after 15 s, also by a call that waits for long.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
]

# The message of a coordinator that cannot answer now; another one may have the cluster.
WAITING = "the coordinator waits for the storage"


class Unreachable(Unavailable):
    """No coordinator has answered the call; it may have taken effect."""


def none_free(ports: Sequence[int], host: str) -> Unavailable:
    return Unavailable(f"ports: none of {min(ports)}-{max(ports)} is free at {host}")


def serve(
    methods: Mapping[str, Callable[..., Any]],
    host: str,
    ports: Sequence[int] = (0,),
    cluster: str | None = None,
) -> tuple[Any, str]:
    """Returns a server of the methods, on the first port that is free, and its address. They take
    and return JSON values. cluster: calls for another one are refused, such as from a client that
    knows this address from one that has ended. Errors: Unavailable."""

    def call(data: bytes, _: Any) -> bytes:
        request = json.loads(data)
        try:
            if request.get("cluster") != cluster:
                raise Unavailable(f"{WAITING} of another cluster")
            reply: dict[str, Any] = {"value": methods[request["method"]](**request["arguments"])}
        except Error as error:
            reply = {"error": error.code.name, "message": error.message}
        except OSError as error:
            reply = {"error": "UNAVAILABLE", "message": f"storage: {error}"}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": "INTERNAL", "message": f"{type(error).__name__}: {error}"}
        return json.dumps(reply).encode()

    service, method = _METHOD.strip("/").split("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(call)}
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    for each in ports:
        with contextlib.suppress(RuntimeError):  # another process has the port
            port = server.add_insecure_port(f"{host}:{each}")
            server.start()
            return server, f"{host}:{port}"
    raise none_free(ports, host)


class Caller:
    """A connection to a coordinator. Thread safety: any number of threads."""

    def __init__(self, address: str, cluster: str | None = None) -> None:
        self._cluster = cluster
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._call = self._channel.unary_unary(_METHOD)

    def call(self, method: str, timeout: float, **arguments: Any) -> Any:
        """Errors: those of the method; Unreachable; DeadlineExceeded."""
        request = {"method": method, "arguments": arguments, "cluster": self._cluster}
        data = json.dumps(request).encode()
        try:
            reply = json.loads(self._call(data, timeout=max(0.001, timeout)))
        except grpc.RpcError as raised:
            error = from_rpc_error(raised)
            raise Unreachable(error.message) if isinstance(error, Unavailable) else error from None
        if reply.get("message", "").startswith(WAITING):
            raise Unreachable(reply["message"])
        if "error" in reply:
            raise error_of(grpc.StatusCode[reply["error"]], reply["message"], ())
        return reply["value"]

    def close(self) -> None:
        self._channel.close()

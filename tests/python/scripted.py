"""A gRPC server that answers as a test has scripted, and a clock that nothing has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc

from nearfield._proto import error_details_pb2, status_pb2


@dataclass
class Refusal:
    """An error of the server, as server/grpc/status_details.cc sends it."""

    code: grpc.StatusCode
    message: str = "refused"
    facts: dict[str, str] = field(default_factory=dict)
    retry_after_ms: int | None = None
    request_id: str | None = "request-1"
    details: bytes | None = None  # instead of the standard ones

    def metadata(self) -> tuple[tuple[str, Any], ...]:
        found: list[tuple[str, Any]] = [("grpc-status-details-bin", self.details or self._details())]
        if self.request_id:
            found.append(("nearfield-request-id", self.request_id))
        if self.retry_after_ms is not None:
            found.append(("grpc-retry-pushback-ms", str(self.retry_after_ms)))
        return tuple(found)

    def _details(self) -> bytes:
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        info = error_details_pb2.ErrorInfo(reason=self.code.name, domain="nearfield", metadata=self.facts)
        status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())
        return status.SerializeToString()


class ScriptedServer(grpc.GenericRpcHandler):
    """script: for each method the answers to its calls in turn: a Refusal, NO_ANSWER, a message, or
    a list of them for a method that sends several. calls: (method, request bytes, metadata) as they
    came."""

    NO_ANSWER = object()
    STREAMS = ("SearchStream", "SearchAll", "Scan", "Upload")

    def __init__(self) -> None:
        self.script: dict[str, list[Any]] = {}
        self.calls: list[tuple[str, bytes, dict[str, Any]]] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]

        def answers(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            first = next(requests, b"")
            with self._lock:
                self.calls.append((method, first, dict(context.invocation_metadata())))
                scripted = self.script[method].pop(0)
            context.set_trailing_metadata((("nearfield-request-id", "request-0"),))
            for number, each in enumerate(scripted if isinstance(scripted, list) else [scripted]):
                if each is self.NO_ANSWER:
                    self._closing.wait()
                    return
                if isinstance(each, Refusal):
                    context.set_trailing_metadata(each.metadata())
                    context.abort(each.code, each.message)
                if method == "Upload" and number > 0:  # a commit comes after all blocks
                    for _ in requests:
                        pass
                yield each.SerializeToString()

        def one(request: bytes, context: Any) -> bytes:
            return next(answers(iter([request]), context), b"")

        if method in ("SearchStream", "Upload"):
            return grpc.stream_stream_rpc_method_handler(answers)
        if method in self.STREAMS:
            return grpc.unary_stream_rpc_method_handler(lambda request, context: answers(iter([request]), context))
        return grpc.unary_unary_rpc_method_handler(one)

    def methods(self) -> list[str]:
        return [method for method, _, _ in self.calls]

    def close(self) -> None:
        self._closing.set()
        self._server.stop(None).wait()


class FakeClock:
    """Time passes only by waits; they are recorded."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:  # tidy: allow(sleep): it only moves the clock
        self.waits.append(seconds)
        self.time += seconds

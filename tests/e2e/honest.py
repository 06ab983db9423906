"""The parts that the tests of abuse share: small limits for a server, honest callers with their corpus and its answers, the
memory of a process."""

from __future__ import annotations

import re
import subprocess
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
from conftest import run_together

LIMITS = ["--backend", "cpu", "--memory-bytes", "64MiB", "--host-memory-bytes", "64MiB",
          "--attribute-memory-bytes", "16MiB", "--filter-cache-bytes", "16MiB", "--queue-bytes-max", "16MiB",
          "--request-bytes-max", "16MiB", "--response-bytes-max", "16MiB", "--replies-bytes-max", "64MiB",
          "--requests-bytes-max", "32MiB", "--transport-bytes-max", "32MiB", "--uploads-max", "2",
          "--connections-max", "600", "--reply-unread-ms", "1000"]
DIM = 1024
ROWS = 64
# Two loaded cores sometimes delay a call by this long, independent of the server.
BASE_S_MIN = 0.02
CALLS = 120
CALLERS = 2
# A caller thinks between its calls. Without it, two of them would keep the cores busy, and an attacker on the same machine
# would hardly get a turn.
THINK_S = 0.005


def gzip_bomb() -> bytes:
    """Returns the begin of a gzip file, about 1 MiB, that expands to 1 GiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(16 << 20)
    # After a full flush, equal bytes become equal blocks.
    first, next_ = (packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + next_ * 63


def announced_sum(program: str) -> int:
    printed = subprocess.run([program, "--check-config", *LIMITS], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"# memory sum: (\d+) of", printed)[1])


def forget_peak(process: subprocess.Popen) -> None:
    """Makes peak_bytes begin again from the memory that the process has now."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def peak_bytes(process: subprocess.Popen) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


class Honest:
    """Callers that search, one call after another, and compare each answer with the one computed here. They retry when the
    server or the edge refuses a call with a status that asks for it."""

    def __init__(self, pb, channel: grpc.Channel, rng: np.random.Generator, metadata: list[tuple[str, str]]) -> None:
        self.pb = pb
        self.stub = pb.RetrievalStub(channel)
        self.metadata = metadata
        # Small integers: their products have no rounding, so the scores are exact in every order.
        self.rows = rng.integers(-3, 4, (ROWS, DIM)).astype(np.float32)
        self.queries = rng.integers(-3, 4, (8, DIM)).astype(np.float32)
        self.answers = []
        for query in self.queries:
            scores = self.rows @ query
            order = np.lexsort((np.arange(ROWS), -scores))[:3]
            self.answers.append([(int(row) + 1, float(scores[row])) for row in order])

    def call(self, number: int) -> None:
        which = number % len(self.queries)
        request = self.pb.SearchRequest(collection="c", queries=[self.pb.Query(vector=self.pb.FloatVector(values=self.queries[which].tolist()))], k=3)
        while True:
            try:
                result = self.stub.Search(request, timeout=20, metadata=self.metadata).results[0]
            except grpc.RpcError as error:
                # gRPC's own quota ends streams and connections of any client when it runs out.
                if error.code() not in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE):
                    raise
                continue
            assert list(zip(result.ids.numbers, result.scores, strict=True)) == self.answers[which]
            return

    def p99(self, busy: Callable[[], bool] = lambda: False) -> float:
        """Returns the p99 of the time of a call, over CALLS calls or as many as end while busy() holds."""
        times: list[float] = []
        failed: list[BaseException] = []
        lock = threading.Lock()

        def run() -> None:
            number, think = 0, threading.Event()
            try:
                while number < CALLS // CALLERS or busy():
                    begin = time.monotonic()
                    self.call(number)
                    with lock:
                        times.append(time.monotonic() - begin)
                    number += 1
                    think.wait(THINK_S)
            except BaseException as error:  # raised by the thread of the test
                failed.append(error)

        run_together([run] * CALLERS)
        if failed:
            raise failed[0]
        return sorted(times)[int(len(times) * 0.99)]

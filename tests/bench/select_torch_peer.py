"""Times torch.topk (largest, sorted) on the same card, as select_bench times the library.

Prints one line "NEARFIELD_BENCH_JSON {...}" per case for one call between two events, then another
for 20 calls in a CUDA graph if PyTorch can capture them. The scores have the same distribution, the
outputs are preallocated, and the runs rotate through as many copies of the input. Without PyTorch
or a GPU it prints the reason and exits with 3.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

COLD_BYTES = 120_000_000  # twice the L2 of the target card
COPIES_MAX = 8
CALLS_PER_GRAPH = 20
GRAPH_US_MAX = 2_000  # above it, the cost of a launch is negligible
GRAPH_FAILURES_MAX = 3


class Case(NamedTuple):
    """One line of a case file: batch n k type input, and an algorithm, which is ignored."""

    batch: int
    n: int
    k: int
    dtype: str
    input: str


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case-file", required=True)
    parser.add_argument("--runs", type=int, default=21, help="calls timed at least")
    parser.add_argument("--runs-max", type=int, default=51)
    parser.add_argument("--seconds", type=float, default=0.03, help="for each figure of a case, once it has its runs")
    return parser.parse_args()


def read_cases(path: str) -> list[Case]:
    cases = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and not words[0].startswith("#"):
                cases.append(Case(int(words[0]), int(words[1]), int(words[2]), words[3], words[4]))
    return cases


class Peer:
    """Runs torch.topk over the copies of one input at a time."""

    def __init__(self, torch: Any, arguments: argparse.Namespace) -> None:
        self.torch = torch
        self.arguments = arguments
        self.types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        self.generator = torch.Generator(device="cuda")
        self.generator.manual_seed(1)
        self.shape: tuple[Any, ...] = ()
        self.copies: list[Any] = []

    def prepare(self, case: Case) -> None:
        """Makes the input and its copies, unless the last case had the same input."""
        shape = (case.batch, case.n, case.dtype, case.input)
        if shape == self.shape:
            return
        self.copies = []
        make = {"normal": self.torch.randn, "uniform": self.torch.rand}[case.input]
        scores = make(case.batch, case.n, device="cuda", dtype=self.types[case.dtype], generator=self.generator)
        count = min(max(-(-COLD_BYTES // (scores.numel() * scores.element_size())), 1), COPIES_MAX)
        self.copies = [scores] + [scores.clone() for _ in range(count - 1)]
        self.shape = shape

    def call_of(self, case: Case) -> Callable[[int], None]:
        values = self.torch.empty(case.batch, case.k, device="cuda", dtype=self.types[case.dtype])
        indices = self.torch.empty(case.batch, case.k, device="cuda", dtype=self.torch.int64)

        def call(i: int) -> None:
            self.torch.topk(self.copies[i % len(self.copies)], case.k, dim=1, out=(values, indices))

        return call

    def time(self, enqueue: Callable[[int], None], runs: int) -> tuple[float, int]:
        """Returns the median time of one run between two events, in us, and the number of runs."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        times: list[float] = []
        started = time.perf_counter()
        while len(times) < runs or (
            len(times) < self.arguments.runs_max and time.perf_counter() - started < self.arguments.seconds
        ):
            self.torch.cuda.synchronize()
            begin.record()
            enqueue(len(times))
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1000)
        return statistics.median(times), len(times)

    def one_call(self, case: Case) -> dict[str, Any]:
        self.prepare(case)
        call = self.call_of(case)
        for i in range(3):
            call(i)
        us, runs = self.time(call, self.arguments.runs)
        return {"us": round(us, 2), "runs": runs}

    def in_graph(self, case: Case) -> dict[str, Any]:
        self.prepare(case)
        call = self.call_of(case)
        call(0)
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for i in range(CALLS_PER_GRAPH):
                call(i)
        graph.replay()
        us, _ = self.time(lambda _: graph.replay(), 3)
        return {"graph_us": round(us / CALLS_PER_GRAPH, 2)}


def rows_of(peer: Peer, cases: list[Case]) -> Iterator[dict[str, Any]]:
    """Yields all single calls first, so that a failing capture costs only the graph times."""
    facts = {"bench": "torch.topk", "torch": peer.torch.__version__}
    quick = []
    for case in cases:
        row = peer.one_call(case)
        if row["us"] <= GRAPH_US_MAX:
            quick.append(case)
        yield {**facts, **case._asdict(), **row}
    failures = 0
    for case in quick:
        try:
            yield {**facts, **case._asdict(), **peer.in_graph(case)}
        except RuntimeError as error:
            print(f"select_torch_peer: no graph of {case}: {str(error).splitlines()[0]}", flush=True)
            failures += 1
            if failures == GRAPH_FAILURES_MAX:
                return


def main() -> int:
    """Times every case; returns the exit code."""
    arguments = parse()
    try:
        import torch
    except ImportError:
        print("select_torch_peer: PyTorch is not installed", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("select_torch_peer: PyTorch sees no GPU", file=sys.stderr)
        return 3
    gc.freeze()  # each capture collects garbage; skip the objects of the PyTorch import
    for row in rows_of(Peer(torch, arguments), read_cases(arguments.case_file)):
        print("NEARFIELD_BENCH_JSON " + json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

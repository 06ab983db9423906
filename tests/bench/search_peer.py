"""Times another library's exact search of rows by inner product on the same card, host to host.

    python3 tests/bench/search_peer.py --peer torch --n 100000 --dim 768 --k 10,100 --batch 1,32
    python3 tests/bench/search_peer.py --peer cuvs --cuvs FOLDER ...

`torch` is PyTorch's mv + topk (one query) and mm + topk (a batch) in full fp32; `torch-graph` is the
same as a CUDA graph that writes to pinned memory. `cuvs` is cuVS's brute force. The other peers use
fewer bits, so their rows have `"exact": false`: `torch-tf32` and `torch-bf16`; `cuvs-fp16`, whose
rows and queries are fp16; `torch-bf16-nearfield` and `torch-int8-nearfield`, which are torch.mm in
bf16 and torch._int_mm, each followed by nearfield.topk, as CUDA graphs. The codes of int8 share one
scale, so that their products order the rows.

nearfield.topk needs the packages nearfield and nearfield-native; NEARFIELD_TOPK_LIBRARY can name
libnearfield_topk.so of a build folder. Without the packages' dependencies, a folder `nearfield` on
PYTHONPATH suffices that holds `topk`, `_dlpack.py` and `_shared_library.py` of
client/python/nearfield. `--data all-equal` searches a corpus of which all rows are equal.

A search copies the queries from pinned memory to the device, and scores and row numbers back.
Prints one line "NEARFIELD_BENCH_JSON {...}" per configuration. Without the library or a GPU it
reports that and exits with 3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

import cuvs_library

PEERS = ("torch", "torch-graph", "torch-tf32", "torch-bf16", "torch-bf16-nearfield", "torch-int8-nearfield", "cuvs", "cuvs-fp16")
FLOAT16 = cuvs_library.DLDataType(2, 16, 1)
CODES_PER_UNIT = 32  # int8 codes then reach four standard deviations of the random rows
INT8_QUERIES_MULTIPLE = 8  # torch._int_mm takes more than 16 queries; rows and dimensions must be multiples of 8
INT8_QUERIES_MIN = 24

Search = Callable[[int], Any]  # k -> scores and row numbers on the host


def parse() -> argparse.Namespace:
    """Parses the grid, with the options of search_bench and certified_bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--cuvs", type=Path, help="folder of libcuvs_c.so; default: where pip installed it")
    parser.add_argument("--n", type=numbers, default=[10_000, 50_000, 100_000, 500_000, 1_000_000])
    parser.add_argument("--dim", type=numbers, default=[384, 768, 1024])
    parser.add_argument("--k", type=numbers, default=[8, 32, 100])
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--data", choices=("gaussian", "all-equal"), default="gaussian")
    parser.add_argument("--runs", type=int, default=51)
    return parser.parse_args()


class Torch:
    """mv or mm, then a selection. Modes: fp32, graph, tf32, bf16, bf16-nearfield, int8-nearfield."""

    def __init__(self, mode: str) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
        self.torch, self.version, self.mode = torch, torch.__version__, mode
        self.exact, self.dtype = mode in ("fp32", "graph"), mode[:4] if mode[:4] in ("bf16", "int8") else "fp32"
        self.selection: Any = None  # nearfield.topk, if it selects
        if self.dtype == "int8" and not hasattr(torch, "_int_mm"):
            raise ImportError("this PyTorch has no torch._int_mm")
        if mode.endswith("-nearfield"):
            from nearfield import topk

            self.selection = topk
            if torch.cuda.is_available():
                topk.algorithms()  # loads the library and its kernels, which a capture cannot

    def multiplies_vector(self, batch: int) -> bool:
        return batch == 1 and self.exact

    def name(self, batch: int) -> str:
        if self.selection:
            return ("torch._int_mm" if self.dtype == "int8" else "torch.mm.bf16") + "+nearfield.topk"
        if self.multiplies_vector(batch):
            return "torch.mv+topk" + (".graph" if self.mode == "graph" else "")
        return f"torch.mm+topk.{self.mode}"

    def convert(self, values: Any) -> Any:
        """Returns rows or queries in the type that this peer multiplies."""
        if self.dtype == "int8":
            return (values * CODES_PER_UNIT).round().clamp(-127, 127).to(self.torch.int8)
        return values.to(self.torch.bfloat16) if self.dtype == "bf16" else values

    def queries_on_device(self, batch: int) -> int:
        """Returns the number of queries that are multiplied for a batch; those beyond it are zero."""
        if self.dtype != "int8":
            return batch
        return max(INT8_QUERIES_MIN, -(-batch // INT8_QUERIES_MULTIPLE) * INT8_QUERIES_MULTIPLE)

    def multiply(self, corpus: Any, on_device: Any) -> Any:
        """Returns the product of every query with every row."""
        if self.dtype == "int8":
            return self.torch._int_mm(on_device, corpus.t())
        if self.multiplies_vector(len(on_device)):
            return self.torch.mv(corpus, on_device[0])[None]
        return self.torch.mm(on_device, corpus.t())

    def searcher(self, corpus: Any, queries: Any) -> Search:
        def search(k: int) -> Any:
            on_device = queries.to("cuda", non_blocking=True)
            best, places = self.torch.topk(self.multiply(corpus, on_device), k)
            return best.cpu(), places.cpu()

        return self.captured(corpus, queries) if self.mode == "graph" or self.selection else search

    def captured(self, corpus: Any, queries: Any) -> Search:
        """Returns searches that are CUDA graphs, made at the first use of each k."""
        torch, graphs, batch = self.torch, {}, len(queries)
        workspaces: dict[int, Any] = {}
        scores_type = {"int8": torch.int32, "bf16": torch.bfloat16}.get(self.dtype, torch.float32)
        types = (scores_type, torch.int32 if self.selection else torch.int64)

        def select(scores: Any, k: int) -> Any:
            if not self.selection:
                return torch.topk(scores, k)
            if k not in workspaces:  # in the run before the capture
                workspaces[k] = self.selection.make_workspace(scores, k)
            return self.selection.topk(scores, k, workspace=workspaces[k])

        def enqueue(on_device: Any, answer: Any, k: int) -> None:
            on_device[:batch].copy_(queries, non_blocking=True)
            scores = self.multiply(corpus, on_device)[:batch]
            for to, found in zip(answer, select(scores, k)):
                to.copy_(found, non_blocking=True)

        def search(k: int) -> Any:
            if k not in graphs:
                on_device = torch.zeros(self.queries_on_device(batch), queries.shape[1], dtype=queries.dtype, device="cuda")
                answer = [torch.empty(batch, k, dtype=each, pin_memory=True) for each in types]
                stream = torch.cuda.Stream()
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):  # a graph is captured after a first run on the same stream
                    enqueue(on_device, answer, k)
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    enqueue(on_device, answer, k)
                graphs[k] = graph, answer, on_device
            graph, answer, _ = graphs[k]
            graph.replay()
            torch.cuda.current_stream().synchronize()
            return answer

        return search


class Cuvs:
    """cuVS's brute force, with result arrays made beforehand and a memory pool, as its
    documentation recommends, on a stream that PyTorch uses too."""

    def __init__(self, folder: Path | None, dtype: str = "fp32") -> None:
        self.exact, self.dtype = dtype == "fp32", dtype
        if folder is None:
            raise ImportError("libcuvs is not installed")
        # Before PyTorch: both use libnvJitLink, a process has one of them, and cuVS needs a newer one.
        self.library = cuvs_library.BruteForce(folder)
        import torch

        self.torch, self.version = torch, self.library.version
        if torch.cuda.is_available():
            torch.cuda.set_stream(torch.cuda.Stream())
            self.library.open(torch.cuda.current_stream().cuda_stream)

    def name(self, _: int) -> str:
        return "cuvs.brute_force" if self.exact else f"cuvs.brute_force.{self.dtype}"

    def convert(self, values: Any) -> Any:
        """Returns rows or queries in the type of the index."""
        return values if self.exact else values.to(self.torch.float16)

    def searcher(self, corpus: Any, queries: Any) -> Search:
        def matrix(tensor: Any, dtype: Any = cuvs_library.FLOAT32) -> Any:
            return cuvs_library.matrix(tensor.data_ptr(), len(tensor), tensor.shape[1], dtype)

        element = cuvs_library.FLOAT32 if self.exact else FLOAT16  # of rows and queries; scores are fp32
        self.library.build(matrix(corpus, element))
        on_device = self.torch.empty_like(queries, device="cuda")
        results: dict[int, Any] = {}

        def search(k: int) -> Any:
            if k not in results:
                best = self.torch.empty(len(queries), k, device="cuda")
                places = self.torch.empty(len(queries), k, dtype=self.torch.int64, device="cuda")
                results[k] = best, places, (matrix(on_device, element), matrix(places, cuvs_library.INT64), matrix(best))
            best, places, arguments = results[k]
            on_device.copy_(queries, non_blocking=True)
            self.library.search(*arguments)
            return best.cpu(), places.cpu()

        return search


def check(peer: Any, corpus: Any, queries: Any, best: Any, places: Any) -> None:
    """Raises AssertionError if scores or row numbers are those of other work than this. (Sums may
    round differently.)"""
    scores = queries.to("cuda") @ corpus.t()
    expected = peer.torch.topk(scores, best.shape[1]).values
    for wanted in (expected, scores.gather(1, places.to("cuda"))):
        peer.torch.testing.assert_close(best, wanted.cpu(), rtol=1e-3, atol=1e-2)


def times_of(times_us: list[float], batch: int) -> dict[str, Any]:
    """Returns the figures of the runs of one configuration."""
    ordered, middle = sorted(times_us), statistics.median(times_us)
    return {"us": round(middle, 1), "p99_us": round(ordered[(len(ordered) - 1) * 99 // 100], 1),
            "queries_per_s": round(batch * 1e6 / middle)}  # fmt: skip


def measure(arguments: argparse.Namespace, peer: Any, corpus: Any, queries: Any) -> None:
    """Times every k on one corpus and one batch; prints the rows."""
    search, (rows_count, dim), batch = peer.searcher(corpus, queries), corpus.shape, len(queries)
    for k in arguments.k:
        for _ in range(5):
            best, places = search(k)
        if peer.exact:
            check(peer, corpus, queries, best, places)
        times_us = []
        for _ in range(arguments.runs):
            begin = time.perf_counter()
            search(k)
            times_us.append((time.perf_counter() - begin) * 1e6)
        row = {"bench": peer.name(batch), "exact": peer.exact, "data": arguments.data, "n": rows_count, "dim": dim, "k": k,
               "batch": batch, "dtype": peer.dtype, **times_of(times_us, batch), "version": peer.version}  # fmt: skip
        print("NEARFIELD_BENCH_JSON " + json.dumps(row), flush=True)


def peer_of(arguments: argparse.Namespace) -> Any:
    """Returns the peer. Raises ImportError, OSError or NotImplementedError if a library is missing
    or cannot be used."""
    library, _, mode = arguments.peer.partition("-")
    if library == "cuvs":
        return Cuvs(arguments.cuvs or cuvs_library.installed_folder(), mode or "fp32")
    return Torch(mode or "fp32")


def make_rows(arguments: argparse.Namespace, peer: Any, dim: int, generator: Any) -> Any:
    """Makes the rows of the largest corpus, on the device."""
    rows_count = max(arguments.n)
    made_count = 1 if arguments.data == "all-equal" else rows_count
    made = peer.convert(peer.torch.randn(made_count, dim, device="cuda", generator=generator))
    return made.expand(rows_count, dim).contiguous()


def main() -> int:
    """Times every configuration; returns the exit code."""
    arguments = parse()
    try:
        peer = peer_of(arguments)
    except (ImportError, OSError, NotImplementedError) as error:
        print(f"search_peer: {arguments.peer} is left out: {error}", file=sys.stderr)
        return 3
    torch = peer.torch
    if not torch.cuda.is_available():
        print(f"search_peer: {arguments.peer} is left out: PyTorch sees no GPU", file=sys.stderr)
        return 3
    generator = torch.Generator(device="cuda")
    generator.manual_seed(1)
    for dim in arguments.dim:
        rows = make_rows(arguments, peer, dim, generator)
        for rows_count in arguments.n:
            for batch in arguments.batch:
                measure(arguments, peer, rows[:rows_count], peer.convert(torch.randn(batch, dim)).pin_memory())
        del rows
    return 0


if __name__ == "__main__":
    sys.exit(main())

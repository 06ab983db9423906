"""Times another library's exact search of rows by inner product on the same card, host to host.

    python3 tests/bench/search_peer.py --peer torch --n 100000 --dim 768 --k 10,100 --batch 1,32
    python3 tests/bench/search_peer.py --peer cuvs --cuvs FOLDER ...

`torch` is PyTorch's mv + topk (one query) and mm + topk (a batch) in full fp32; `torch-graph` is the
same as a CUDA graph that writes to pinned memory; `torch-tf32` and `torch-bf16` are the same with
fewer bits, so they are not exact. `cuvs` is cuVS's brute force. A search copies the queries from pinned memory to the device, and scores and row numbers back. Prints
one line "NEARFIELD_BENCH_JSON {...}" per configuration. Without the library or a GPU it reports
that and exits with 3.
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

Search = Callable[[int], Any]  # k -> scores and row numbers on the host


def parse() -> argparse.Namespace:
    """Parses the grid, with the options of search_bench and certified_bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--peer", choices=("torch", "torch-graph", "torch-tf32", "torch-bf16", "cuvs"), required=True)
    parser.add_argument("--cuvs", type=Path, help="folder of libcuvs_c.so; default: where pip installed it")
    parser.add_argument("--n", type=numbers, default=[10_000, 50_000, 100_000, 500_000, 1_000_000])
    parser.add_argument("--dim", type=numbers, default=[384, 768, 1024])
    parser.add_argument("--k", type=numbers, default=[8, 32, 100])
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--runs", type=int, default=51)
    return parser.parse_args()


class Torch:
    """mv or mm, then topk."""

    def __init__(self, mode: str) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
        self.torch, self.version, self.mode = torch, torch.__version__, mode
        self.exact, self.dtype = mode in ("fp32", "graph"), "bf16" if mode == "bf16" else "fp32"

    def multiplies_vector(self, batch: int) -> bool:
        return batch == 1 and self.exact

    def name(self, batch: int) -> str:
        if self.multiplies_vector(batch):
            return "torch.mv+topk" + (".graph" if self.mode == "graph" else "")
        return f"torch.mm+topk.{self.mode}"

    def searcher(self, corpus: Any, queries: Any) -> Search:
        columns = corpus.t()
        vector = self.multiplies_vector(len(queries))

        def search(k: int) -> Any:
            on_device = queries.to("cuda", non_blocking=True)
            scores = self.torch.mv(corpus, on_device[0])[None] if vector else self.torch.mm(on_device, columns)
            best, places = self.torch.topk(scores, k)
            return best.cpu(), places.cpu()

        return self.captured(corpus, queries) if self.mode == "graph" else search

    def captured(self, corpus: Any, queries: Any) -> Search:
        """Returns searches that are CUDA graphs, made at the first use of each k."""
        torch, columns, graphs = self.torch, corpus.t(), {}

        def enqueue(on_device: Any, answer: Any, k: int) -> None:
            on_device.copy_(queries, non_blocking=True)
            scores = torch.mv(corpus, on_device[0])[None] if len(queries) == 1 else torch.mm(on_device, columns)
            for to, found in zip(answer, torch.topk(scores, k)):
                to.copy_(found, non_blocking=True)

        def search(k: int) -> Any:
            if k not in graphs:
                on_device = torch.empty_like(queries, device="cuda")
                answer = [torch.empty(len(queries), k, dtype=each, pin_memory=True) for each in (torch.float32, torch.int64)]
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):  # a graph is captured after a first run on the same stream
                    enqueue(on_device, answer, k)
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    enqueue(on_device, answer, k)
                graphs[k] = graph, answer
            graph, answer = graphs[k]
            graph.replay()
            torch.cuda.current_stream().synchronize()
            return answer

        return search


class Cuvs:
    """cuVS's brute force, with result arrays made beforehand and a memory pool, as its
    documentation recommends, on a stream that PyTorch uses too."""

    exact, dtype = True, "fp32"

    def __init__(self, folder: Path | None) -> None:
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
        return "cuvs.brute_force"

    def searcher(self, corpus: Any, queries: Any) -> Search:
        def matrix(tensor: Any, dtype: Any = cuvs_library.FLOAT32) -> Any:
            return cuvs_library.matrix(tensor.data_ptr(), len(tensor), tensor.shape[1], dtype)

        self.library.build(matrix(corpus))
        on_device = self.torch.empty_like(queries, device="cuda")
        results: dict[int, Any] = {}

        def search(k: int) -> Any:
            if k not in results:
                best = self.torch.empty(len(queries), k, device="cuda")
                places = self.torch.empty(len(queries), k, dtype=self.torch.int64, device="cuda")
                results[k] = best, places, (matrix(on_device), matrix(places, cuvs_library.INT64), matrix(best))
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
        middle = statistics.median(times_us)
        row = {"bench": peer.name(batch), "n": rows_count, "dim": dim, "k": k, "batch": batch, "dtype": peer.dtype,
               "us": round(middle, 1), "queries_per_s": round(batch * 1e6 / middle), "version": peer.version}
        print("NEARFIELD_BENCH_JSON " + json.dumps(row), flush=True)


def main() -> int:
    """Times every configuration; returns the exit code."""
    arguments = parse()
    try:
        if arguments.peer == "cuvs":
            peer: Any = Cuvs(arguments.cuvs or cuvs_library.installed_folder())
        else:
            peer = Torch(arguments.peer.partition("-")[2] or "fp32")
    except (ImportError, OSError) as error:
        print(f"search_peer: {arguments.peer} is left out: {error}", file=sys.stderr)
        return 3
    torch = peer.torch
    if not torch.cuda.is_available():
        print(f"search_peer: {arguments.peer} is left out: PyTorch sees no GPU", file=sys.stderr)
        return 3
    generator = torch.Generator(device="cuda")
    generator.manual_seed(1)
    dtype = torch.bfloat16 if peer.dtype == "bf16" else torch.float32
    for dim in arguments.dim:
        rows = torch.randn(max(arguments.n), dim, device="cuda", generator=generator).to(dtype)
        for rows_count in arguments.n:
            for batch in arguments.batch:
                measure(arguments, peer, rows[:rows_count], torch.randn(batch, dim).to(dtype).pin_memory())
        del rows
    return 0


if __name__ == "__main__":
    sys.exit(main())

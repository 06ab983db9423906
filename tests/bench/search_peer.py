"""Times another library's exact search of fp32 rows by inner product on the same card, host to
host.

    python3 tests/bench/search_peer.py --peer cuvs --n 100000 --dim 768 --k 10,100

`torch` is mv + topk, `cuvs` is brute_force with result arrays made beforehand and a memory pool, as
its documentation recommends. A search copies the query from pinned memory to the device, and scores
and row numbers back. Prints one line "NEARFIELD_BENCH_JSON {...}" per configuration. Without the
library or a GPU it reports that and exits with 3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any, Callable

Search = Callable[[int], Any]  # k -> scores on the host


def parse() -> argparse.Namespace:
    """Parses the grid, with the options of search_bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--peer", choices=("torch", "cuvs"), required=True)
    parser.add_argument("--n", type=numbers, default=[10_000, 50_000, 100_000, 500_000, 1_000_000])
    parser.add_argument("--dim", type=numbers, default=[384, 768, 1024])
    parser.add_argument("--k", type=numbers, default=[8, 32, 100])
    parser.add_argument("--runs", type=int, default=51)
    return parser.parse_args()


class Torch:
    """mv + topk in full fp32."""

    name = "torch.mv+topk"

    def __init__(self) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.version = torch, torch.__version__

    def searcher(self, corpus: Any, query: Any) -> Search:
        def search(k: int) -> Any:
            scores = self.torch.mv(corpus, query.to("cuda", non_blocking=True))
            best, places = self.torch.topk(scores, k)
            places.cpu()
            return best.cpu()

        return search


class Cuvs:
    """cuvs.neighbors.brute_force, on PyTorch's stream."""

    name = "cuvs.brute_force"

    def __init__(self) -> None:
        import cuvs
        import rmm
        import torch
        from cuvs.common import Resources
        from cuvs.neighbors import brute_force

        rmm.reinitialize(pool_allocator=True, initial_pool_size=2**30)
        self.torch, self.brute_force, self.version = torch, brute_force, cuvs.__version__
        self.resources = Resources(stream=torch.cuda.current_stream().cuda_stream)

    def searcher(self, corpus: Any, query: Any) -> Search:
        index = self.brute_force.build(corpus, metric="inner_product", resources=self.resources)
        outputs: dict[int, Any] = {}

        def search(k: int) -> Any:
            if k not in outputs:
                outputs[k] = (self.torch.empty(1, k, device="cuda"), self.torch.empty(1, k, dtype=self.torch.int64, device="cuda"))
            best, places = outputs[k]
            on_device = query.to("cuda", non_blocking=True).unsqueeze(0)
            self.brute_force.search(index, on_device, k, neighbors=places, distances=best, resources=self.resources)
            places.cpu()
            return best.cpu()[0]

        return search


def main() -> int:
    """Times every configuration; returns the exit code."""
    arguments = parse()
    try:
        peer = {"torch": Torch, "cuvs": Cuvs}[arguments.peer]()
    except ImportError as error:
        print(f"search_peer: {error}", file=sys.stderr)
        return 3
    torch = peer.torch
    if not torch.cuda.is_available():
        print("search_peer: PyTorch sees no GPU", file=sys.stderr)
        return 3
    generator = torch.Generator(device="cuda")
    generator.manual_seed(1)
    for dim in arguments.dim:
        rows = torch.randn(max(arguments.n), dim, device="cuda", generator=generator)
        query = torch.randn(dim).pin_memory()
        for rows_count in arguments.n:
            search = peer.searcher(rows[:rows_count], query)
            for k in arguments.k:
                for _ in range(5):
                    best = search(k)
                # A peer that does other work than this is no peer. (Its sums may round differently.)
                torch.testing.assert_close(best, torch.topk(rows[:rows_count] @ query.cuda(), k).values.cpu(), rtol=1e-3, atol=1e-2)
                times_us = []
                for _ in range(arguments.runs):
                    begin = time.perf_counter()
                    search(k)
                    times_us.append((time.perf_counter() - begin) * 1e6)
                row = {"bench": peer.name, "n": rows_count, "dim": dim, "k": k, "dtype": "fp32",
                       "us": round(statistics.median(times_us), 1), "version": peer.version}
                print("NEARFIELD_BENCH_JSON " + json.dumps(row), flush=True)
            del search
        del rows
    return 0


if __name__ == "__main__":
    sys.exit(main())

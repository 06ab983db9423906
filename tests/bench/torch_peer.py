"""Times the usual alternative: PyTorch's exact search (mv + topk, fp32) on the same card, host to
host.

Prints one line "NEARFIELD_BENCH_JSON {...}" per configuration: copies the query from pinned memory
to the device and scores and ids back. Without PyTorch or a GPU it reports that and exits with 3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time


def parse() -> argparse.Namespace:
    """Parses the grid, with the options of search_bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--n", type=numbers, default=[10_000, 50_000, 100_000, 500_000, 1_000_000])
    parser.add_argument("--dim", type=numbers, default=[384, 768, 1024])
    parser.add_argument("--k", type=numbers, default=[8, 32, 100])
    parser.add_argument("--runs", type=int, default=51)
    return parser.parse_args()


def main() -> int:
    """Times every configuration; returns the exit code."""
    arguments = parse()
    try:
        import torch
    except ImportError:
        print("torch_peer: PyTorch is not installed", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("torch_peer: PyTorch sees no GPU", file=sys.stderr)
        return 3
    torch.backends.cuda.matmul.allow_tf32 = False
    generator = torch.Generator(device="cuda")
    generator.manual_seed(1)
    for dim in arguments.dim:
        rows = torch.randn(max(arguments.n), dim, device="cuda", generator=generator)
        query = torch.randn(dim).pin_memory()
        for rows_count in arguments.n:
            corpus = rows[:rows_count]
            for k in arguments.k:

                def search() -> None:
                    scores = torch.mv(corpus, query.to("cuda", non_blocking=True))
                    best, places = torch.topk(scores, k)
                    best.cpu()
                    places.cpu()

                for _ in range(5):
                    search()
                times_us = []
                for _ in range(arguments.runs):
                    begin = time.perf_counter()
                    search()
                    times_us.append((time.perf_counter() - begin) * 1e6)
                row = {"bench": "torch.mv+topk", "n": rows_count, "dim": dim, "k": k, "dtype": "fp32",
                       "us": round(statistics.median(times_us), 1), "torch": torch.__version__}
                print("NEARFIELD_BENCH_JSON " + json.dumps(row), flush=True)
        del rows
    return 0


if __name__ == "__main__":
    sys.exit(main())

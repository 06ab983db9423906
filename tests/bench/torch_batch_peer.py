"""Times the usual alternative for a batch: PyTorch's exact search (mm + topk) on the same card,
host to host.

fp32 is the exact peer, except for its rounding; tf32 and bf16 are inexact and shown for comparison.
Prints one line "NEARFIELD_BENCH_JSON {...}" per configuration. Without PyTorch or a GPU it reports
that and exits with 3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time


def parse() -> argparse.Namespace:
    """Parses the grid, with the options of certified_bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--n", type=numbers, default=[1_000_000])
    parser.add_argument("--dim", type=numbers, default=[1024])
    parser.add_argument("--k", type=numbers, default=[10, 100])
    parser.add_argument("--batch", type=numbers, default=[32, 256, 1024])
    parser.add_argument("--modes", default="fp32,tf32,bf16")
    parser.add_argument("--runs", type=int, default=21)
    return parser.parse_args()


def main() -> int:
    """Times every configuration; returns the exit code."""
    arguments = parse()
    try:
        import torch
    except ImportError:
        print("torch_batch_peer: PyTorch is not installed", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("torch_batch_peer: PyTorch sees no GPU", file=sys.stderr)
        return 3
    generator = torch.Generator(device="cuda")
    generator.manual_seed(1)
    for dim in arguments.dim:
        for mode in arguments.modes.split(","):
            dtype = torch.bfloat16 if mode == "bf16" else torch.float32
            torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
            rows = torch.randn(max(arguments.n), dim, device="cuda", generator=generator).to(dtype)
            for rows_count in arguments.n:
                corpus = rows[:rows_count].t()
                for batch in arguments.batch:
                    queries = torch.randn(batch, dim).to(dtype).pin_memory()
                    for k in arguments.k:

                        def search() -> None:
                            scores = torch.mm(queries.to("cuda", non_blocking=True), corpus)
                            best, places = torch.topk(scores, k)
                            best.cpu()
                            places.cpu()

                        for _ in range(3):
                            search()
                        times_us = []
                        for _ in range(arguments.runs):
                            begin = time.perf_counter()
                            search()
                            times_us.append((time.perf_counter() - begin) * 1e6)
                        middle = statistics.median(times_us)
                        row = {"bench": f"torch.mm+topk.{mode}", "n": rows_count, "dim": dim, "k": k, "batch": batch,
                               "us": round(middle, 1), "queries_per_s": round(batch * 1e6 / middle), "torch": torch.__version__}
                        print("NEARFIELD_BENCH_JSON " + json.dumps(row), flush=True)
            del rows
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Times the usual alternative on a CPU: FAISS's exact search (IndexFlatIP, fp32) with the rows and
queries of cpu_scan_bench, and at most as many threads.

    python3 tests/bench/faiss_peer.py --folder DIR --shape 200000x384 --threads 2

DIR holds the output of `cpu_scan_bench --dump=DIR`. Prints one line "NEARFIELD_BENCH_JSON {...}"
per configuration: FAISS with its defaults and, for batches, also with its threshold set so that
every batch uses matrix multiplication. Each configuration runs at its fastest thread count among 1,
2, 4, ... and `--threads`; the row's "best_threads" is that count. Without FAISS (PyPI faiss-cpu) or NumPy it reports that and
exits with 3.
Only benchmarks use this peer; no test needs it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS_MIN = 11


def parse() -> argparse.Namespace:
    """Parses the command line, which has the options of cpu_scan_bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--shape", default="200000x384,100000x768,200000x1024")
    parser.add_argument("--batch", type=numbers, default=[1, 8, 64])
    parser.add_argument("--threads", type=int, default=1, help="maximum number of threads")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--runs", type=int, default=51)
    parser.add_argument("--seconds", type=float, default=4, help="maximum seconds of a case that has run eleven times at each thread count")
    return parser.parse_args()


def thread_counts(threads_max: int) -> list[int]:
    """Returns the thread counts to try: the powers of two below the maximum, and the maximum."""
    return [*(1 << i for i in range(threads_max.bit_length()) if 1 << i < threads_max), threads_max]


def median_us(search: Callable[[], object], runs: int, seconds: float) -> float:
    """Returns the median time of the runs after two to warm up. Stops after these seconds, but not
    before eleven runs."""
    for _ in range(2):
        search()
    times_us: list[float] = []
    end = time.perf_counter() + seconds
    for _ in range(runs):
        begin = time.perf_counter()
        search()
        now = time.perf_counter()
        times_us.append((now - begin) * 1e6)
        if len(times_us) >= RUNS_MIN and now > end:
            break
    return statistics.median(times_us)


def fastest(counts: list[int], set_threads: Callable[[int], None], time_us: Callable[[], float]) -> tuple[int, float]:
    """Returns the thread count with the smallest median, and that median in us."""
    times_us = {}
    for count in counts:
        set_threads(count)
        times_us[count] = time_us()
    return min(times_us.items(), key=lambda pair: pair[1])


def main() -> int:
    """Times every configuration; returns the exit code."""
    arguments = parse()
    try:
        import faiss
        import numpy
    except ImportError as error:
        print(f"faiss_peer: {error}: pip install faiss-cpu numpy", file=sys.stderr)
        return 3
    counts = thread_counts(arguments.threads)
    as_it_comes = faiss.cvar.distance_compute_blas_threshold
    for shape in arguments.shape.split(","):
        rows_count, dim = (int(part) for part in shape.split("x"))
        rows = numpy.fromfile(arguments.folder / f"{shape}.rows", dtype=numpy.float32).reshape(rows_count, dim)
        queries = numpy.fromfile(arguments.folder / f"{shape}.queries", dtype=numpy.float32).reshape(-1, dim)
        index = faiss.IndexFlatIP(dim)
        index.add(rows)
        del rows
        for batch in arguments.batch:
            for name, threshold in (("faiss.IndexFlatIP", as_it_comes), ("faiss.IndexFlatIP, BLAS", 1)):
                if batch == 1 and threshold == 1:
                    continue
                faiss.cvar.distance_compute_blas_threshold = threshold
                faiss.cvar.distance_compute_blas_database_bs = 16384 if threshold == 1 else 1024

                def time_us(index: Any = index, asked: Any = queries[:batch]) -> float:
                    return median_us(lambda: index.search(asked, arguments.k), arguments.runs, arguments.seconds / len(counts))

                best_threads, us = fastest(counts, faiss.omp_set_num_threads, time_us)
                row = {"bench": name, "batch": batch, "n": rows_count, "dim": dim, "k": arguments.k,
                       "threads": arguments.threads, "best_threads": best_threads, "us": round(us, 1),
                       "faiss": faiss.__version__, "options": faiss.get_compile_options().strip()}  # fmt: skip
                print("NEARFIELD_BENCH_JSON " + json.dumps(row), flush=True)
        del index, time_us
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The cases of the selection campaign, their targets, and times of CUB 3.6 for some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """One line of a case file of select_bench."""

    batch: int
    n: int
    k: int
    dtype: str = "fp32"
    input: str = "normal"
    algorithm: str = "adaptive"

    def line(self) -> str:
        return " ".join(str(part) for part in self)

    def shape(self) -> tuple[int, int, int, str, str]:
        """Returns the case without its algorithm, by which a peer's row is matched."""
        return self[:5]


def shape_of(row: dict[str, Any]) -> tuple[int, int, int, str, str]:
    """Returns the shape of a row of the benchmark or of a peer."""
    return row["batch"], row["n"], row["k"], row["dtype"], row["input"]


def case_of(row: dict[str, Any]) -> Case:
    return Case(*shape_of(row), row["name"])


# (batch, n, k): maximum time in microseconds; sorted, one call between two events on one H200.
TARGETS_US: dict[tuple[int, int, int], float] = {
    (1024, 50_000, 2048): 65,
    (1, 10_000, 100): 12,
    (1, 100_000, 100): 12,
    **{(1, 1_000_000, k): 15 for k in (8, 32, 100, 1000, 2048)},
    (1, 10_000_000, 1000): 22,
    (1, 100_000_000, 1000): 115,
    (4, 131_072, 2048): 15,
    (64, 16_384, 2048): 15,
    (1024, 3_072, 1): 12,
    (1024, 3_072, 64): 14,
    (1024, 3_072, 2048): 20,
    (1024, 16_384, 64): 25,
    (1024, 16_384, 2048): 32,
    (1024, 131_072, 64): 150,
    (1024, 131_072, 2048): 150,
}

# Times of CUB 3.6, newer than the toolkit's, from an earlier run on the same card model; unsorted.
# Batch 1: DeviceTopK; else its batched top-k.
CUB_36 = "cub 3.6 (earlier run)"
CUB_36_US: dict[tuple[int, int, int], float] = {
    (1, 10_000, 8): 25.2, (1, 10_000, 100): 24.6, (1, 10_000, 1000): 24.4, (1, 10_000, 2048): 24.4,
    (1, 100_000, 8): 25.4, (1, 100_000, 100): 25.9, (1, 100_000, 1000): 24.9, (1, 100_000, 2048): 26.6,
    (1, 1_000_000, 8): 29.4, (1, 1_000_000, 100): 29.4, (1, 1_000_000, 1000): 29.8, (1, 1_000_000, 2048): 32.8,
    (1, 10_000_000, 8): 43.7, (1, 10_000_000, 100): 43.7, (1, 10_000_000, 1000): 45.9, (1, 10_000_000, 2048): 46.8,
    (1, 100_000_000, 8): 227.6, (1, 100_000_000, 100): 228.1, (1, 100_000_000, 1000): 229.9, (1, 100_000_000, 2048): 230.9,
    (1024, 50_000, 2048): 335.4, (1024, 50_000, 50): 276.5,
    (1024, 3_072, 1): 21.6, (1024, 3_072, 64): 25.2, (1024, 3_072, 2048): 39.6,
    (1024, 16_384, 64): 168.6, (1024, 16_384, 2048): 194.0,
    (1024, 131_072, 64): 594.3, (1024, 131_072, 2048): 724.2,
    (64, 16_384, 2048): 26.8, (4, 131_072, 2048): 39.6,
}  # fmt: skip

GRID_BATCHES = (1, 8, 64, 1024)
GRID_NS = (3_072, 8_192, 16_384, 50_000, 131_072, 1_000_000)
GRID_KS = (1, 8, 16, 32, 64, 100, 128, 256, 512, 1024, 2048)
GRID_BYTES_MAX = 8_000_000_000

# Data of the figure: each implementation over n at one k, and over k at one (batch, n).
OVER_N_K = 100
OVER_N = {
    1: (1_024, 4_096, 16_384, 65_536, 262_144, 1_000_000, 4_194_304, 16_777_216, 100_000_000),
    64: (1_024, 4_096, 16_384, 65_536, 262_144, 1_000_000, 4_194_304),
}
OVER_K = ((1, 1_000_000), (1024, 16_384))

HARD_INPUTS = ("uniform", "all_equal", "two_values", "sorted_up", "sorted_down", "one_bin")
HARD_SHAPES = (
    (1, 1_000_000, 100), (1, 1_000_000, 2048), (1, 100_000_000, 1000), (4, 131_072, 2048), (64, 16_384, 2048),
    (64, 131_072, 100), (1024, 3_072, 64), (1024, 16_384, 64), (1024, 50_000, 2048), (1024, 131_072, 2048),
)  # fmt: skip
TYPE_SHAPES = (
    (1, 100_000, 100), (1, 1_000_000, 100), (1, 1_000_000, 2048), (64, 16_384, 2048), (1024, 3_072, 64),
    (1024, 16_384, 64), (1024, 50_000, 2048), (1024, 131_072, 2048),
)  # fmt: skip


def bars() -> list[Case]:
    """Returns every case of the table of targets."""
    return [Case(*shape) for shape in TARGETS_US]


def grid() -> list[Case]:
    """Returns the cases that are compared with PyTorch."""
    return [
        Case(batch, n, k)
        for batch in GRID_BATCHES
        for n in GRID_NS
        for k in GRID_KS
        if k <= n and batch * n * 4 <= GRID_BYTES_MAX
    ]


def algorithms() -> list[Case]:
    """Returns all implementations, for the shapes of the figure."""
    over_n = [Case(batch, n, OVER_N_K, algorithm="all") for batch, ns in OVER_N.items() for n in ns]
    over_k = [Case(batch, n, k, algorithm="all") for batch, n in OVER_K for k in GRID_KS]
    return list(dict.fromkeys(over_n + over_k))


def adversarial() -> list[Case]:
    """Returns inputs that are hard for a selection, each with the normal input for comparison."""
    return [Case(*shape, input=name) for shape in HARD_SHAPES for name in ("normal", *HARD_INPUTS)]


def types() -> list[Case]:
    """Returns cases with 16-bit scores."""
    return [Case(*shape, dtype=dtype) for dtype in ("fp16", "bf16") for shape in TYPE_SHAPES]


# Shapes at which the algorithms were published: (batch, n, k).
PUBLISHED_SHAPES = (
    (1024, 50_000, 2048),
    (64, 16_384, 2048),
    *((1, n, 2048) for n in (2_048, 4_096, 8_192, 16_384)),
    (1, 100_000_000, 1000),
    *((1024, n, k) for n in (3_072, 16_384, 131_072) for k in (1, 8, 32, 128, 512, 2048)),
)


def published() -> list[Case]:
    """Returns all implementations at the shapes at which they were published."""
    return [Case(*shape, algorithm="all") for shape in PUBLISHED_SHAPES]


SETS: dict[str, Callable[[], list[Case]]] = {
    "bars": bars,
    "grid": grid,
    "algorithms": algorithms,
    "adversarial": adversarial,
    "types": types,
    "published": published,
}
# Sets for which PyTorch is measured too.
TORCH_SETS = ("bars", "grid", "algorithms", "types", "published")


def in_order(cases: Iterable[Case]) -> list[Case]:
    """Returns each case once, with cases of one input next to each other; "all" replaces any
    single algorithm."""
    wanted = set(cases)
    everything = {case.shape() for case in wanted if case.algorithm == "all"}
    kept = [case for case in wanted if case.algorithm == "all" or case.shape() not in everything]
    return sorted(kept, key=lambda case: (case.batch * case.n, case.batch, case.dtype, case.input, case.k, case.algorithm))

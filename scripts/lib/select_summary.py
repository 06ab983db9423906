"""Processes the rows of select_bench and its peers for the selection campaign: the merge, the
receipt, the short tables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from campaign import Row, cell
from select_cases import CUB_36, CUB_36_US, HARD_INPUTS, SETS, TARGETS_US, Case, case_of, shape_of

TORCH = "torch.topk"
# For one (batch, n), the slowest k up to n / 8 may take at most SPREAD_MAX times as long as the
# fastest.
SPREAD_MAX = 1.6
# The tables list an algorithm that is faster than the adaptive choice by more than this factor.
REGRET = 1.15


def merge(rows: list[Row], peers: list[Row]) -> None:
    """Adds the peers' times to the rows of the same shape: one call in peers_us, one call in a
    graph in peers_graph_us."""
    one_call: dict[tuple[Any, ...], dict[str, float]] = {}
    in_graph: dict[tuple[Any, ...], dict[str, float]] = {}
    for peer in peers:
        for field, into in (("us", one_call), ("graph_us", in_graph)):
            if field in peer:
                into.setdefault(shape_of(peer), {})[peer["bench"]] = peer[field]
    for row in rows:
        row["peers_us"] = dict(one_call.get(shape_of(row), {}))
        if row["dtype"] == "fp32" and row["input"] == "normal" and (row["batch"], row["n"], row["k"]) in CUB_36_US:
            row["peers_us"][CUB_36] = CUB_36_US[row["batch"], row["n"], row["k"]]
        if shape_of(row) in in_graph:
            row["peers_graph_us"] = dict(in_graph[shape_of(row)])


class Results:
    """The timed rows, by case."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.wrong = [row for row in rows if not row["matches_oracle"]]
        self.by_case = {case_of(row): row for row in rows if row["matches_oracle"]}

    def of(self, name: str) -> list[Row]:
        """Returns the adaptive rows of a set."""
        found = (self.by_case.get(case._replace(algorithm="adaptive")) for case in SETS[name]())
        return [row for row in found if row is not None]


def place(row: Row) -> str:
    kind = "" if row["dtype"] == "fp32" else f" {row['dtype']}"
    return f"{row['batch']} x {row['n']}, k={row['k']}{kind}"


def bars_table(results: Results) -> list[str]:
    """Formats one line per target: our times, the limit and the peers."""
    rows = results.of("bars")
    if not rows:
        return []
    lines = [f"{'bars (us)':<24} {'ours':>8} {'graph':>8} {'target':>7} {'limit':>7} {'torch':>8} {'cub 3.6':>8}  choice"]
    for row in rows:
        target = TARGETS_US[row["batch"], row["n"], row["k"]]
        peers = row["peers_us"]
        lines.append(f"{place(row):<24} {cell(row['us'], 8)} {cell(row.get('graph_us'), 8)} {cell(target, 7)} "
                     f"{cell(row['limit_us'], 7)} {cell(peers.get(TORCH), 8)} {cell(peers.get(CUB_36), 8)}  "
                     f"{row['choice']}{'' if row['us'] <= target else ' MISS'}")
    met = sum(row["us"] <= TARGETS_US[row["batch"], row["n"], row["k"]] for row in rows)
    return [*lines, *against(CUB_36, "bars", rows), f"targets met: {met} of {len(rows)}"]


def spread(rows: list[Row], field: str) -> tuple[float, Row, Row] | None:
    """Returns the largest ratio of the slowest to the fastest k of one (batch, n), with the two
    rows; k up to n / 8."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if 8 * row["k"] <= row["n"] and field in row:
            groups.setdefault((row["batch"], row["n"]), []).append(row)
    worst: tuple[float, Row, Row] | None = None
    for group in groups.values():
        slow, fast = max(group, key=lambda row: row[field]), min(group, key=lambda row: row[field])
        ratio = slow[field] / fast[field]
        if worst is None or ratio > worst[0]:
            worst = ratio, slow, fast
    return worst


def against(peer: str, name: str, rows: list[Row], ours: str = "us", theirs: str = "peers_us") -> list[str]:
    """Counts the cases that are faster than the peer; reports the mean factor and the worst
    case."""
    pairs = [(row[theirs][peer] / row[ours], row) for row in rows if peer in row.get(theirs, {}) and ours in row]
    if not pairs:
        return []
    pairs.sort(key=lambda pair: pair[0])
    mean = math.exp(sum(math.log(ratio) for ratio, _ in pairs) / len(pairs))
    ratio, row = pairs[0]
    lines = [f"{name}, {ours}: faster than {peer} in {sum(r > 1 for r, _ in pairs)} of {len(pairs)}; geometric mean of "
             f"theirs/ours {mean:.2f}; worst {ratio:.2f} at {place(row)} ({row[ours]:.1f} against {row[theirs][peer]:.1f} us)"]
    lines += [f"  slower: {place(row)}: {row[ours]:.1f} against {row[theirs][peer]:.1f} us, {row['choice']}"
              for ratio, row in pairs[:10] if ratio <= 1]
    return lines


def grid_table(results: Results) -> list[str]:
    rows = results.of("grid")
    lines = against(TORCH, "grid", rows) + against(TORCH, "grid", rows, "graph_us", "peers_graph_us")
    lines += against(CUB_36, "grid", rows)
    for field in ("us", "graph_us"):
        worst = spread(rows, field)
        if worst is not None:
            ratio, slow, fast = worst
            lines.append(f"grid, {field}: slowest over fastest k <= n/8 at most {ratio:.2f} (limit {SPREAD_MAX}), at "
                         f"{place(slow)}: {slow[field]:.1f} us ({slow['choice']}); k={fast['k']}: {fast[field]:.1f} us "
                         f"({fast['choice']})")
    return lines


def adversarial_table(results: Results) -> list[str]:
    """Formats, for each hard input, the highest ratio to the normal input of the same shape."""
    lines = []
    for name in HARD_INPUTS:
        ratios = []
        for row in results.of("adversarial"):
            normal = results.by_case.get(case_of(row)._replace(input="normal"))
            if row["input"] == name and normal is not None:
                ratios.append((row["us"] / normal["us"], row, normal))
        if ratios:
            ratio, row, normal = max(ratios, key=lambda each: each[0])
            lines.append(f"{name}: at most {ratio:.2f} times normal, at {place(row)} ({row['us']:.1f} against "
                         f"{normal['us']:.1f} us, {row['choice']})")
    return lines


def algorithms_table(results: Results) -> list[str]:
    """Lists the shapes where another algorithm beats the adaptive choice by more than REGRET."""
    lines = []
    shapes = {case.shape() for case in SETS["algorithms"]()}
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for case, row in results.by_case.items():
        if case.shape() in shapes:
            groups.setdefault(case.shape(), []).append(row)
    for shape, rows in groups.items():
        adaptive = results.by_case.get(Case(*shape))
        if adaptive is None or len(rows) < 2:
            continue
        best = min(rows, key=lambda row: row["us"])
        if adaptive["us"] > REGRET * best["us"]:
            lines.append(f"  {place(best)}: {best['name']} {best['us']:.1f} us, adaptive {adaptive['us']:.1f} us "
                         f"({adaptive['choice']})")
    compared = sum(len(rows) > 1 for rows in groups.values())
    if not compared:
        return []
    return [f"algorithms: {len(lines)} of {compared} shapes where an algorithm beats the adaptive choice by more than "
            f"{(REGRET - 1) * 100:.0f} %", *lines]


def types_table(results: Results) -> list[str]:
    rows = results.of("types")
    lines = [f"{place(row):<28} {cell(row['us'], 8)} us, graph {cell(row.get('graph_us'), 8)}, limit {cell(row['limit_us'], 7)}, "
             f"torch {cell(row['peers_us'].get(TORCH), 8)}" for row in rows]
    return [*lines, *against(TORCH, "types", rows)]


def published_table(results: Results) -> list[str]:
    """Formats, for each published shape, the time of every algorithm."""
    lines = []
    for case in SETS["published"]():
        rows = [row for found, row in results.by_case.items() if found.shape() == case.shape()]
        if not rows:
            continue
        torch = cell(rows[0]["peers_us"].get(TORCH), 1)
        times = ", ".join(f"{row['name']} {row['us']:.1f}" for row in sorted(rows, key=lambda row: row["us"]))
        lines.append(f"published {place(rows[0])} (us): {times}, torch {torch}")
    return lines


def ragged_table(rows: list[Row]) -> list[str]:
    """Formats the ratio of ragged rows to a rectangle with as many scores, for each algorithm."""
    ratios: dict[str, list[Row]] = {}
    for row in rows:
        ratios.setdefault(row["name"], []).append(row)
    return [f"ragged, {name}: ratio to a rectangle {min(r['ratio'] for r in group):.2f} to {max(r['ratio'] for r in group):.2f} "
            f"in {len(group)} cases" for name, group in ratios.items()]


def summary(rows: list[Row], names: list[str]) -> str:
    """Formats the short tables of these sets, and the errors."""
    results = Results(rows)
    tables = {
        "types": types_table,
        "published": published_table,
        "algorithms": algorithms_table,
        "adversarial": adversarial_table,
        "grid": grid_table,
        "bars": bars_table,
    }
    lines = [line for name, table in tables.items() if name in names for line in table(results)]
    lines += [f"WRONG: {case_of(row).line()}: {row.get('error', '')}" for row in results.wrong]
    lines.append(f"{len(results.by_case)} cases timed, {len(results.wrong)} wrong")
    return "\n".join(lines)

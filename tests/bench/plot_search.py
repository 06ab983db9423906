#!/usr/bin/env python3
"""Draws a receipt of the search campaign as an SVG: latency of one query over the number of rows, log-log.

    tests/bench/plot_search.py tests/bench/receipts/search_nvidia_h200.json

Writes search_nvidia_h200.svg next to the receipt. Needs the standard library only.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import plot_select  # noqa: E402
from plot_select import Lines, Panel  # noqa: E402

PANELS = (
    Panel("one query over rows: 768 dimensions, k = 32", "n", {"dim": 768, "k": 32}),
    Panel("one query over rows: 1,024 dimensions, k = 100", "n", {"dim": 1024, "k": 100}),
)
NAMES = {"torch.mv+topk": "PyTorch, same GPU", "cuvs.brute_force": "cuVS, same GPU", "cpu_round_trip": "CPU round trip"}


def lines_of(rows: list[dict[str, Any]], panel: Panel) -> Lines:
    """Returns the points of each implementation, in the order of the axis."""
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        if all(row[name] == value for name, value in panel.fixed.items()):
            peers = {NAMES.get(name, name): us for name, us in row["peers_us"].items()}
            for name, us in {"nearfield, GPU": row["us"], **peers, "read limit": row["limit_us"]}.items():
                lines.setdefault(name, {})[row[panel.axis]] = us
    return {name: sorted(points.items()) for name, points in lines.items()}


def main() -> int:
    """Reads the receipt, writes the figure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("receipt", type=Path)
    path = parser.parse_args().receipt
    receipt = json.loads(path.read_text(encoding="utf-8"))
    panels = [(panel, lines_of(receipt["rows"], panel)) for panel in PANELS]
    path.with_suffix(".svg").write_text(plot_select.draw(receipt, panels), encoding="utf-8")
    print(path.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

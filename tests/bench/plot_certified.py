#!/usr/bin/env python3
"""Draws a receipt of the certified scan's campaign as an SVG: one query over n, batches over their
size, log-log.

    tests/bench/plot_certified.py tests/bench/receipts/certified_nvidia_h200.json

writes certified_nvidia_h200.svg next to it. Needs only the standard library.
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

READ_BYTES_PER_US = 4.53e6
PANELS = (
    Panel("one query over n: 1,024 dimensions, k = 10", "n", {"batch": 1, "dim": 1024, "k": 10}),
    Panel("one query over n: 1,024 dimensions, k = 1000", "n", {"batch": 1, "dim": 1024, "k": 1000}),
    Panel("queries/s over the batch: 1M x 1,024, k = 10", "batch", {"n": 1_000_000, "dim": 1024, "k": 10}, "queries/s"),
    Panel("queries/s over the batch: 1M x 1,024, k = 100", "batch", {"n": 1_000_000, "dim": 1024, "k": 100}, "queries/s"),
)


def lines_of(rows: list[dict[str, Any]], panel: Panel) -> Lines:
    """Returns the points of each implementation, by the axis."""
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        if (row["data"], row["metric"]) != ("gaussian", "dot") or any(row[name] != value for name, value in panel.fixed.items()):
            continue
        if row["generations"] != 8:
            continue
        times = {"nearfield, codes": row["us"], **row["peers_us"]}
        if row["rows_us"] > 0:
            times["nearfield, rows"] = row["rows_us"]
        if panel.unit == "us":
            times["read limit"] = row["limit_us"]
            times["fp32 read limit"] = row["n"] * row["dim"] * 4 / READ_BYTES_PER_US
        for name, us in times.items():
            lines.setdefault(name, {})[row[panel.axis]] = us if panel.unit == "us" else row["batch"] * 1e6 / us
    return {name: sorted(points.items()) for name, points in lines.items()}


def main() -> int:
    """Reads the receipt and writes the figure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("receipt", type=Path)
    receipt_path = parser.parse_args().receipt
    receipt = json.loads(receipt_path.read_text(encoding="utf-8"))
    out = receipt_path.with_suffix(".svg")
    out.write_text(plot_select.draw(receipt, [(panel, lines_of(receipt["rows"], panel)) for panel in PANELS]), encoding="utf-8")
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

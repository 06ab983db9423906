#!/usr/bin/env python3
"""Prints the results of survivors.py as Markdown tables: survivor_table.py FILE.json ..."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KS = (10, 100, 1000)


def table(result: dict[str, Any]) -> str:
    """Returns the Markdown table of a result."""
    lines = ["| code | bytes a row | residual | " + " | ".join(f"k = {k:,}" for k in KS) + " |",
             "| --- |" + " --- |" * (2 + len(KS))]  # fmt: skip
    for code in result["codes"]:
        left = [code["left"][str(k)] for k in KS]
        columns = [code["name"], f"{code['row_bytes']:.0f}", f"{100 * code['residual']:.2g}%"]
        columns += [f"{each['median']:,.0f} / {each['p99']:,.0f}" for each in left]
        lines.append("| " + " | ".join(columns) + " |")
    return "\n".join(lines)


def main() -> None:
    for name in sys.argv[1:]:
        result = json.loads(Path(name).read_text("utf-8"))
        shape = f"{result['rows']:,} x {result['dim']}, {result['queries']} queries"
        print(f"{shape}, {result['device']}; median / p99\n\n{table(result)}\n")


if __name__ == "__main__":
    main()

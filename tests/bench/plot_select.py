#!/usr/bin/env python3
"""Draws a receipt of the selection campaign as an SVG: time over n and over k, one line per
implementation, log-log.

    tests/bench/plot_select.py tests/bench/receipts/select_nvidia_h200.json

writes select_nvidia_h200.svg next to it: one call between two events, fp32, normal scores. Needs
only the standard library.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 480, 340
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 34, 44
LEGEND = 190
# Colors that are distinct on white, also with red-green color blindness (Okabe and Ito, 2008). The
# adaptive choice is black.
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6d31", "#7b4fa3", "#5a8f29",
    "#004d66", "#b3a100", "#7f7f7f", "#ff9896", "#aec7e8",
)  # fmt: skip
SPECIAL = {"adaptive": "#000000", "torch.topk": "#d62728", "read limit": "#888888", "fp32 read limit": "#bbbbbb"}


class Panel(NamedTuple):
    """One diagram: its axis, and the values that all its rows share."""

    title: str
    axis: str
    fixed: dict[str, int]
    unit: str = "us"


PANELS = (
    Panel("over n: batch 1, k = 100", "n", {"batch": 1, "k": 100}),
    Panel("over n: batch 64, k = 100", "n", {"batch": 64, "k": 100}),
    Panel("over k: batch 1, n = 1,000,000", "k", {"batch": 1, "n": 1_000_000}),
    Panel("over k: batch 1024, n = 16,384", "k", {"batch": 1024, "n": 16_384}),
)
PUBLISHED_PANELS = (
    Panel("over n: batch 1, k = 2,048", "n", {"batch": 1, "k": 2048}),
    *(Panel(f"over k: batch 1024, n = {n:,}", "k", {"batch": 1024, "n": n}) for n in (3_072, 16_384, 131_072)),
)
Lines = dict[str, list[tuple[int, float]]]


def lines_of(rows: list[dict[str, Any]], panel: Panel) -> Lines:
    """Returns the points of each implementation, by the axis."""
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        fits = all(row[name] == value for name, value in panel.fixed.items())
        if not fits or "us" not in row or (row["dtype"], row["input"]) != ("fp32", "normal"):
            continue
        lines.setdefault(row["name"], {})[row[panel.axis]] = row["us"]
        lines.setdefault("read limit", {})[row[panel.axis]] = row["limit_us"]
        if "torch.topk" in row.get("peers_us", {}):
            lines.setdefault("torch.topk", {})[row[panel.axis]] = row["peers_us"]["torch.topk"]
    return {name: sorted(points.items()) for name, points in lines.items()}


class Scale:
    """A logarithmic axis that maps values to pixels."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high = math.log10(low), math.log10(max(high, low * 1.001))
        self.begin, self.end = begin, end

    def at(self, value: float) -> float:
        return self.begin + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.begin)

    def decades(self) -> list[float]:
        return [10.0**power for power in range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)]


def short(value: float) -> str:
    """Formats a number as 10k or 1M; below a thousand as the number itself."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def draw_panel(panel: Panel, lines: Lines, colours: dict[str, str]) -> list[str]:
    """Draws the diagram at the origin; empty if no row fits."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return []
    across = Scale(min(x for x, _ in points), max(x for x, _ in points), LEFT, WIDTH - RIGHT)
    # The limit of a small input is far below the time of any launch, so it may leave the frame.
    floor = min((y for name, line in lines.items() if not name.endswith("limit") for _, y in line), default=1.0)
    low, top = 10 ** math.floor(math.log10(floor)), 10 ** math.ceil(math.log10(max(y for _, y in points)))
    up = Scale(low, top, HEIGHT - BOTTOM, TOP)
    parts = [text(WIDTH / 2, 20, panel.title, extra=' font-weight="bold"')]
    for value in across.decades():
        x = across.at(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 16, short(value)))
    for value in up.decades():
        y = up.at(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(LEFT - 6, y + 4, short(value), "end"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, panel.axis))
    parts.append(text(14, HEIGHT / 2, panel.unit, extra=f' transform="rotate(-90 14 {HEIGHT / 2:.0f})"'))
    for name in sorted(lines, key=lambda each: each in SPECIAL):
        shown = [(x, y) for x, y in lines[name] if y >= low]
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in shown)
        dash = ' stroke-dasharray="5 4"' if name.endswith("limit") else ""
        parts.append(f'<polyline stroke="{colours[name]}"{dash} points="{path}"/>')
        if not name.endswith("limit"):
            parts += [f'<circle fill="{colours[name]}" cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="2.2"/>' for x, y in shown]
    return parts


def draw_legend(names: list[str], colours: dict[str, str]) -> list[str]:
    parts = []
    for i, name in enumerate(names):
        y = 44 + 20 * i
        dash = ' stroke-dasharray="5 4"' if name.endswith("limit") else ""
        parts.append(f'<polyline stroke="{colours[name]}"{dash} points="10,{y} 38,{y}"/>')
        parts.append(text(46, y + 4, name, "start"))
    return parts


def draw(receipt: dict[str, Any], panels: list[tuple[Panel, Lines]]) -> str:
    """Draws the whole figure: its diagrams in two columns, and one legend."""
    names = {name for _, lines in panels for name in lines}
    plain = sorted(names - SPECIAL.keys())
    colours = {**SPECIAL, **{name: COLOURS[i % len(COLOURS)] for i, name in enumerate(plain)}}
    width, height = 2 * WIDTH + LEGEND, (len(panels) + 1) // 2 * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        "<style>polyline{fill:none;stroke-width:1.8} .grid{stroke:#dddddd;stroke-width:1}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for i, (panel, lines) in enumerate(panels):
        parts += [f'<g transform="translate({i % 2 * WIDTH} {i // 2 * HEIGHT})">', *draw_panel(panel, lines, colours), "</g>"]
    legend = [name for name in SPECIAL if name in names] + plain
    parts += [f'<g transform="translate({2 * WIDTH} 0)">', text(10, 20, receipt["gpu"], "start", ' font-weight="bold"'),
              *draw_legend(legend, colours), "</g>", "</svg>"]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Reads the receipt and writes the figure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("receipt", type=Path)
    parser.add_argument("--published", action="store_true", help="draw the published shapes")
    parser.add_argument("--out", type=Path, help="default: the receipt's name with .svg")
    arguments = parser.parse_args()
    out = arguments.out or arguments.receipt.with_suffix(".svg")
    receipt = json.loads(arguments.receipt.read_text(encoding="utf-8"))
    shown = PUBLISHED_PANELS if arguments.published else PANELS
    rows = [row for row in receipt["rows"] if row["bench"] == "select"]
    panels = [(panel, lines_of(rows, panel)) for panel in shown]
    out.write_text(draw(receipt, panels), encoding="utf-8")
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tests of the peers in the campaigns that time searches: their rows in tables, receipts and plots."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import plot_certified  # noqa: E402

# Prints rows for the configurations that the options of search_bench and certified_bench select.
BENCHMARK = """
import itertools, json, sys
options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:] if "=" in argument)
grid = [[int(x) for x in options.get(name, default).split(",")] for name, default in
        (("n", "1000000"), ("dim", "1024"), ("k", "10,100"), ("batch", "1"))]
for n, dim, k, batch in itertools.product(*grid):
    print("NEARFIELD_BENCH_JSON " + json.dumps({
        "bench": "search", "path": "int8", "scan": "int8", "rows": "device", "metric": options.get("metric", "dot"), "batch": batch, "n": n, "dim": dim, "k": k,
        "data": "gaussian", "us": 100.0 * batch, "queries_per_s": 9, "limit_us": 50.0, "share_of_limit": 0.5, "candidates": 1, "tighter": 0,
        "canonical": 0, "rows_us": 0, "auto_us": 0, "generations": 8, "gpu_capability": 90, "cpu_round_trip_us": 900.0}))
"""
# Takes the place of the interpreter that has PyTorch: each peer needs a time of its own.
PEER = """
import itertools, json, sys
options = dict(argument[2:].split("=", 1) for argument in sys.argv[2:])
if options["peer"] == "cuvs" and "cuvs" not in options:
    print("search_peer: cuvs is left out: libcuvs is not installed", file=sys.stderr)
    sys.exit(3)
us, name = {"torch": (150.0, "torch.m"), "torch-tf32": (60.0, "torch.mm+topk.tf32"), "torch-bf16": (50.0, "torch.mm+topk.bf16"),
            "cuvs": (200.0, "cuvs.brute_force")}[options["peer"]]
grid = [[int(x) for x in options.get(name, default).split(",")] for name, default in
        (("n", "1000000"), ("dim", "1024"), ("k", "10,100"), ("batch", "1"))]
for n, dim, k, batch in itertools.product(*grid):
    bench = name if name != "torch.m" else "torch.mv+topk" if batch == 1 else "torch.mm+topk.fp32"
    print("NEARFIELD_BENCH_JSON " + json.dumps({"bench": bench, "n": n, "dim": dim, "k": k, "batch": batch, "us": us * batch}))
"""


def run(campaign: str, *arguments: str) -> tuple[str, dict[str, Any]]:
    """Runs a campaign with programs in place of the benchmark and the peers; returns its output and
    its receipt."""
    with tempfile.TemporaryDirectory() as folder:
        programs = [pathlib.Path(folder) / "benchmark", pathlib.Path(folder) / "python"]
        for program, text in zip(programs, (BENCHMARK, PEER)):
            program.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
            program.chmod(0o755)
        out = pathlib.Path(folder) / "receipt.json"
        command = [str(ROOT / "scripts" / campaign), "--program", str(programs[0]), "--python", str(programs[1]), "--out", str(out), *arguments]
        ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
        return ran.stdout, json.loads(out.read_text(encoding="utf-8"))


class Campaigns(unittest.TestCase):
    def test_every_row_of_one_query_has_the_time_of_cuvs(self) -> None:
        shown, receipt = run("bench_campaign", "--cuvs", "/somewhere", "--", "--n=5000", "--dim=8", "--k=3,4")
        self.assertEqual([row["peers_us"]["cuvs.brute_force"] for row in receipt["rows"]], [200.0, 200.0])
        self.assertIn("GPU faster than cuvs.brute_force in 2 of 2 configurations: 2.00 times at worst", shown)
        self.assertIn("--peer=cuvs --cuvs=/somewhere --n=5000", shown)

    def test_the_certified_table_has_a_column_for_each_peer(self) -> None:
        shown, receipt = run("certified_campaign", "--set", "batch", "--set", "metrics", "--cuvs", "/somewhere")
        lines = shown.splitlines()
        header = next(line for line in lines if "cand" in line)
        self.assertTrue(header.endswith("mv fp32  mm fp32  mm tf32  mm bf16     cuVS"), header)
        cells = [line.split()[-5:] for line in lines if line.startswith(" 90 ")]
        self.assertIn(["-", "4800", "1920", "1600", "6400"], cells)
        self.assertEqual([row for row in receipt["rows"] if row["metric"] != "dot" and row["peers_us"]], [])

    def test_a_batch_is_compared_with_the_same_batch_only(self) -> None:
        rows = run("certified_campaign", "--set", "one", "--set", "batch", "--cuvs", "/somewhere")[1]["rows"]
        self.assertEqual({row["peers_us"]["cuvs.brute_force"] / row["batch"] for row in rows}, {200.0})
        self.assertEqual({row["batch"] for row in rows if "torch.mv+topk" in row["peers_us"]}, {1})
        self.assertEqual({row["batch"] for row in rows if "torch.mm+topk.tf32" in row["peers_us"]}, {32, 256, 1024})

    def test_without_cuvs_one_line_reports_it(self) -> None:
        shown, receipt = run("certified_campaign", "--set", "one", "--set", "batch")
        self.assertEqual(shown.count("cuvs is left out"), 1)
        self.assertEqual({name for row in receipt["rows"] for name in row["peers_us"] if "cuvs" in name}, set())
        self.assertIn("GPU faster than torch.mm+topk.fp32 in 6 of 6", shown)
        self.assertNotIn("GPU faster than cuvs", shown)


class Plot(unittest.TestCase):
    def lines(self, *arguments: str) -> list[dict[str, list[tuple[int, float]]]]:
        rows = run("certified_campaign", "--set", "one", "--set", "batch", *arguments)[1]["rows"]
        return [plot_certified.lines_of(rows, panel) for panel in plot_certified.PANELS]

    def test_cuvs_has_a_line_over_rows_and_over_batches(self) -> None:
        one, _, batches, _ = self.lines("--cuvs", "/somewhere")
        self.assertEqual(one["cuvs.brute_force"], [(n, 200.0) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)])
        self.assertEqual(batches["cuvs.brute_force"], [(batch, 5000.0) for batch in (1, 32, 256, 1024)])

    def test_without_cuvs_the_other_lines_stay(self) -> None:
        with_it, without = self.lines("--cuvs", "/somewhere"), self.lines()
        for panel in with_it:
            panel.pop("cuvs.brute_force")
        self.assertEqual(without, with_it)


if __name__ == "__main__":
    unittest.main()

"""Tests of the peers in the campaigns that time searches: their rows in tables, receipts and plots."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from typing import Any
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import faiss_peer  # noqa: E402
import plot_certified  # noqa: E402
import search_peer  # noqa: E402

# Prints rows for the configurations that the options of search_bench and certified_bench select.
# Fails if FAIL_FAMILY is set and it has to make a family.
BENCHMARK = """
import itertools, json, os, sys
options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:] if "=" in argument)
grid = [[int(x) for x in options.get(name, default).split(",")] for name, default in
        (("n", "1000000"), ("dim", "1024"), ("k", "10,100"), ("batch", "1"))]
if "family" in options and "FAIL_FAMILY" in os.environ:
    sys.exit(5)
for n, dim, k, batch in itertools.product(*grid):
    auto = (140 if "family" in options else 130 if n == 5000 and k > 100 else 105) * batch if "--auto" in sys.argv else 0
    print("NEARFIELD_BENCH_JSON " + json.dumps({
        "auto_p99_us": auto + 1,
        "bench": "search", "path": "int8", "scan": "int8", "rows": "device", "metric": options.get("metric", "dot"), "batch": batch, "n": n, "dim": dim, "k": k,
        "data": options.get("family", "gaussian"), "us": 100.0 * batch, "queries_per_s": 9, "limit_us": 50.0, "share_of_limit": 0.5, "candidates": 1, "tighter": 0,
        "canonical": 0, "rows_us": 0, "auto_us": auto, "generations": int(options.get("generations", "8")), "gpu_capability": 90, "cpu_round_trip_us": 900.0}))
"""
# Takes the place of the interpreter that has PyTorch: each peer needs a time of its own. NO_GRAPH is
# the exit code of the peer that is a CUDA graph.
PEER = """
import itertools, json, os, sys
options = dict(argument[2:].split("=", 1) for argument in sys.argv[2:])
if options["peer"] == "torch-graph" and "NO_GRAPH" in os.environ:
    sys.exit(int(os.environ["NO_GRAPH"]))
if options["peer"].startswith("cuvs") and "cuvs" not in options:
    print("search_peer: cuvs is left out: libcuvs is not installed", file=sys.stderr)
    sys.exit(3)
us, name = {"torch": (150.0, "torch.m"), "torch-tf32": (60.0, "torch.mm+topk.tf32"), "torch-bf16": (50.0, "torch.mm+topk.bf16"),
            "torch-bf16-nearfield": (40.0, "torch.mm.bf16+nearfield.topk"), "torch-int8-nearfield": (30.0, "torch._int_mm+nearfield.topk"),
            "torch-graph": (100.0, "torch.mm+topk.graph"), "cuvs": (200.0, "cuvs.brute_force"),
            "cuvs-fp16": (120.0, "cuvs.brute_force.fp16")}[options["peer"]]
grid = [[int(x) for x in options.get(name, default).split(",")] for name, default in
        (("n", "1000000"), ("dim", "1024"), ("k", "10,100"), ("batch", "1"))]
for n, dim, k, batch in itertools.product(*grid):
    bench = name if name != "torch.m" else "torch.mv+topk" if batch == 1 else "torch.mm+topk.fp32"
    print("NEARFIELD_BENCH_JSON " + json.dumps({"bench": bench, "n": n, "dim": dim, "k": k, "batch": batch, "us": us * batch,
                                                   "p99_us": us * batch + 7, "data": options.get("data", "gaussian")}))
"""


def run(campaign: str, *arguments: str, exit_code: int = 0, **environment: str) -> tuple[str, dict[str, Any]]:
    """Runs a campaign with programs in place of the benchmark and the peers; returns its output and
    its receipt. Raises AssertionError if its exit code is another one."""
    with tempfile.TemporaryDirectory() as folder:
        programs = [pathlib.Path(folder) / "benchmark", pathlib.Path(folder) / "python"]
        for program, text in zip(programs, (BENCHMARK, PEER)):
            program.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
            program.chmod(0o755)
        out = pathlib.Path(folder) / "receipt.json"
        command = [str(ROOT / "scripts" / campaign), "--program", str(programs[0]), "--python", str(programs[1]), "--out", str(out), *arguments]
        ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False,
                             env={**os.environ, **environment})  # fmt: skip
        assert ran.returncode == exit_code, ran.stderr
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
        self.assertTrue(header.endswith("mv fp32  mm fp32  mm tf32  mm bf16  bf16+nf  int8+nf     cuVS cuVS f16"), header)
        cells = [line.split()[-8:] for line in lines if line.startswith(" 90 ")]
        self.assertIn(["-", "4800", "1920", "1600", "1280", "960", "6400", "3840"], cells)
        self.assertEqual([row for row in receipt["rows"] if row["metric"] != "dot" and row["peers_us"]], [])

    def test_a_batch_is_compared_with_the_same_batch_only(self) -> None:
        rows = run("certified_campaign", "--set", "one", "--set", "batch", "--cuvs", "/somewhere")[1]["rows"]
        self.assertEqual({row["peers_us"]["cuvs.brute_force"] / row["batch"] for row in rows}, {200.0})
        self.assertEqual({row["batch"] for row in rows if "torch.mv+topk" in row["peers_us"]}, {1})
        self.assertEqual({row["batch"] for row in rows if "torch.mm+topk.tf32" in row["peers_us"]}, {32, 256, 1024})

    def test_without_cuvs_one_line_reports_it(self) -> None:
        shown, receipt = run("certified_campaign", "--set", "one", "--set", "batch")
        self.assertEqual(shown.count("cuvs is left out"), 2)  # in fp32 and in fp16
        self.assertEqual({name for row in receipt["rows"] for name in row["peers_us"] if "cuvs" in name}, set())
        self.assertIn("GPU faster than torch.mm+topk.fp32 in 6 of 6", shown)
        self.assertNotIn("GPU faster than cuvs", shown)


class Law(unittest.TestCase):
    def test_every_cell_has_both_medians_both_p99_and_their_ratio(self) -> None:
        rows = run("certified_campaign", "--set", "law")[1]["rows"]
        random = [row for row in rows if row["data"] == "gaussian"]
        self.assertEqual((len(random), len(rows)), (170, 188))
        self.assertEqual({row["n"] for row in random if row["dim"] == 1024}, {1_000_000})
        self.assertLessEqual(max(row["k"] / row["n"] for row in rows), 1)
        one = next(row for row in random if (row["n"], row["batch"], row["k"]) == (5000, 8, 1000))
        figures = ("auto_us", "auto_p99_us", "graph_us", "graph_p99_us", "ratio", "ratio_max")
        self.assertEqual([one[name] for name in figures], [1040, 1041, 800.0, 807.0, 1.3, 1.05])

    def test_a_missed_law_is_reported_and_no_error(self) -> None:
        shown = run("certified_campaign", "--set", "law")[0]
        self.assertIn("law, gaussian rows: 10 of 170 cells take more than 1.05 times as long as the graph", shown)
        self.assertIn("  1.30 at N=5000, D=384, B=1, k=1000\n", shown)
        self.assertIn("law, all-equal rows: 0 of 18 cells take more than 1.5 times as long as the graph", shown)

    def test_collection_and_graph_search_the_same_shapes_and_data(self) -> None:
        shown = run("certified_campaign", "--set", "law")[0]
        commands = [line.split() for line in shown.splitlines() if line.startswith("+ ")]
        grids = [[word for word in command if word.split("=")[0] in ("--n", "--dim", "--k", "--batch")] for command in commands]
        self.assertEqual(grids[0::2], grids[1::2])
        for option in ("--auto", "--no-rows", "--generations=1", "--deleted-every=0", "--backend=gpu"):
            self.assertTrue(all(option in command for command in commands[0::2]), option)
        self.assertTrue(all("--peer=torch-graph" in command for command in commands[1::2]))
        self.assertIn("--family=all-equal", commands[-2])
        self.assertIn("--data=all-equal", commands[-1])

    def test_without_pytorch_the_cells_have_no_ratio(self) -> None:
        shown, receipt = run("certified_campaign", "--set", "law", NO_GRAPH="3")
        self.assertEqual(shown.count("--peer=torch-graph"), 1)
        self.assertEqual([row for row in receipt["rows"] if "ratio" in row], [])
        self.assertIn("law, gaussian rows: 0 of 0 cells", shown)

    def test_a_program_that_fails_is_an_error_and_the_other_cells_stay(self) -> None:
        rows = run("certified_campaign", "--set", "law", exit_code=5, FAIL_FAMILY="1")[1]["rows"]
        self.assertEqual(len(rows), 170)
        rows = run("certified_campaign", "--set", "law", exit_code=1, NO_GRAPH="1")[1]["rows"]
        self.assertEqual(len(rows), 188)

    def test_next_to_another_set_the_other_rows_keep_their_table(self) -> None:
        shown, receipt = run("certified_campaign", "--set", "metrics", "--set", "law")
        self.assertEqual(len(receipt["rows"]), 4 + 188)
        self.assertIn("cand", shown)


def torch_without_gpu() -> types.ModuleType:
    """Returns a module in the place of PyTorch, with what a peer uses before it has a GPU."""
    module = types.ModuleType("torch")
    vars(module).update(
        __version__="9.9", _int_mm=None, cuda=types.SimpleNamespace(is_available=lambda: False),
        backends=types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True))))  # fmt: skip
    return module


def nearfield_package() -> dict[str, types.ModuleType]:
    package = types.ModuleType("nearfield")
    vars(package).update(topk=types.ModuleType("nearfield.topk"))
    return {"nearfield": package}


class SearchPeer(unittest.TestCase):
    def peers(self, *modes: str) -> list[search_peer.Torch]:
        with mock.patch.dict(sys.modules, {"torch": torch_without_gpu(), **nearfield_package()}):
            return [search_peer.Torch(mode) for mode in modes]

    def test_only_peers_of_full_fp32_are_exact(self) -> None:
        peers = self.peers("fp32", "graph", "tf32", "bf16", "bf16-nearfield", "int8-nearfield")
        self.assertEqual([peer.exact for peer in peers], [True, True, False, False, False, False])
        self.assertEqual([peer.dtype for peer in peers], ["fp32", "fp32", "fp32", "bf16", "bf16", "int8"])

    def test_each_peer_has_a_name_of_its_own(self) -> None:
        peers = self.peers("fp32", "graph", "bf16", "bf16-nearfield", "int8-nearfield")
        names = ["torch.mm+topk.fp32", "torch.mm+topk.graph", "torch.mm+topk.bf16", "torch.mm.bf16+nearfield.topk", "torch._int_mm+nearfield.topk"]
        self.assertEqual([peer.name(8) for peer in peers], names)
        self.assertEqual([peer.name(1) for peer in peers], ["torch.mv+topk", "torch.mv+topk.graph", *names[2:]])

    def test_int8_pads_a_batch_to_what_the_product_takes(self) -> None:
        fp32, int8 = self.peers("graph", "int8-nearfield")
        self.assertEqual([fp32.queries_on_device(batch) for batch in (1, 8, 65)], [1, 8, 65])
        self.assertEqual([int8.queries_on_device(batch) for batch in (1, 8, 24, 65, 300, 1024)], [24, 24, 24, 72, 304, 1024])

    def test_the_row_has_the_median_and_the_99th_percentile(self) -> None:
        times_us = [float(i) for i in range(100, 0, -1)]
        self.assertEqual(search_peer.times_of(times_us, 2), {"us": 50.5, "p99_us": 99.0, "queries_per_s": 39604})
        self.assertEqual(search_peer.times_of([3.0], 1)["p99_us"], 3.0)

    def test_a_missing_library_is_reported_with_its_name(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for peer in ("torch", "torch-graph", "torch-bf16-nearfield", "torch-int8-nearfield", "cuvs-fp16"):
            command = [sys.executable, str(ROOT / "tests/bench/search_peer.py"), f"--peer={peer}"]
            broken = pathlib.Path(folder.name) / "torch.py"
            broken.write_text("raise ImportError('no PyTorch here')\n", encoding="utf-8")
            ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": folder.name})
            self.assertEqual((ran.returncode, ran.stdout), (3, ""), ran.stderr)
            self.assertIn(f"search_peer: {peer} is left out: ", ran.stderr)

    def test_without_the_package_only_its_peers_are_left_out(self) -> None:
        with mock.patch.dict(sys.modules, {"torch": torch_without_gpu(), "nearfield": None}):
            search_peer.Torch("bf16")
            for mode in ("bf16-nearfield", "int8-nearfield"):
                with self.assertRaises(ImportError):
                    search_peer.Torch(mode)

    def test_a_pytorch_without_int8_products_leaves_that_peer_out(self) -> None:
        torch = torch_without_gpu()
        del torch._int_mm
        with mock.patch.dict(sys.modules, {"torch": torch, **nearfield_package()}), self.assertRaisesRegex(ImportError, "no torch._int_mm"):
            search_peer.Torch("int8-nearfield")


class FaissPeer(unittest.TestCase):
    def test_powers_of_two_and_the_maximum_are_tried(self) -> None:
        self.assertEqual([faiss_peer.thread_counts(count) for count in (1, 2, 6, 16)], [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8, 16]])

    def test_the_fastest_count_is_reported(self) -> None:
        """The clock is a stand-in: a search takes 5, 2 and 3 seconds on 1, 2 and 4 threads."""
        now, threads = 0.0, 1

        def set_threads(count: int) -> None:
            nonlocal threads
            threads = count

        def search() -> None:
            nonlocal now
            now += {1: 5.0, 2: 2.0, 4: 3.0}[threads]

        with mock.patch("time.perf_counter", lambda: now):
            best = faiss_peer.fastest([1, 2, 4], set_threads, lambda: faiss_peer.median_us(search, 51, 0.0))
        self.assertEqual(best, (2, 2e6))
        self.assertEqual(now, (5 + 2 + 3) * (2 + 11))  # two to warm up, and the minimum of runs


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
            for name in [name for name in panel if name.startswith("cuvs")]:
                panel.pop(name)
        self.assertEqual(without, with_it)


if __name__ == "__main__":
    unittest.main()

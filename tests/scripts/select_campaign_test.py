"""Tests of the selection campaign: its cases, the merge with the peers, the short tables, the
receipt and the figure."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import campaign  # noqa: E402
import plot_select  # noqa: E402
import select_cases  # noqa: E402
import select_summary  # noqa: E402
import select_torch_peer  # noqa: E402
from select_cases import Case  # noqa: E402


def row_of(case: Case, us: float, **more: Any) -> dict[str, Any]:
    """Returns a row as select_bench prints it."""
    batch, n, k, dtype, name, algorithm = case
    return {"bench": "select", "name": algorithm, "choice": algorithm, "batch": batch, "n": n, "k": k, "dtype": dtype,
            "input": name, "us": us, "graph_us": us / 2, "limit_us": us / 4, "matches_oracle": True, **more}  # fmt: skip


def torch_row(case: Case, **times: float) -> dict[str, Any]:
    return {"bench": "torch.topk", "batch": case.batch, "n": case.n, "k": case.k, "dtype": case.dtype,
            "input": case.input, **times}  # fmt: skip


class Cases(unittest.TestCase):
    def test_every_case_is_legal_and_stands_once(self) -> None:
        for name, make in select_cases.SETS.items():
            cases = make()
            self.assertEqual(len(cases), len(set(cases)), name)
            for case in cases:
                self.assertTrue(1 <= case.k <= case.n and 1 <= case.batch <= 65_535, case)
                self.assertEqual(len(case.line().split()), 6)

    def test_the_bars_are_the_table_of_targets(self) -> None:
        self.assertEqual({case[:3] for case in select_cases.bars()}, set(select_cases.TARGETS_US))

    def test_all_takes_the_place_of_one_algorithm_of_the_same_shape(self) -> None:
        one, every, other = Case(1, 10, 2), Case(1, 10, 2, algorithm="all"), Case(1, 10, 3)
        self.assertEqual(select_cases.in_order([one, other, every, one]), [every, other])

    def test_cases_of_one_input_are_neighbours(self) -> None:
        cases = select_cases.in_order(case for make in select_cases.SETS.values() for case in make())
        inputs = [(case.batch, case.n, case.dtype, case.input) for case in cases]
        changes = sum(before != after for before, after in zip(inputs, inputs[1:]))
        self.assertEqual(changes + 1, len(set(inputs)))

    def test_the_torch_peer_reads_the_lines(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "cases.txt"
            path.write_text("# a comment\n\n" + Case(4, 100, 7, "bf16").line() + "\n", encoding="utf-8")
            self.assertEqual(select_torch_peer.read_cases(str(path)), [(4, 100, 7, "bf16", "normal")])


class Merge(unittest.TestCase):
    def test_peers_go_to_the_rows_of_their_shape_only(self) -> None:
        case = Case(1024, 50_000, 2048)
        rows = [row_of(case, 60), row_of(case._replace(dtype="fp16"), 40), row_of(Case(8, 50_000, 1), 20)]
        select_summary.merge(rows, [torch_row(case, us=830.0, runs=21), torch_row(case, graph_us=800.0)])
        self.assertEqual(rows[0]["peers_us"], {"torch.topk": 830.0, select_cases.CUB_36: 335.4})
        self.assertEqual(rows[0]["peers_graph_us"], {"torch.topk": 800.0})
        self.assertEqual([row["peers_us"] for row in rows[1:]], [{}, {}])
        self.assertNotIn("peers_graph_us", rows[1])

    def test_the_receipt_is_json_with_a_row_a_line(self) -> None:
        rows = [row_of(Case(1, 100, k), k) for k in (1, 2, 3)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "receipts" / "select_x.json"
            campaign.write_receipt(path, {"command": "x", "gpu": "y"}, rows)
            written = path.read_text(encoding="utf-8")
        self.assertEqual(json.loads(written), {"command": "x", "gpu": "y", "rows": rows})
        self.assertEqual(sum('"bench"' in line for line in written.splitlines()), 3)


class Summary(unittest.TestCase):
    def setUp(self) -> None:
        self.grid = [case for case in select_cases.grid() if (case.batch, case.n) == (8, 3072)]

    def tables(self, rows: list[dict[str, Any]], peers: list[dict[str, Any]], *names: str) -> str:
        select_summary.merge(rows, peers)
        return select_summary.summary(rows, list(names))

    def test_the_grid_counts_what_is_faster_than_torch_and_names_what_is_not(self) -> None:
        rows = [row_of(case, 10) for case in self.grid]
        peers = [torch_row(case, us=5.0 if case.k == 64 else 40.0) for case in self.grid]
        table = self.tables(rows, peers, "grid")
        self.assertIn(f"faster than torch.topk in {len(self.grid) - 1} of {len(self.grid)}", table)
        self.assertIn("worst 0.50 at 8 x 3072, k=64 (10.0 against 5.0 us)", table)
        self.assertIn("slower: 8 x 3072, k=64", table)

    def test_the_mean_of_ratios_is_geometric(self) -> None:
        rows = [row_of(case, 10) for case in self.grid[:2]]
        peers = [torch_row(self.grid[0], us=10.0), torch_row(self.grid[1], us=160.0)]
        self.assertIn("theirs/ours 4.00;", self.tables(rows, peers, "grid"))

    def test_the_spread_over_k_leaves_out_k_beyond_an_eighth_of_n(self) -> None:
        slow = {256: 17.0, 512: 90.0, 1: 10.0}  # 512 is more than 3072 / 8
        rows = [row_of(case, slow.get(case.k, 12.0)) for case in self.grid]
        table = self.tables(rows, [], "grid")
        self.assertIn("grid, us: slowest over fastest k <= n/8 at most 1.70 (limit 1.6), at 8 x 3072, k=256: 17.0 us", table)

    def test_a_bar_that_is_missed_says_so(self) -> None:
        rows = [row_of(case, select_cases.TARGETS_US[case[:3]]) for case in select_cases.bars()]
        self.assertIn("targets met: 19 of 19", self.tables(rows, [], "bars"))
        rows[0]["us"] += 1
        table = self.tables(rows, [], "bars")
        self.assertIn("targets met: 18 of 19", table)
        self.assertEqual(table.count("MISS"), 1)

    def test_hard_inputs_are_set_against_the_normal_one_of_the_same_shape(self) -> None:
        rows = [row_of(case, 10 if case.input == "normal" else 12) for case in select_cases.adversarial()]
        rows = [{**row, "us": 31} if (row["input"], row["n"]) == ("all_equal", 50_000) else row for row in rows]
        table = self.tables(rows, [], "adversarial")
        self.assertIn("all_equal: at most 3.10 times normal, at 1024 x 50000, k=2048 (31.0 against 10.0 us", table)
        self.assertIn("one_bin: at most 1.20 times normal", table)

    def test_an_algorithm_that_beats_the_adaptive_choice_is_named(self) -> None:
        case = Case(64, 65_536, 100)
        rows = [row_of(case, 20), row_of(case._replace(algorithm="histogram"), 10),
                row_of(Case(64, 4_096, 100), 10), row_of(Case(64, 4_096, 100, algorithm="histogram"), 9.5)]  # fmt: skip
        table = self.tables(rows, [], "algorithms")
        self.assertIn("algorithms: 1 of 2 shapes", table)
        self.assertIn("64 x 65536, k=100: histogram 10.0 us, adaptive 20.0 us", table)

    def test_a_wrong_result_is_no_figure_and_is_named(self) -> None:
        wrong = row_of(self.grid[0], 1, matches_oracle=False, error="row 3, place 0")
        del wrong["us"], wrong["graph_us"], wrong["limit_us"], wrong["choice"]
        table = self.tables([wrong, row_of(self.grid[1], 10)], [torch_row(self.grid[0], us=5.0)], *select_cases.SETS)
        self.assertIn("WRONG: 8 3072 1 fp32 normal adaptive: row 3, place 0", table)
        self.assertIn("1 cases timed, 1 wrong", table)

    def test_no_rows_give_a_short_table(self) -> None:
        self.assertEqual(self.tables([], [], *select_cases.SETS), "0 cases timed, 0 wrong")


class Script(unittest.TestCase):
    def run_campaign(self, folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs the script with a program that answers every case of its case file with 7 us."""
        program = pathlib.Path(folder) / "select_bench"
        program.write_text(
            f"#!{sys.executable}\nimport json, sys\n"
            "for line in open([a for a in sys.argv if a.startswith('--case-file=')][0].split('=')[1]):\n"
            "  b, n, k, t, i, a = line.split()\n"
            "  row = {'bench': 'select', 'name': a, 'choice': a, 'batch': int(b), 'n': int(n), 'k': int(k), 'dtype': t,"
            " 'input': i, 'us': 7.0, 'limit_us': 1.0, 'matches_oracle': True}\n"
            "  print('NEARFIELD_BENCH_JSON ' + json.dumps(row))\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
        command = [sys.executable, str(ROOT / "scripts" / "select_campaign"), "--program", str(program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_it_runs_the_program_and_writes_the_receipt(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "receipt.json"
            ran = self.run_campaign(folder, "--set", "bars", "--no-torch", "--out", str(out), "--commit", "abc")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            receipt = json.loads(out.read_text(encoding="utf-8"))
        self.assertIn("targets met: 19 of 19", ran.stdout)
        self.assertEqual((receipt["commit"], len(receipt["rows"])), ("abc", 19))


def draw(receipt: dict[str, Any]) -> str:
    return plot_select.draw(receipt, [(panel, plot_select.lines_of(receipt["rows"], panel)) for panel in plot_select.PANELS])


class Figure(unittest.TestCase):
    def test_it_is_an_svg_with_a_line_an_implementation(self) -> None:
        cases = [case._replace(algorithm=name) for case in select_cases.algorithms() for name in ("adaptive", "radix_sort")]
        rows = [row_of(case, 5 + case.batch * case.n / 1e6) for case in cases]
        select_summary.merge(rows, [torch_row(case, us=200.0) for case in cases])
        figure = ElementTree.fromstring(draw({"gpu": "A <card>", "rows": rows}))
        names = {element.text for element in figure.iter("{http://www.w3.org/2000/svg}text")}
        self.assertLessEqual({"adaptive", "radix_sort", "torch.topk", "read limit", "A <card>"}, names)
        self.assertEqual(len(list(figure.iter("{http://www.w3.org/2000/svg}polyline"))), 4 * 4 + 4)

    def test_panels_without_rows_stay_empty(self) -> None:
        figure = draw({"gpu": "x", "rows": []})
        self.assertTrue(ElementTree.fromstring(figure).tag.endswith("svg"))


if __name__ == "__main__":
    unittest.main()

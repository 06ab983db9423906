"""Tests of scripts/peer_campaign, with a program in the place of the interpreter that has the peers:
turns, libraries that are not installed, failures, and a contender that never answers."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Takes the place of filtered_search.py: notes its process and its rounds in the folder.
CONTENDER = """
import json, os, pathlib, signal, sys
name, folder = sys.argv[2], pathlib.Path(sys.argv[3])
if name == "make":
    sys.exit(0)
if name == "lancedb":
    sys.exit(3)
if name == "chroma":
    print("its message", file=sys.stderr)
    sys.exit(1)
pathlib.Path({pids!r}).open("a").write(f"{{os.getpid()}}\\n")
print("ready", flush=True)
rounds = []
for line in sys.stdin:
    if name == "qdrant":
        signal.pause()
    rounds.append(line.split()[:2])
    print("done", flush=True)
row = {{"name": name, "version": "1", "setting": json.dumps(rounds), "n": 9, "dim": 3, "k": 1, "queries_per_s": 1234.5, "p50_us": 800.0,
       "recall": 1.0, "same_order": 1.0, "same_score_bits": 0.5, "threads": os.environ["OMP_NUM_THREADS"]}}
print("NEARFIELD_BENCH_JSON " + json.dumps(row))
"""


class PeerCampaignTest(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.pids = self.folder / "pids"
        self.pids.touch()
        for name in ("bin/nearfield-server", "lib/libnearfield.so", "python"):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!{sys.executable}\n{CONTENDER.format(pids=str(self.pids))}", encoding="utf-8")
            path.chmod(0o755)

    def run_campaign(self, contenders: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts/peer_campaign"), "--bin", str(self.folder / "bin"), "--python", str(self.folder / "python"),
                   "--contenders", contenders, "--queries", "20", "--threads", "1", "--out", str(self.folder / "out.json"), *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def assert_no_process_is_left(self) -> None:
        for pid in self.pids.read_text(encoding="utf-8").split():
            self.assertFalse(pathlib.Path("/proc", pid).exists(), pid)

    def test_each_contender_has_every_round_and_an_absent_one_is_left_out(self) -> None:
        ran = self.run_campaign("nearfield,lancedb,faiss")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("lancedb is left out: it is not installed", ran.stdout)
        rows = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))["rows"]
        self.assertEqual([row["name"] for row in rows], ["nearfield", "faiss"])
        for row in rows:
            self.assertEqual(row["threads"], "1")
            self.assertEqual(json.loads(row["setting"]), [[str(i), str(i + 1)] for i in range(20)])
        self.assertIn("| 1,234 | 0.8 ms | 1.000 | 100% | 50.0% |", ran.stdout)
        self.assert_no_process_is_left()

    def test_a_contender_that_fails_ends_the_campaign_with_its_message(self) -> None:
        ran = self.run_campaign("nearfield,chroma")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("chroma failed", ran.stderr)
        self.assertIn("its message", ran.stderr)
        self.assertFalse((self.folder / "out.json").exists())
        self.assert_no_process_is_left()

    def test_a_campaign_that_takes_too_long_ends_and_leaves_no_process(self) -> None:
        ran = self.run_campaign("nearfield,qdrant", "--minutes-max", "0.02")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("SIGALRM", ran.stderr)
        self.assert_no_process_is_left()


if __name__ == "__main__":
    unittest.main()

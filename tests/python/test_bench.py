"""The benchmarks of the Python client in their tiny modes: receipts, and the paths of the agents
against numpy."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
from canonical import scores
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "bench"))

import agent_loop  # noqa: E402


def numpy_paths(load: agent_loop.Load, vectors: np.ndarray, agents: int) -> list[list[list[int]]]:
    """Returns the paths that exact searches take."""
    paths = []
    for agent in range(agents):
        steps = []
        for step in range(load.steps):
            path = [load.start(agent, step)]
            for _ in range(load.hops):
                order = np.argsort(-scores("cosine", vectors[path[-1]], vectors), kind="stable")
                path.append(next(int(row) for row in order if int(row) not in path))
            steps.append(path)
        paths.append(steps)
    return paths


def test_the_agents_take_the_paths_of_numpy(request, tmp_path):
    receipt = tmp_path / "receipt.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/bench/agent_loop.py", "--server", request.config.getoption("--server"), "--tiny",
         "--out", receipt], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads(receipt.read_text())
    assert written["command"].startswith("tests/bench/agent_loop.py --server ")
    by_id, by_vector = written["rows"]
    assert (by_id["by"], by_vector["by"]) == ("id", "vector")
    load = agent_loop.Load("", by_id["rows"], by_id["hops"], by_id["steps"] // by_id["agents"], "id")
    paths = numpy_paths(load, agent_loop.corpus(by_id["rows"], by_id["dim"]), by_id["agents"])
    wanted = hashlib.sha256(repr(paths).encode()).hexdigest()[:16]
    for row in (by_id, by_vector):
        assert row["paths_sha256"] == wanted and wanted in done.stdout
        parts = [row[f"{part}_mean_us"] for part in ("queue", "device", "server_rest", "network")]
        assert all(row[f"{part}_p99_us"] >= row[f"{part}_p50_us"] for part in agent_loop.PARTS)
        assert abs(sum(parts) - row["hop_mean_us"]) < 1  # each part is rounded to 0.1 us
        assert row["step_mean_us"] >= row["hops"] * row["hop_mean_us"] - 1


def test_the_overhead_in_the_process_is_the_wall_time_without_the_engines(tmp_path):
    receipt = tmp_path / "receipt.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/bench/inprocess_search.py", "--overhead", "--shapes", "300x8", "--queries", "7",
         "--rounds", "1", "--out", receipt], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(receipt.read_text())["rows"]
    assert [row["name"].split(",")[0] for row in rows] == ["nf_call", "nf_search", "messages in Python", "Collection.search"]
    for row in rows:
        assert row["name"] in done.stdout and row["shape"] == "300x8"
        for percent in (10, 50, 99):
            wall, total, device = (row[f"{column}_p{percent}_us"] for column in ("wall", "total", "device"))
            assert wall > total >= device >= 0
            assert wall >= row[f"beyond_p{percent}_us"] > 0


def test_the_groups_of_the_benchmark_are_those_of_all_rows(tmp_path):
    receipt = tmp_path / "receipt.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/bench/groups_bench.py", "--rows", "3000", "--groups", "300", "--dim", "8", "--queries", "6",
         "--no-peers", "--out", receipt], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(receipt.read_text())["rows"]
    assert [row["family"] for row in rows] == ["unequal"] * 2 + ["half"] * 2
    for plain, groups in (rows[:2], rows[2:]):
        assert groups["recall"] == 1 > plain["recall"]


def test_the_memories_of_the_benchmark_are_those_of_all_rows(tmp_path):
    receipt = tmp_path / "receipt.json"
    done = subprocess.run(
        [sys.executable, ROOT / "tests/bench/memory_bench.py", "--rows", "3000", "--dim", "8", "--queries", "6", "--no-peers",
         "--out", receipt], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(receipt.read_text())["rows"]
    assert [row["family"] for row in rows] == ["balanced"] * 2 + ["strong"] * 2
    for plain, terms in (rows[:2], rows[2:]):
        assert terms["recall"] == 1 > plain["recall"]

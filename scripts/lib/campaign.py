"""Functions shared by the campaigns that run benchmarks (all except mutation_campaign): command line,
running a benchmark, description of the machine, receipt (the JSON file of the results)."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build/bench/bin"
RECEIPTS = ROOT / "tests/bench/receipts"
RESULT_PREFIX = "NEARFIELD_BENCH_JSON "
NOT_INSTALLED = 3  # exit code of a peer without its library or a GPU

Row = dict[str, Any]
Facts = dict[str, Any]


def parser_of(description: str | None, receipt: str) -> argparse.ArgumentParser:
    """Returns a parser with the options of every campaign."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help=f"receipt to write; default tests/bench/receipts/{receipt}.json")
    parser.add_argument("--log", type=Path, help="file for all output of the programs")
    parser.add_argument("--commit", default="", help="commit to record if the tree is not a git checkout")
    return parser


def add_torch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", default="python3", help="the interpreter that has PyTorch")
    parser.add_argument("--no-torch", action="store_true", help="omit the peers that need PyTorch")


def add_search_peer_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a campaign that calls `run_search_peers`."""
    add_torch_options(parser)
    parser.add_argument("--cuvs", metavar="DIR", help="the folder of libcuvs_c.so and what it needs besides CUDA's libraries; "
                        "default: where pip installed it")


def output_of(*command: str) -> str:
    """Returns the standard output of a command, or "" if it cannot run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit_of(given: str, *options: str) -> str:
    """Returns the commit of this checkout, unless one is given."""
    return given or output_of("git", "-C", str(ROOT), "rev-parse", *options, "HEAD") or "unknown"


def command_line() -> str:
    """Returns the command that runs this campaign."""
    program = Path(sys.argv[0]).resolve()
    shown = program.relative_to(ROOT) if program.is_relative_to(ROOT) else program.name
    return f"{shown} " + " ".join(sys.argv[1:])


def machine() -> Facts:
    """Returns the processor and the kernel of this machine."""
    return {"cpu": cpu_name(), "cores": os.cpu_count(), "kernel": platform.release()}


def cpu_name() -> str:
    """Returns the model name of the first core."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return found.group(1) if found else platform.machine()


def environment(commit: str) -> Facts:
    """Returns the conditions of a measurement on the GPU. The owner of a card who locked its clocks
    sets NEARFIELD_CLOCKS_LOCKED=1."""
    query = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    gpu = [part.strip() for part in query[0].split(",")] if query else ["none", ""]
    return {
        "commit": commit_of(commit),
        "gpu": gpu[0],
        "driver": gpu[1],
        "clocks_locked": os.environ.get("NEARFIELD_CLOCKS_LOCKED") == "1",
        **machine(),
    }


def run(command: list[str], log: list[str]) -> tuple[int, list[Row]]:
    """Runs a benchmark, echoes it, and returns its exit code and its rows."""
    print("+ " + " ".join(command), flush=True)
    log.append("+ " + " ".join(command))
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.append(line.rstrip("\n"))
            if line.startswith(RESULT_PREFIX):
                rows.append(json.loads(line[len(RESULT_PREFIX) :]))
            else:
                print(line, end="", flush=True)
    return process.returncode, rows


def search_peer_command(arguments: argparse.Namespace, peer: str) -> list[str]:
    """Returns the command that times a peer, without its grid."""
    command = [arguments.python, str(ROOT / "tests/bench/search_peer.py"), f"--peer={peer}"]
    return [*command, f"--cuvs={arguments.cuvs}"] if peer.startswith("cuvs") and arguments.cuvs else command


def run_search_peers(arguments: argparse.Namespace, peers: tuple[str, ...], grids: list[list[str]], log: list[str]) -> list[Row]:
    """Times the search of other libraries over grids (options of search_peer.py). Leaves out
    a library that is not installed; search_peer.py prints why."""
    rows: list[Row] = []
    for peer in peers:
        for grid in grids:
            code, more = run([*search_peer_command(arguments, peer), *grid], log)
            rows += more
            if code == NOT_INSTALLED:
                break
    return rows


def wins(rows: list[Row], peer: str) -> list[str]:
    """Returns a line that compares the rows with a peer; none if the peer was not timed."""
    ratios = [row["peers_us"][peer] / row["us"] for row in rows if peer in row["peers_us"]]
    if not ratios:
        return []
    return [f"GPU faster than {peer} in {sum(ratio > 1 for ratio in ratios)} of {len(ratios)} configurations: "
            f"{min(ratios):.2f} times at worst, {statistics.geometric_mean(ratios):.2f} in the geometric mean"]


def cell(value: float | None, width: int, digits: int = 1) -> str:
    """Formats a number of a table; "-" if there is none."""
    return f"{value:>{width}.{digits}f}" if value is not None else "-".rjust(width)


def receipt_path(bench: str, facts: Facts) -> Path:
    """Returns the path of a benchmark's receipt, named after the device."""
    device = facts["gpu"] if facts["gpu"] != "none" else "cpu"
    return RECEIPTS / f"{bench}_{re.sub(r'[^A-Za-z0-9]+', '_', device).strip('_').lower()}.json"


def write_receipt(out: Path, receipt: Row, rows: list[Row]) -> None:
    """Writes a receipt with one row per line."""
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    out.write_text(f'{json.dumps(receipt, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def finish(arguments: argparse.Namespace, out: Path, facts: Facts, rows: list[Row], log: list[str], table: str) -> None:
    """Writes the receipt if there are rows, and the log if it is wanted; prints the table."""
    if rows:
        write_receipt(out, {"command": command_line(), **facts}, rows)
    if arguments.log:
        arguments.log.write_text("\n".join(log) + "\n", encoding="utf-8")
    print(table)
    print(f"receipt: {out}" if rows else "no rows: nothing written")


def finish_on_gpu(arguments: argparse.Namespace, bench: str, rows: list[Row], log: list[str], table: str) -> None:
    """Finishes a campaign whose receipt names the GPU."""
    facts = environment(arguments.commit)
    finish(arguments, arguments.out or receipt_path(bench, facts), facts, rows, log, table)

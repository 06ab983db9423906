#!/usr/bin/env python3
"""Runs the demo: a real server, the real command, a real corpus. Called by scripts/demo, which
builds the programs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from server import ServerEnded, ServerProcess

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
COLLECTION = "packages"
NEIGHBORS = 5
NEIGHBORS_SHOWN = 3
# Questions printed without --all: different fields, with answers that a reader can judge quickly.
SHOWN = (0, 3, 11, 20, 26, 33)


class DemoError(Exception):
    """An error, with a message for the user of the demo."""


class Paint:
    """Colors on a terminal, plain text elsewhere."""

    def __init__(self) -> None:
        self.on = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def __call__(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text


@dataclasses.dataclass
class Answer:
    neighbors: list[dict[str, object]]
    verified: bool
    total_us: int
    backend: str


class Command:
    """The nearfield command, connected to one server."""

    def __init__(self, program: pathlib.Path, target: str) -> None:
        self.program = program
        self.target = target

    def line(self, *arguments: str) -> list[str]:
        return [str(self.program), "--address", self.target, *arguments]

    def run(self, *arguments: str, accepted: tuple[int, ...] = (0,)) -> str:
        ran = subprocess.run(self.line(*arguments), capture_output=True, text=True, check=False)
        if ran.returncode not in accepted:
            raise DemoError(f"nearfield {' '.join(arguments)}: exit code {ran.returncode}: {ran.stderr.strip()}")
        return ran.stdout

    def search_all(self) -> list[Answer]:
        """Sends every query of the file in a separate request, and verifies each answer with the
        oracle."""
        # Exit code 1 means that an answer differed from the oracle's; the replies show which one.
        lines = self.run("search", COLLECTION, "--queries", str(DATA / "queries.f32.npy"), "--batch", "1", "-k", str(NEIGHBORS),
                         "--payload", "--explain", "--verify", "--json", accepted=(0, 1)).splitlines()
        replies = [json.loads(line) for line in lines]
        return [Answer(reply["neighbors"], reply["verified"], reply["cost"]["total_us"], reply["cost"]["backend"])
                for reply in replies]


@contextlib.contextmanager
def running_server(programs: pathlib.Path, backend: str, keep: bool) -> Iterator[tuple[Command, int]]:
    """Runs a server on a free loopback port. Stops it at the end and checks its exit code."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="nearfield-demo-"))
    server = ServerProcess(
        [str(programs / "nearfield-server"), "--listen", "127.0.0.1:0", "--log-level", "info", "--backend", backend,
         "--data-dir", str(folder / "data")],
        folder / "log", new_session=True)  # fmt: skip
    done = False
    try:
        yield Command(programs / "nearfield", server.wait_ready()), server.process.pid
        done = True
    except (ServerEnded, TimeoutError) as error:
        raise DemoError(str(error)) from error
    finally:
        if not (keep and done):
            code = server.terminate()
            if done and code != 0:
                raise DemoError(f"the server did not drain: exit code {code}\n{server.log_end()}")
            shutil.rmtree(folder)


def device(command: Command) -> str:
    capacity = json.loads(command.run("capacity", "--json"))
    return f"{capacity['backend']} backend on {capacity['device_name']}"


def load(command: Command) -> tuple[str, str]:
    """Loads the corpus. Returns the line that reports it, and the searches to try."""
    summary, _, searches = command.run("demo").partition("\n")
    return summary, searches


def show(paint: Paint, question: str, answer: Answer) -> None:
    verdict = paint("32", "verified") if answer.verified else paint("31;1", "NOT VERIFIED")
    print(f"\n{paint('1', question)}   {paint('2', f'{answer.total_us / 1000:.2f} ms')}   {verdict}")
    width = max(20, shutil.get_terminal_size((100, 24)).columns - 38)
    for neighbor in answer.neighbors[:NEIGHBORS_SHOWN]:
        payload = neighbor.get("payload")
        summary = str(payload.get("summary", "")) if isinstance(payload, dict) else ""
        name = f"{str(neighbor['id']):<24.24}"
        print(f"  {paint('36', name)} {neighbor['score']:.4f}  {summary[:width]}")


def ask_all(paint: Paint, command: Command, everything: bool) -> list[Answer]:
    questions = json.loads((DATA / "queries.json").read_text(encoding="utf-8"))
    answers = command.search_all()
    if len(answers) != len(questions):
        raise DemoError(f"{len(questions)} questions, but {len(answers)} answers")
    for place, (question, answer) in enumerate(zip(questions, answers)):
        if everything or place in SHOWN or not answer.verified:
            show(paint, question, answer)
    return answers


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    paint = Paint()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with running_server(arguments.programs, arguments.backend, arguments.keep) as (command, pid):
            print(f"server on {command.target}: self-test passed, {device(command)}")
            summary, searches = load(command)
            print(summary)
            answers = ask_all(paint, command, arguments.all)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    verified = sum(answer.verified for answer in answers)
    median_ms = statistics.median(answer.total_us for answer in answers) / 1000
    print(
        f"\n{verified} of {len(answers)} answers verified against the oracle, bit for bit; served by the "
        f"{answers[0].backend.upper()}, median {median_ms:.2f} ms in the server"
    )
    if arguments.keep:
        print(f"{searches}\nThe server is still running. To stop it:\n  kill {pid}")
    return 0 if verified == len(answers) else 1


if __name__ == "__main__":
    sys.exit(main())

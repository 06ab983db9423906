"""Server and clients of scripts/devices_campaign: a server on several devices, and commands that
upload, delete and search until the server is killed."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from kill_model import Answer, Array, Batch, Change, Model, Problem, make_queries, make_rows
from server import ServerProcess

COLLECTION = "rows"
UPLOADERS, SEARCHERS = 4, 3
UPLOADS_OF_DELETION = 3  # acknowledged uploads before the next deletion
LOAD_SECONDS_MAX = 120


@dataclasses.dataclass(frozen=True)
class Setup:
    """The values that all lives of the server share."""

    server: Path
    cli: Path
    folder: Path
    server_arguments: list[str]
    seed: int
    dim: int
    upload_rows_max: int
    queries: Array
    k: int

    @property
    def query_file(self) -> Path:
        return self.folder / "queries.npy"


def make_setup(arguments: Any, folder: Path, k: int, queries_count: int) -> Setup:
    """Returns the setup of a campaign, and writes the queries to its file."""
    options = ["--backend", arguments.backend, "--memory-bytes", arguments.memory_bytes, *arguments.server_arguments]
    queries = make_queries(arguments.seed, queries_count, arguments.dim)
    setup = Setup(arguments.server.resolve(), arguments.cli.resolve(), folder, options, arguments.seed, arguments.dim,
                  arguments.upload_rows, queries, k)
    np.save(setup.query_file, queries)
    (folder / "logs").mkdir()
    return setup


class Server(ServerProcess):
    """A durable server on some devices that serves."""

    lives = 0

    def __init__(self, setup: Setup, devices: str) -> None:
        Server.lives += 1
        begin = time.monotonic()
        super().__init__(
            [str(setup.server), "--listen", "127.0.0.1:0", "--ops-listen", "none", "--http-listen", "none", "--log-format", "json", "--devices", devices,
             "--data-dir", str(setup.folder / "data"), *setup.server_arguments],
            setup.folder / "logs" / f"server-{Server.lives}.log")  # fmt: skip
        self.address = self.wait_ready()
        self.ready_seconds = time.monotonic() - begin


@dataclasses.dataclass(frozen=True)
class Done:
    """A command that ended: exit code, lines of JSON, messages."""

    code: int
    lines: list[dict[str, Any]]
    messages: str


class Commands:
    """Runs the `nearfield` command against one server, until all commands are killed."""

    def __init__(self, setup: Setup, server: Server) -> None:
        self.start = [str(setup.cli), "--json", "--address", server.address]
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen[str]] = set()
        self.ended = False

    def run(self, *arguments: str) -> Done:
        with self.lock:
            if self.ended:
                return Done(-9, [], "")
            process = subprocess.Popen([*self.start, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)  # fmt: skip
            self.running.add(process)
        out, messages = process.communicate()
        with self.lock:
            self.running.discard(process)
        whole = [line for line in out.splitlines(keepends=True) if line.endswith("\n")]
        return Done(process.returncode, [json.loads(line) for line in whole], messages)

    def must(self, *arguments: str) -> list[dict[str, Any]]:
        """Runs a command that must succeed, and returns its lines."""
        done = self.run(*arguments)
        if done.code != 0:
            raise RuntimeError(f"nearfield {' '.join(arguments)} ended with {done.code}: {done.messages}")
        return done.lines

    def kill_all(self) -> None:
        with self.lock:
            self.ended = True
            for process in self.running:
                process.kill()


def upload_files(setup: Setup, number: int) -> tuple[Path, Path]:
    return setup.folder / f"rows-{number}.npy", setup.folder / f"ids-{number}.npy"


def make_upload(setup: Setup, number: int, rows_count: int, token: str = "") -> Change:
    """Draws a batch and writes its files."""
    batch = Batch(number, make_rows(setup.seed, number, rows_count, setup.dim), setup.queries, setup.k)
    assert batch.rows is not None
    write_upload(setup, number, batch.rows, batch.ids)
    return Change(batch, token=token)


def write_upload(setup: Setup, number: int, rows: Array, ids: Array) -> None:
    for path, array in zip(upload_files(setup, number), (rows, ids)):
        np.save(path, array)


def send_upload(setup: Setup, commands: Commands, change: Change, mode: str = "insert") -> Done:
    rows, ids = upload_files(setup, change.batch.number)
    token = ["--token", change.token] if change.token else []
    return commands.run("upload", COLLECTION, str(rows), "--ids", str(ids), "--mode", mode, *token)


def forget_files(setup: Setup, number: int) -> None:
    for path in upload_files(setup, number):
        path.unlink(missing_ok=True)


def send_removal(setup: Setup, commands: Commands, change: Change, ids: Array | None = None) -> Done:
    """Deletes the rows of a batch, or only these ids."""
    path = setup.folder / f"delete-{change.batch.number}.npy"
    np.save(path, change.batch.ids if ids is None else ids)
    return commands.run("delete", COLLECTION, "--ids", str(path))


def answer_of(line: dict[str, Any]) -> Answer:
    """Returns (id, score bits) of a line of `nearfield search --json`, which names every bit."""
    return [(each["id"], int(np.float32(each["score"]).view(np.uint32))) for each in line["neighbors"]]


class Load:
    """The clients of one life of a server, from their start to the kill."""

    def __init__(self, setup: Setup, model: Model, server: Server, next_number: int) -> None:
        self.setup, self.model, self.server = setup, model, server
        self.commands = Commands(setup, server)
        self.next_number = next_number
        self.changed = threading.Condition()
        self.uploads = self.deletions = 0  # acknowledged
        self.rows_acknowledged = 0
        self.killing = False
        self.problems: list[Problem] = []
        self.replies: list[tuple[int, int, Answer]] = []  # epoch, query, answer

    def run(self, seed: list[int], uploads: int, delay_s: float) -> None:
        """Runs all clients, and kills the server `delay_s` after this number of acknowledged
        uploads."""
        jobs = [self._upload] * UPLOADERS + [self._delete] + [self._search] * SEARCHERS
        threads = [threading.Thread(target=self._guard, args=(job, np.random.default_rng([*seed, at]))) for at, job in enumerate(jobs)]
        for thread in threads:
            thread.start()
        with self.changed:
            reached = self.changed.wait_for(lambda: self.uploads >= uploads or self.problems, LOAD_SECONDS_MAX)
            # The moment of the kill is random: it lies anywhere in the uploads that follow.
            self.changed.wait_for(lambda: bool(self.problems), delay_s)
            if not reached:
                self.problems.append(Problem("wrong", None, f"no {uploads} uploads in {LOAD_SECONDS_MAX} s"))
            self.killing = True
            self.changed.notify_all()
        code = self.server.kill()
        self.commands.kill_all()
        for thread in threads:
            thread.join()
        if code != -9:
            self.problems.append(Problem("wrong", None, f"the server ended with {code}: {self.server.log_end()}"))

    def _guard(self, job: Any, rng: np.random.Generator) -> None:
        try:
            while not self.killing and job(rng):
                pass
        except Exception as error:  # noqa: BLE001: reported as a problem
            self._fail(f"a client failed: {error!r}")

    def _fail(self, text: str) -> None:
        with self.changed:
            self.problems.append(Problem("wrong", None, text))
            self.changed.notify_all()

    def _settle(self, change: Change, done: Done) -> bool:
        """Records an acknowledged change. Returns False if there is no acknowledgment, which only
        the kill explains."""
        if not done.lines:
            if not self.killing:
                self._fail(f"a change failed with {done.code}: {done.messages}")
            return False
        self.model.acknowledge(change, done.lines[-1]["epoch"])
        with self.changed:
            self.uploads += not change.removes
            self.deletions += change.removes
            self.rows_acknowledged += 0 if change.removes else len(change.batch.ids)
            self.changed.notify_all()
        return True

    def _upload(self, rng: np.random.Generator) -> bool:
        with self.changed:
            number, self.next_number = self.next_number, self.next_number + 1
        rows_count = int(rng.integers(self.setup.upload_rows_max // 10, self.setup.upload_rows_max + 1))
        change = make_upload(self.setup, number, rows_count, f"upload-{number}" if number % 2 else "")
        self.model.begin(change)
        acknowledged = self._settle(change, send_upload(self.setup, self.commands, change))
        if acknowledged:
            forget_files(self.setup, number)
        return acknowledged

    def _delete(self, rng: np.random.Generator) -> bool:
        with self.changed:
            self.changed.wait_for(lambda: self.killing or self.problems or self.uploads >= UPLOADS_OF_DELETION * (self.deletions + 1))
        change = None if self.killing or self.problems else self.model.begin_removal(rng)
        if change is None:
            return False
        return self._settle(change, send_removal(self.setup, self.commands, change))

    def _search(self, rng: np.random.Generator) -> bool:
        """Searches with all queries, or with one of them."""
        one = ["--row", str(rng.integers(len(self.setup.queries)))] if rng.integers(2) else []
        done = self.commands.run("search", COLLECTION, "-q", str(self.setup.query_file), "-k", str(self.setup.k), *one)
        if done.code != 0:
            if not self.killing:
                self._fail(f"a search failed with {done.code}: {done.messages}")
            return False
        self.replies += [(line["epoch"], line["query"], answer_of(line)) for line in done.lines]
        return True

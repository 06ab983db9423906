"""A real server under mixed load with faults, for as long as --soak-minutes says: searches of every
kind, uploads of every mode, deletions, compactions, snapshots, scans, verifications, scrapes,
reloads of keys, clients that are killed, do not read, or connect and leave; the server is killed and
stopped several times. Every answer must be that of the model, every error one that the contract
explains, and memory, descriptors and threads of the server flat. `scripts/soak` runs it for half an
hour and writes the receipt.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
import pytest
from calls import Api
from conftest import ROOT, free_port
from crash_model import DIM
from soak_reader import CALL_S, Reader
from test_crash import Campaign, Died, Finding, Maintainer, work  # noqa: F401: a fixture

LIVES = 6  # of the server in one run
READERS = 3
SAMPLE_S = 1
TREND_S_MIN = 120  # of a life in which a trend can be distinguished from noise
KEPT_EPOCHS = 200  # of the model, for answers that are checked late
SNAPSHOTS_KEPT = 8
# A busy server may answer so to a correct call.
EXPLAINED = {grpc.StatusCode.RESOURCE_EXHAUSTED: "a limit", grpc.StatusCode.FAILED_PRECONDITION: "an epoch that is not kept"}


class WithKey(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Adds an API key to every call."""

    def __init__(self, key: str) -> None:
        self.metadata = [("authorization", f"Bearer {key}")]

    def _call(self, continuation, details, request):
        return continuation(details._replace(metadata=[*(details.metadata or []), *self.metadata]), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _call


@dataclass
class Sample:
    """The resources that the server process holds."""

    at_s: float
    rss_mib: float
    descriptors: int
    threads: int

    @staticmethod
    def of(pid: int) -> Sample:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return Sample(time.monotonic(), int(status["VmRSS"].split()[0]) / 1024, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()), int(status["Threads"]))


def growth(samples: list[Sample], field: str) -> float:
    """Returns by how much the field grows over the last two thirds of a life, by its linear trend."""
    part = samples[len(samples) // 3:]
    times = np.array([sample.at_s for sample in part])
    values = np.array([getattr(sample, field) for sample in part], dtype=float)
    return float(np.polyfit(times - times[0], values, 1)[0] * (times[-1] - times[0]))


class Keeper(Maintainer):
    """As Maintainer, but deletes old snapshots also under load."""

    def step(self, api: Api) -> None:
        super().step(api)
        if len(self.snapshots) > SNAPSHOTS_KEPT:
            self.prune(api)


class Disturber:
    """Clients that do not behave, an operator who changes keys, and a monitor."""

    def __init__(self, soak: Soak, seed) -> None:
        self.soak = soak
        self.rng = np.random.default_rng(seed)
        self.acked = 0

    def step(self, api: Api) -> None:
        getattr(self, str(self.rng.choice(["kill_client", "never_read", "churn", "reload", "scrape"])))(api)
        self.acked += 1

    def kill_client(self, api: Api) -> None:
        """An upload whose process is killed at a random time. Its collection is not checked."""
        data = ROOT / "scripts/data/packages.fp16.npy"
        with subprocess.Popen([self.soak.cli, "--address", api.server.address, "--token-file", self.soak.token_file, "upload", "scrap", data,
                               "--create", "--if-missing", "--mode", "upsert", "--metric", "dot"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(float(self.rng.uniform(0, 0.5)))
            except subprocess.TimeoutExpired:
                process.kill()

    def never_read(self, api: Api) -> None:
        search = api.pb.SearchRequest(collection="numbers", queries=[api.query(np.ones(DIM))], k=1)
        calls = [api.server.retrieval.SearchAll(api.pb.SearchAllRequest(search=search), timeout=CALL_S) for _ in range(4)]
        next(calls[0], None)
        for call in calls:
            call.cancel()

    def churn(self, api: Api) -> None:
        host, port = api.server.address.split(":")
        for number in range(20):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall((b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", bytes(64))[number % 4])

    def reload(self, api: Api) -> None:
        """A key is created, works, is revoked, and works no longer; the key of the others stays."""
        made = subprocess.run([self.soak.cli, "keys", "create", "guest", "--scopes", "read"], env=self.soak.key_environment,
                              capture_output=True, text=True, check=True).stdout.strip()
        self.await_keys(api, made, grpc.StatusCode.OK)
        subprocess.run([self.soak.cli, "keys", "revoke", made.split("_")[1]], env=self.soak.key_environment, capture_output=True, check=True)
        self.await_keys(api, made, grpc.StatusCode.UNAUTHENTICATED)

    def await_keys(self, api: Api, key: str, code: grpc.StatusCode) -> None:
        api.server.process.send_signal(signal.SIGHUP)
        count = api.pb.RetrievalStub(grpc.intercept_channel(api.server.channel, WithKey(key))).Count
        found = None
        while found != code:
            try:
                count(api.pb.CountRequest(collection="numbers"), timeout=CALL_S)
                found = grpc.StatusCode.OK
            except grpc.RpcError as error:
                found = error.code()
                if found not in (grpc.StatusCode.UNAUTHENTICATED, code):
                    raise

    def scrape(self, api: Api) -> None:
        for path in ("metrics", "readyz", "livez"):
            try:
                with urllib.request.urlopen(f"http://{self.soak.ops}/{path}", timeout=CALL_S) as reply:
                    assert reply.status == 200, path
                    reply.read()
            except (OSError, http.client.HTTPException) as error:  # no reply, or part of one
                api.server.process.wait(timeout=10)  # it must have died
                raise Died from error


class Soak(Campaign):
    """The lives of a server, each with a key file, an operations port and samples of what it holds."""

    def __init__(self, program: str, cli: str, folder: Path, seed: int) -> None:
        self.cli = str(Path(cli).resolve())
        self.ops = f"127.0.0.1:{free_port()}"
        self.token_file = folder / "token"
        keys = folder / "keys.json"
        self.key_environment = {**os.environ, "NEARFIELD_KEY_FILE": str(keys)}
        made = subprocess.run([self.cli, "keys", "create", "operator", "--scopes", "search,read,write,admin"], env=self.key_environment,
                              capture_output=True, text=True, check=True).stdout
        self.token_file.write_text(made)
        self.key = made.strip()
        self.arguments = ("--key-file", str(keys), "--ops-listen", self.ops, "--audit-one-in", "1", "--audit-cpu-percent", "20",
                          "--scrub-interval-s", "30")
        self.explained: Counter = Counter()
        super().__init__(program, folder / "lives", seed)
        seeds = np.random.SeedSequence(seed + 1).spawn(READERS + 2)
        self.readers = [Reader(self.actors, each) for each in seeds[2:]]
        self.maintainer = Keeper(self.actors, self.root / "snapshots", seeds[1])
        self.disturber = Disturber(self, seeds[0])
        self.growths: list[dict[str, float]] = []
        self.scrap_seen = False  # whether the killed uploads have created their collection

    def start(self, faults: dict[str, str] | None, data: Path | None = None) -> Api:
        api = super().start(faults, data)
        channel = grpc.intercept_channel(api.server.channel, WithKey(self.key))
        api.server.retrieval, api.server.ingest = api.pb.RetrievalStub(channel), api.pb.IngestStub(channel)
        api.server.admin = api.pb.AdminStub(channel)
        return api

    def loaded_life(self, seconds: float, say: Callable[[list[Sample]], None]) -> None:
        """Runs one server under load, and kills it."""
        api = self.start(None)
        ending = threading.Event()
        findings: list[Exception] = []
        samples: list[Sample] = []

        def run(client) -> None:
            while not ending.is_set() and not findings:
                try:
                    with self.until_death(api):
                        client.step(api)
                except Died:
                    if not ending.is_set():
                        findings.append(Finding("wrong", f"the server died: {api.server.log.read_text()[-2000:]}"))
                    return
                except Finding as finding:
                    cause = finding.__cause__
                    code = cause.code() if isinstance(cause, grpc.RpcError) else None
                    # Only readers have calls that a busy server may refuse without a change of the model.
                    if code in EXPLAINED and isinstance(client, Reader):
                        self.explained[code.name] += 1
                    else:
                        findings.append(finding)
                except Exception as error:  # noqa: BLE001: raised again below
                    findings.append(error)

        try:
            self.check(api)
            self.maintainer.prune(api)
            clients = [*self.actors, self.maintainer, *self.readers, self.disturber]
            threads = [threading.Thread(target=run, args=(client,)) for client in clients]
            for thread in threads:
                thread.start()
            end = time.monotonic() + seconds
            while time.monotonic() < end and not findings:
                samples.append(Sample.of(api.server.process.pid))
                say(samples)
                self.forget()
                ending.wait(SAMPLE_S)
            ending.set()
            api.server.process.kill()
            for thread in threads:
                thread.join()
        finally:
            self.end(api)
        if findings:
            raise findings[0]
        self.growths.append({field: growth(samples, field) for field in ("rss_mib", "descriptors", "threads")}
                            | {"seconds": samples[-1].at_s - samples[0].at_s, "rss_mib_last": samples[-1].rss_mib})

    def forget(self) -> None:
        """Drops states of the model that no check needs any more."""
        for actor in self.actors:
            needed = [epochs[actor.name] for epochs in list(self.maintainer.snapshots.values())]
            for epoch in [each for each in list(actor.history) if each < actor.state.epoch - KEPT_EPOCHS]:
                if not any(first <= epoch <= last for first, last in needed):
                    del actor.history[epoch]

    def rest(self) -> None:
        """Starts a server without load, checks everything, and stops it."""
        api = self.start(None)
        self.check(api)
        for reader in self.readers:
            reader.settle()
        counters = api.server.admin.GetCounters(api.pb.GetCountersRequest(), timeout=CALL_S)
        assert counters.audit.mismatches_count == 0
        names = {info.name for info in api.server.admin.ListCollections(api.pb.ListCollectionsRequest(), timeout=CALL_S).collections}
        self.scrap_seen = self.scrap_seen or "scrap" in names
        assert api.server.terminate() == 0, api.server.log_end()
        api.server.channel.close()
        self.restore()


def assert_flat(growths: list[dict[str, float]]) -> None:
    for life in growths:
        if life["seconds"] < TREND_S_MIN:
            continue
        assert life["rss_mib"] < 16 + 0.05 * life["rss_mib_last"], life
        assert life["descriptors"] < 16 and life["threads"] < 8, life


@pytest.mark.parametrize("field, leak", [("rss_mib", 40.0), ("descriptors", 30.0), ("threads", 12.0)])
def test_a_leak_differs_from_noise(rng, field, leak):
    def grown(by: float) -> dict[str, float]:
        samples = [Sample(float(at), 300.0, 100, 60) for at in range(300)]
        for sample in samples:
            setattr(sample, field, getattr(sample, field) + by * sample.at_s / 200 + float(rng.normal(0, 3)))
        return {name: growth(samples, name) for name in ("rss_mib", "descriptors", "threads")} | {"seconds": 300, "rss_mib_last": 300}

    assert_flat([grown(0)])
    with pytest.raises(AssertionError):
        assert_flat([grown(leak)])


def test_mixed_load_with_faults_leaves_right_answers_and_flat_memory(request, work, capsys):  # noqa: F811
    option = request.config.getoption
    soak = Soak(option("--server"), option("--cli"), work, option("--seed"))
    minutes = option("--soak-minutes")
    begin = time.monotonic()
    shown = 0

    def say(samples: list[Sample]) -> None:
        nonlocal shown
        if time.monotonic() - begin < 60 * (shown + 1):
            return
        shown += 1
        last = samples[-1]
        with capsys.disabled():
            print(f"\nminute {shown}: {soak.lives} starts, {soak.acked} changes, {sum(each.acked for each in soak.readers)} answers, "
                  f"{soak.disturber.acked} disturbances, {soak.restored} restores, refused {dict(soak.explained)}; "
                  f"{last.rss_mib:.0f} MiB, {last.descriptors} descriptors, {last.threads} threads", end="", flush=True)

    for _ in range(LIVES):
        soak.loaded_life(60 * minutes / LIVES, say)
        soak.rest()
    answers = sum(each.acked for each in soak.readers)
    figures = {"bench": "soak", "minutes": round((time.monotonic() - begin) / 60, 1), "starts": soak.lives, "changes": soak.acked,
               "answers": answers, "disturbances": soak.disturber.acked, "restores": soak.restored, "refused": dict(soak.explained),
               "unexplained": 0, "lives": [{name: round(value, 1) for name, value in life.items()} for life in soak.growths]}
    with capsys.disabled():
        print(f"\n{json.dumps(figures)}")
    assert_flat(soak.growths)
    assert soak.acked > LIVES and answers > LIVES and soak.scrap_seen
    if path := option("--soak-receipt"):
        path.write_text(json.dumps(figures))

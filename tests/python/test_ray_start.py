"""The command of a cluster: its start, a second start, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nearfield
import pytest

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")

from nearfield.ray import Client  # noqa: E402
from nearfield.ray.__main__ import parse  # noqa: E402
from nearfield.ray._slot import NAMESPACE  # noqa: E402
from ray_model import DIM, SETTINGS, Model, Reader, Writer, free_range  # noqa: E402

SECONDS_MAX = 120


class Command:
    """A process of the command, and the lines that it has printed."""

    def __init__(self, address: str, storage: Path, *arguments: str) -> None:
        self.lines: list[str] = []
        self._ended = False
        self._printed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nearfield.ray", "--storage", str(storage), *arguments], env={**os.environ, "RAY_ADDRESS": address},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._printed:
                self.lines.append(line.strip())
                self._printed.notify_all()
        with self._printed:
            self._ended = True
            self._printed.notify_all()

    def line(self, part: str) -> str:
        """Waits for a line with this part; returns it."""

        def found() -> list[str]:
            return [line for line in self.lines if part in line]

        with self._printed:
            self._printed.wait_for(lambda: found() or self._ended, SECONDS_MAX)
            assert found(), "\n".join(self.lines)
            return found()[0]

    def end(self, number: int | None = None) -> int:
        """Waits for the end of the process, after a signal if one is given; returns the exit code."""
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(SECONDS_MAX)


@pytest.fixture
def command(local_ray, tmp_path) -> Iterator[Any]:
    """Starts the command with the storage of the test."""
    made: list[Command] = []

    def start(*arguments: str) -> Command:
        made.append(Command(local_ray, tmp_path / "storage", *arguments))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()


def start_arguments(request: Any, *arguments: str) -> list[str]:
    settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    return ["start", "--num-cpus=0.1", f"--program={request.config.getoption('--server')}", *settings, *arguments]


def actors() -> list[str]:
    """Returns the names of the actors of clusters: other tests leave some of Ray Data."""
    named = ray.util.list_named_actors(all_namespaces=True)
    return [each["name"] for each in named if each["namespace"] == NAMESPACE]


def test_a_second_start_changes_nothing_and_stop_ends_the_cluster(command, request, tmp_path):
    """A second start ignored its other arguments without a line, and its Ctrl-C ended the cluster for all. After `kill -9`
    of the first one only Python could end the cluster. Then it can be started again, with its rows."""
    first = command(*start_arguments(request))
    first.line("ready, ")
    second = command(*start_arguments(request, "--replicas=2", "--set=k_max=77"))
    third = command(*start_arguments(request))
    line = second.line("not applied")
    assert line.endswith("'nearfield' runs already; not applied: replicas 2 (it has 1), k_max 77 (it has None)")
    assert "of a cluster that ran already" in second.line("ready, ")
    third.line("ready, ")
    with Client(str(tmp_path / "storage")) as client:
        before = client.status()
        assert second.end(signal.SIGINT) == 0
        assert first.process.poll() is None
        client.create_collection("docs", 2, metric="dot").upload([[1, 0]], ids=[7])
        first.end(signal.SIGKILL)
        after = client.status()
        assert (before["pid"], before["servers"][0]["pid"]) == (after["pid"], after["servers"][0]["pid"])
        stop = command("stop")
        assert stop.end() == 0 and not stop.lines
        third.line("the cluster was stopped")
        assert third.end() == 0 and not actors()
        with pytest.raises(nearfield.Unavailable):
            client.status(timeout=1)
        again = command(*start_arguments(request))
        again.line("ready, ")
        assert client.collection("docs").fetch([7]).ids.tolist() == [7]
    assert again.end(signal.SIGINT) == 0 and not actors()


def test_a_start_that_waits_ends_with_its_signal(command, request):
    """It dumped a native stack trace, and its actors stayed."""
    waiting = command(*start_arguments(request, "--num-cpus=9"))
    waiting.line("9 CPUs wanted, 4 in the cluster")
    assert waiting.end(signal.SIGTERM) == 0 and not actors()
    assert "Stack" not in "\n".join(waiting.lines)


def test_settings_change_while_searches_go_on(command, request, tmp_path, rng):
    """And a coordinator that Ray starts again keeps them."""
    first = command(*start_arguments(request, "--replicas=2"))
    first.line("ready, ")
    with Client(str(tmp_path / "storage")) as client:
        client.create_collection("docs", DIM, metric="dot")
        model = Model()
        Writer(client, model, rng).commit()
        reader = Reader(client, model, 1)
        reader.start()
        before = client.status()
        assert command("restart", "--set=k_max=20", "--set=threads=").end() == 0
        after = client.status()
        assert after["settings"] == {**{each: str(value) for each, value in before["settings"].items() if each != "threads"}, "k_max": "20"}
        with pytest.raises(nearfield.InvalidArgument, match="k = 21"):
            client.collection("docs").search([1] * DIM, k=21)
        refused = command("restart", "--set=k_mox=7")
        assert refused.end() == 1 and "k-mox: no such option" in refused.line("error: INVALID_ARGUMENT: settings: ")
        for wrong, reason in (({"k_max": 0}, 'k_max = "0"'), ({"data-dir": "x"}, "data_dir is set by the cluster")):
            with pytest.raises(nearfield.InvalidArgument, match=reason):
                client.restart(settings=wrong)
        assert [each["server_pid"] for each in client.status()["servers"]] == [each["server_pid"] for each in after["servers"]]
        assert reader.finish() > 5 and not reader.unavailable
        os.kill(after["pid"], signal.SIGKILL)
        for server in after["servers"]:
            os.kill(server["pid"], signal.SIGKILL)
        Writer(client, model, rng).commit()
        assert client.status()["settings"] == after["settings"]
        with pytest.raises(nearfield.InvalidArgument, match="k = 21"):
            client.collection("docs").search([1] * DIM, k=21, timeout=60)
    assert first.end(signal.SIGINT) == 0


def test_all_processes_listen_in_the_range(command, request, tmp_path):
    """They listened on random ports, so that no firewall rule but "all" let clients in. Each has its port again after
    its end."""
    ports = free_range(3)
    first = command(*start_arguments(request, "--shards=2", f"--ports={ports[0]}-{ports[-1]}"))
    coordinator = first.line("ready, ").rpartition(" ")[2]

    def addresses(client: Client) -> list[str]:
        return [server["address"] for server in client.status(timeout=60)["servers"]]

    with Client(str(tmp_path / "storage")) as client:
        before = addresses(client)
        assert {int(each.rpartition(":")[2]) for each in [coordinator, *before]} == set(ports)
        os.kill(client.status()["servers"][0]["server_pid"], signal.SIGKILL)
        os.kill(client.status()["pid"], signal.SIGKILL)
        client.create_collection("docs", 2, metric="dot", timeout=60)  # once all answer again
        assert addresses(client) == before
        assert ray.get(ray.get_actor("nearfield", "nearfield").address.remote()) == coordinator
    second = command(*start_arguments(request, f"--ports={ports[0]}-{ports[0]}", "--name=other"))
    second.line(f"not ready: UNAVAILABLE: ports: none of {ports[0]}-{ports[0]} is free at 127.0.0.1")
    assert second.end(signal.SIGINT) == 0 and first.end(signal.SIGINT) == 0


def test_a_setting_without_a_value_is_refused(capsys):
    for command in ("start", "restart"):
        with pytest.raises(SystemExit):
            parse(["--storage=/x", command, "--set", "k_max"])
        assert "argument --set: invalid setting value: 'k_max'" in capsys.readouterr().err

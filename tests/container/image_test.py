"""Tests of the images that scripts/container built: their configuration and files, and a server that
runs in their root file systems."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from images import ROOT, BuiltImage, variants

sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "tests" / "packages")]

import first_screen  # noqa: E402
from server import ServerProcess  # noqa: E402

VOLUME = "/var/lib/nearfield"
DRAIN_SECONDS_MAX = 40
# Why the server serves from the CPU.
NOTES = {
    "cpu": "no usable GPU: built without CUDA",
    "cuda": "no usable GPU: no NVIDIA driver found, or one too old for this build",
}


class Configuration(BuiltImage):
    """Tests of the configuration that a container engine reads, and of the files."""

    def test_the_user_is_numeric_and_not_root(self) -> None:
        self.assertEqual(self.config["User"], "65532:65532")

    def test_health_is_the_image_s_own_command(self) -> None:
        health = self.config["Healthcheck"]
        assert isinstance(health, dict)
        self.assertEqual(health["Test"], ["CMD", "nearfield", "health"])
        for key in ("Interval", "Timeout", "StartPeriod", "Retries"):
            self.assertGreater(health[key], 0, key)

    def test_one_volume_one_port_one_entry_point(self) -> None:
        self.assertEqual(list(self.config["Volumes"]), [VOLUME])
        self.assertEqual(list(self.config["ExposedPorts"]), ["50051/tcp"])
        self.assertEqual(self.config["Entrypoint"], ["nearfield-server"])
        self.assertFalse(self.config.get("Cmd"))

    def test_it_stops_by_the_signal_that_drains(self) -> None:
        self.assertIn(self.config["StopSignal"], ("SIGTERM", "15"))

    def test_the_labels_name_this_version(self) -> None:
        version = re.search(
            r"project\(nearfield VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        )
        assert version is not None
        labels = self.config["Labels"]
        assert isinstance(labels, dict)
        self.assertEqual(labels["org.opencontainers.image.version"], version.group(1))
        self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")

    def test_nothing_of_the_build_host_stayed(self) -> None:
        # The build mounts these from its host. Only an empty mount point may remain.
        self.assertEqual(list((self.root / "root/.cache/ccache").glob("*")), [])
        self.assertFalse((self.root / "etc/apt/apt.conf.d/99build-host").read_bytes())
        for path in ("src/CMakeLists.txt", "src/build/cuda/bin", "usr/bin/cmake", "usr/local/cuda/bin"):
            self.assertFalse((self.root / path).exists(), path)
        self.assertEqual(list((self.root / "var/lib/apt/lists").glob("*_Packages*")), [])
        self.assertFalse([entry for entry in self.config["Env"] if "proxy" in entry.lower()])

    def test_the_volume_belongs_to_the_user(self) -> None:
        owner = (self.root / VOLUME.lstrip("/")).stat()
        self.assertEqual((owner.st_uid, owner.st_gid), (65532, 65532))

    def test_the_toolkit_is_asked_for_the_driver(self) -> None:
        self.assertIn("NVIDIA_DRIVER_CAPABILITIES=compute,utility", self.config["Env"])


class Life(BuiltImage):
    """Tests of the server, from start to end, in the image's read-only root file system and as its
    user."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.volume = pathlib.Path(folder.name) / "volume"
        self.volume.mkdir()
        os.chown(self.volume, 65532, 65532)
        self.log = pathlib.Path(folder.name) / "log"
        self.user = str(self.config["User"])
        self.environment = dict(entry.split("=", 1) for entry in self.config["Env"])
        self.port = ""

    def line(self, *arguments: str) -> list[str]:
        enter = str(ROOT / "tests/container/enter")
        return [enter, str(self.root), self.user, str(self.volume), VOLUME, str(ROOT / "scripts/data"), *arguments]

    def start(self) -> ServerProcess:
        # The image listens on all addresses, and so does this server, on a free port. Tests connect
        # over loopback.
        environment = self.environment | {
            "NEARFIELD_LISTEN": "0.0.0.0:0",
            "NEARFIELD_PORT_FILE": f"{VOLUME}/port",
            "NEARFIELD_ALLOW_INSECURE": "true",
        }
        server = ServerProcess(self.line("nearfield-server"), self.log, environment)
        self.addCleanup(server.kill)
        return server

    def command(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        environment = self.environment | {"NEARFIELD_ADDRESS": f"127.0.0.1:{self.port}"}
        return subprocess.run(
            self.line("nearfield", *arguments),
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def checked(self, *arguments: str) -> str:
        ran = self.command(*arguments)
        self.assertEqual(ran.returncode, 0, f"{arguments}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def await_health(self, server: ServerProcess) -> None:
        server.wait_ready()
        self.port = (self.volume / "port").read_text().strip()
        self.checked("health")

    def test_it_starts_answers_and_drains(self) -> None:
        server = self.start()
        self.await_health(server)
        self.assertEqual(os.stat(f"/proc/{server.process.pid}").st_uid, 65532, "the server runs as another user")
        (ready,) = [entry for entry in map(json.loads, self.log.read_text().splitlines()) if entry["message"] == "engine ready"]
        self.assertEqual((ready["backend"], ready["note"]), ("cpu", NOTES[self.variant]))

        # The demo needs the corpus in the image.
        self.checked("demo")
        self.assertIn("chess", self.checked("demo", "play", "chess"))
        self.assertIn("5000", self.checked("count", "packages").replace(",", ""))
        answer = json.loads(
            self.checked("search", "packages", "--id", "gimp", "-k", "5", "--payload", "--verify", "--json")
        )
        self.assertTrue(answer["verified"])
        self.assertEqual(len(answer["neighbors"]), 5)

        begin = time.monotonic()
        self.assertEqual(server.terminate(DRAIN_SECONDS_MAX), 0, self.log.read_text())
        self.assertLess(time.monotonic() - begin, DRAIN_SECONDS_MAX)
        self.assertNotEqual(self.command("health").returncode, 0, "health must fail once the server is gone")

    def test_the_first_screen_of_the_readme_needs_no_network(self) -> None:
        ran = subprocess.run(
            self.line("sh", "-c", first_screen.script("nearfield-server --demo")),
            env=self.environment | {"NEARFIELD_NETWORK": "none", "NEARFIELD_ALLOW_INSECURE": "true"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        first_screen.check(self, ran.stdout)

    def test_a_wrong_setting_ends_it_with_exit_code_2(self) -> None:
        ran = subprocess.run(
            self.line("nearfield-server", "--batch-max", "nonsense"),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertIn("batch", ran.stderr)


load_tests = variants(Configuration, Life)

if __name__ == "__main__":
    unittest.main()

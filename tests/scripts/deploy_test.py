"""Tests that the compose file, the Dockerfile and the server agree: the same health check, existing
settings, a grace period longer than the drain, and commands in the documents that name what exists."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def settings() -> set[str]:
    """Returns the names of the environment variables for the settings that the server declares."""
    names = re.findall(r'Setting \w+\{\s*\*this,\s*"(\w+)"', text("server/config/settings.h"))
    return {"NEARFIELD_" + name.upper() for name in names}


def seconds(duration: str) -> int:
    return int(duration.removesuffix("s"))


class Deploy(unittest.TestCase):
    def setUp(self) -> None:
        self.service = yaml.safe_load(text("deploy/compose.yaml"))["services"]["nearfield"]
        self.dockerfile = re.sub(r"\\\n\s*", "", text("Dockerfile"))

    def test_every_setting_is_one_that_the_server_has(self) -> None:
        self.assertIn("NEARFIELD_LISTEN", settings())
        given = {name for name in self.service["environment"] if name.startswith("NEARFIELD_")}
        (line,) = re.findall(r"^ENV (NEARFIELD_.*)$", self.dockerfile, re.MULTILINE)
        given |= set(re.findall(r"(NEARFIELD_\w+)=", line))
        self.assertLessEqual(given, settings())

    def test_the_health_check_is_the_image_s(self) -> None:
        options, command = re.findall(r"^HEALTHCHECK (.*) CMD (.*)$", self.dockerfile, re.MULTILINE)[0]
        health = self.service["healthcheck"]
        self.assertEqual(health["test"], ["CMD", *json.loads(command)])
        for name, value in re.findall(r"--([\w-]+)=(\S+)", options):
            self.assertEqual(str(health[name.replace("-", "_")]), value, name)

    def test_the_kill_comes_after_the_drain(self) -> None:
        drain_ms = int(self.service["environment"]["NEARFIELD_DRAIN_MS"])
        self.assertGreater(seconds(self.service["stop_grace_period"]) * 1000, drain_ms)

    def test_it_is_confined_and_reachable_from_this_host_only(self) -> None:
        self.assertTrue(self.service["read_only"])
        self.assertEqual(self.service["cap_drop"], ["ALL"])
        self.assertEqual(self.service["security_opt"], ["no-new-privileges:true"])
        self.assertTrue(all(port.startswith("127.0.0.1:") for port in self.service["ports"]))
        self.assertIn(f"USER {self.service['user']}", self.dockerfile)

    def test_with_the_edge_the_server_needs_keys_and_only_the_edge_reaches_it(self) -> None:
        overlay = yaml.safe_load(text("deploy/haproxy/compose.yaml"))["services"]
        server, edge = overlay["nearfield"]["environment"], overlay["edge"]
        self.assertLessEqual(set(server), settings())
        self.assertTrue(server["NEARFIELD_LISTEN"].startswith("127.0.0.1:"))
        self.assertEqual(server["NEARFIELD_ALLOW_INSECURE"], "false")
        (keys,) = overlay["nearfield"]["volumes"]
        self.assertEqual(str(pathlib.Path(server["NEARFIELD_KEY_FILE"]).parent), keys.split(":")[1])
        self.assertEqual(edge["network_mode"], "service:nearfield")
        known = set(re.findall(r"presetenv (EDGE_\w+)", text("deploy/haproxy/haproxy.cfg")))
        self.assertLessEqual(set(edge["environment"]), known)
        (port,) = overlay["nearfield"]["ports"]
        self.assertEqual(port.partition(":")[2], edge["environment"]["EDGE_LISTEN"].removeprefix(":"))
        self.assertTrue(edge["read_only"])
        self.assertEqual((edge["cap_drop"], edge["security_opt"]), (self.service["cap_drop"], self.service["security_opt"]))

    def test_it_is_built_and_runs_on_the_same_release(self) -> None:
        bases = re.findall(r"^ARG (?:BUILD|RUNTIME)_IMAGE=(.*)$", self.dockerfile, re.MULTILINE)
        self.assertEqual(len(bases), 2)
        self.assertEqual(len(set(bases)), 1)
        self.assertRegex(bases[0], r"^debian:12-slim@sha256:[0-9a-f]{64}$")

    def test_no_image_is_named_by_a_tag_that_others_can_move(self) -> None:
        for path in ("deploy/compose.yaml", "deploy/haproxy/compose.yaml"):
            for name, service in yaml.safe_load(text(path))["services"].items():
                if "build" not in service and "image" in service:
                    self.assertIn("@sha256:", service["image"], f"{path}: {name}")

    def test_no_single_file_is_mounted(self) -> None:
        """A file that is replaced by a rename, as `nearfield keys` does, stays the old one in a mount of the file: a
        revoked key stayed valid."""
        for path in ("deploy/compose.yaml", "deploy/haproxy/compose.yaml"):
            for service in yaml.safe_load(text(path))["services"].values():
                for volume in service.get("volumes", []):
                    source = volume.split(":")[0]
                    if source.startswith("."):
                        self.assertEqual(pathlib.Path(source).suffix, "", volume)
        self.assertNotIn("subPath", text("deploy/kubernetes/nearfield.yaml"))

    def test_the_profile_cpu_is_the_same_server_without_a_gpu(self) -> None:
        services = yaml.safe_load(text("deploy/compose.yaml"))["services"]
        self.assertEqual({name: service.get("profiles") for name, service in services.items()},
                         {"nearfield": None, "nearfield-cpu": ["cpu"]})  # fmt: skip
        own = ("build", "image", "environment", "profiles", "deploy")
        shared = [{name: value for name, value in service.items() if name not in own} for service in services.values()]
        self.assertEqual(shared[0], shared[1])
        cpu = services["nearfield-cpu"]
        self.assertNotIn("deploy", cpu)
        self.assertEqual(cpu["build"]["args"], {"NEARFIELD_CUDA": "OFF"})
        self.assertNotEqual(cpu["image"], self.service["image"])
        self.assertEqual(cpu["environment"], self.service["environment"] | {"NEARFIELD_BACKEND": "cpu"})

    def test_every_documented_command_names_services_and_profiles_that_exist(self) -> None:
        """`--profile cpu up` without a service would also start the one that needs a GPU."""
        services = yaml.safe_load(text("deploy/compose.yaml"))["services"]
        profiles = {profile for service in services.values() for profile in service.get("profiles", [])}
        documents = text("deploy/README.md") + text("deploy/compose.yaml")
        commands = [shlex.split(line, comments=True) for line in
                    re.findall(r"docker compose -f deploy/compose\.yaml (--profile [^\n`]*)", documents)]  # fmt: skip
        self.assertTrue(any("up" in words for words in commands))
        for words in commands:
            self.assertIn(words[1], profiles)
            if words[2] in ("up", "exec"):
                named = next((word for word in words[3:] if word in services), None)
                self.assertIsNotNone(named, words)
                self.assertIn(words[1], services[named].get("profiles", []), words)

    def test_it_reserves_an_nvidia_gpu(self) -> None:
        (device,) = self.service["deploy"]["resources"]["reservations"]["devices"]
        self.assertEqual((device["driver"], device["capabilities"]), ("nvidia", ["gpu"]))

    def test_the_exit_codes_are_the_server_s(self) -> None:
        header = text("server/config/exit_code.h")
        codes = dict(re.findall(r"(k\w+) = (\d+),", header))
        meanings = {
            codes[name]: re.sub(r'"\s*"', "", literals)
            for name, literals in re.findall(r'ExitCodeMeaning\{\s*ExitCode::(k\w+),\s*"([^}]*)"\}', header)
        }
        self.assertEqual(len(meanings), len(codes))
        documented = dict(re.findall(r"^\| (\d+) \| ([^|]*) \|", text("deploy/README.md"), re.MULTILINE))
        self.assertEqual(set(documented), set(codes.values()))
        for code, meaning in meanings.items():
            self.assertTrue(meaning.startswith(documented[code].rstrip()), f"{code}: {meaning}")


if __name__ == "__main__":
    unittest.main()

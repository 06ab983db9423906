"""Each README with Python runs from its first line: in a new environment, which has only what the
README installs, on the oldest Python of the package and on the newest that this machine has.

A README is followed in a copy of the checkout, whose build/demo is the build under test. The blocks
for Ray are tested by test_ray_join.py and test_ray_cluster.py; here only their packages are installed.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from readme import Step, has_python, steps

# The oldest of requires-python, and the newest that has wheels of all extras.
OLDEST, NEWEST = 10, 14
ENVIRONMENT = ".venv/nearfield"
INSTALL = ("python3 -m venv ", "pip install ", "scripts/wheels ")
# The lines of shell that are run, by their beginnings.
READMES = {"README.md": (*INSTALL, "nearfield "), "client/python/README.md": INSTALL}
OTHERS = ("python ray", "python cluster")
CHECKOUT = ("CMakeLists.txt", "LICENSE", "client/python", "proto", "scripts", "tests/environment/requirements-build.txt")

# Runs the steps, all Python in one process. Its tracebacks show the lines of the README.
FOLLOW = """
import importlib, json, subprocess, sys
names = {"__name__": "__main__"}
for path, folder, kind, line, text in json.loads(sys.argv[1]):
    if kind == "shell":
        subprocess.run(["bash", "-euc", text], cwd=folder, check=True)
        importlib.invalidate_caches()
    else:
        exec(compile("\\n" * (line - 1) + text, path, "exec"), names)
"""


@functools.cache
def interpreters() -> dict[int, Path]:
    """Returns a program for each minor version, 3.10 and later, that can make environments."""
    on_path = [found for folder in os.get_exec_path() for found in Path(folder).glob("python3.1?")]
    managed = [*Path.home().glob(".pyenv/versions/3.1*/bin/python3"),
               *Path.home().glob(".local/share/uv/python/cpython-3.1*/bin/python3")]
    found: dict[int, Path] = {}
    for program in (Path(sys.base_prefix, "bin", "python3"), *on_path, *managed):
        asked = [program, "-c", "import ensurepip, sys, venv; print(sys.version_info[1])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:  # pyenv leaves programs on PATH that only report an error
            found.setdefault(int(done.stdout), program)
    return found


class Checkout:
    """A copy of the checkout with a build, and the programs for one Python after another."""

    def __init__(self, root: Path, build: Path) -> None:
        self.root = root
        self.done: set[str] = set()
        for name in CHECKOUT:
            source, copy = ROOT / name, root / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("_proto", "__pycache__"))
            else:
                shutil.copy(source, copy)
        for name, target in (("build/demo", build), (".venv/build", ROOT / ".venv" / "build")):
            (root / name).parent.mkdir()
            (root / name).symlink_to(target)
        (root / "programs").mkdir()

    def write_program(self, name: str, line: str) -> None:
        path = self.root / "programs" / name
        path.write_text(f'#!/bin/sh\nexec {line} "$@"\n', "utf-8")
        path.chmod(0o755)

    def clean(self, python: Path) -> None:
        """Removes the environment, and makes `python3` this Python. `pip` is uv, which installs the
        same packages in a tenth of the time."""
        shutil.rmtree(self.root / ENVIRONMENT, ignore_errors=True)
        (self.root / "client" / "python" / "pyproject.toml").touch()  # uv would reuse the build of another Python
        self.write_program("python3", str(python))
        self.write_program("pip", f"{Path(sys.executable).with_name('uv')} pip --quiet")

    def variables(self, server: Path, address: str) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("NEARFIELD_", "PYTHON"))}
        folders = [self.root / "programs", self.root / ENVIRONMENT / "bin", server.parent, os.environ["PATH"]]
        return {**ours, "PATH": ":".join(map(str, folders)), "VIRTUAL_ENV": str(self.root / ENVIRONMENT),
                "NEARFIELD_ADDRESS": address}

    def run(self, command: list[str | Path], variables: dict[str, str], folder: Path) -> str:
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def follow(self, given: list[Step], variables: dict[str, str], page: Path, folder: Path) -> str:
        """Runs the steps and returns what they print. A line that makes wheels runs once for all Pythons."""
        wanted = [step for step in given if step.text not in self.done]
        first = next(number for number, step in enumerate(wanted) if step.kind != "shell")
        printed = [self.run(["bash", "-euc", step.text], variables, self.root) for step in wanted[:first]]
        told = [(str(page), str(self.root), step.kind, step.line, step.text) for step in wanted[first:]]
        python = self.root / ENVIRONMENT / "bin" / "python"
        printed.append(self.run([python, "-c", FOLLOW, json.dumps(told)], variables, folder))
        self.done |= {step.text for step in wanted if step.text.startswith("scripts/wheels ")}
        return "".join(printed)


@pytest.fixture(scope="module")
def server(request) -> Path:
    return Path(request.config.getoption("--server")).resolve()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, server) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("checkout"), server.parents[1])


def steps_of(name: str) -> list[Step]:
    return [step for step in steps(ROOT / name)
            if (step.kind.startswith("python") and step.kind not in OTHERS)
            or (step.kind == "shell" and step.text.startswith(READMES[name]))]


@pytest.mark.parametrize("minor", sorted({OLDEST, max(interpreters()), NEWEST}), ids=lambda minor: f"3.{minor}")
@pytest.mark.parametrize("name", READMES)
def test_a_readme_runs_in_a_new_environment(name, minor, checkout, server, start, tmp_path):
    if minor not in interpreters():
        pytest.skip(f"no Python 3.{minor}: no python3.{minor} on PATH, in ~/.pyenv/versions or of uv makes environments")
    address = start().address
    checkout.clean(interpreters()[minor])
    given = [Step(step.kind, step.line, step.text.replace("127.0.0.1:50051", address)) for step in steps_of(name)]
    print(checkout.follow(given, checkout.variables(server, address), ROOT / name, tmp_path))


def test_every_readme_with_python_is_run():
    pages = [page for pattern in ("*.md", "[!.b]*/**/*.md") for page in ROOT.glob(pattern)]  # not those of builds
    assert sorted(str(page.relative_to(ROOT)) for page in pages if has_python(page)) == sorted(READMES)


def test_no_line_installs_from_an_index():
    """No index has the packages: such a line fails, or installs another package of that name."""
    pages = [path for folder in ("client", "deploy", "engine", "server") for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in (ROOT / "README.md", *pages):
        found = re.search(r"pip install [^\n]*?(?<![./\w-])nearfield\b(?!_native|-)", path.read_bytes().decode("utf-8", "replace"))
        assert found is None, f"{path}: {found}"

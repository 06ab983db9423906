#!/usr/bin/env python3
"""The stages of scripts/test: the budget of each, and the files that decide its result. A stage that
passed with the same files is not run again.

  stages.py find STAGE RESULTS [--no-result-cache]

writes the key of the stage's files to RESULTS/STAGE.key, and the cases that passed with that key to
RESULTS/STAGE.known; exits with 1 if the stage must run.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys

from result_cache import Contents, ResultCache, default_folder, installed_packages, key_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST_CODE = (
    "CMakeLists.txt", "CMakePresets.json", "client", "deploy/systemd", "engine", "proto", "scripts/cmake", "scripts/lib/ctest_cases.py",
    "scripts/test", "server", "tests", ":!*.md", ":!client/python", ":!engine/gpu/**.cu", ":!tests/bench/receipts",
    ":!tests/conftest.py", ":!tests/container", ":!tests/e2e", ":!tests/environment", ":!tests/mutations", ":!tests/packages",
    ":!tests/peers", ":!tests/pytest.ini", ":!tests/python", ":!tests/scripts",
)
SHIPPED = (
    ".dockerignore", "CMakeLists.txt", "CMakePresets.json", "Dockerfile", "LICENSE", "README.md", "client", "deploy", "engine", "proto",
    "scripts", "server",
)


@dataclasses.dataclass(frozen=True)
class Stage:
    """minutes: the budget, on two cores with cold caches. files: git's pathspecs of all that the stage
    reads; none if it finds out itself what has not changed."""

    minutes: float
    files: tuple[str, ...] = ()


STAGES = {
    "tidy": Stage(1),
    "scripts": Stage(2),
    "dev": Stage(14),
    "asan": Stage(12, HOST_CODE),
    "tsan": Stage(5, HOST_CODE),
    "fuzz": Stage(3, (*HOST_CODE, "scripts/fuzz")),
    "lint": Stage(4, (*HOST_CODE, ".clang-tidy", "scripts/lib/tidy_rules", "scripts/tidy")),
    "ray": Stage(5),
    "deploy": Stage(3),
    "packages": Stage(3, (*SHIPPED, "tests/environment/requirements-build.txt", "tests/packages")),
    "container": Stage(8, (*SHIPPED, "tests/container", "tests/packages/first_screen.py", ":!client/python", ":!*/*.md")),
}


@dataclasses.dataclass
class Known:
    """The cases of a stage that need not run again: how many passed, and those that are skipped on
    this machine."""

    passed: int = 0
    skipped: list[str] = dataclasses.field(default_factory=list)

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def read(path: pathlib.Path) -> Known:
        return Known(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else Known()


def cache() -> ResultCache:
    return ResultCache(default_folder("nearfield-stages"))


def key(stage: str) -> str:
    """Returns a name for all that decides the result of a stage; empty if that is not known."""
    files = STAGES[stage].files if stage in STAGES else ()
    return key_of([stage, installed_packages(), Contents(ROOT).tree(*files)]) if files else ""


def remember(stage: str, results: pathlib.Path, known: Known) -> None:
    """Remembers a stage that passed, if its files decide its result."""
    path = results / f"{stage}.key"
    if path.exists():
        cache().add(path.read_text(encoding="utf-8"), known.text())


def main() -> int:
    _, stage, folder, *options = sys.argv[1:]
    results = pathlib.Path(folder)
    present = key(stage)
    (results / f"{stage}.key").write_text(present, encoding="utf-8")
    found = None if "--no-result-cache" in options else cache().find(present)
    if found is None:
        return 1
    (results / f"{stage}.known").write_text(found, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tests that the rule about dropped arguments finds each planted function, and no other."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from tidy_test import PlantedTree  # noqa: E402
from tidy_rules import arguments  # noqa: E402

PATH = "client/python/nearfield/x.py"
PLANTED = [
    "def delete(self, ids=None, **_): return ids",
    "async def adelete(self, ids=None, **_): return ids",
    "def add(self, texts, **kwargs): return texts",
    "def add(self, texts, *_): return texts",
    "def add(\n    self,\n    **options: object,\n): return self",
    "class C:\n    def m(self):\n        def inner(**ignored): return 1\n        return inner",
]
PASSES = [
    "def search(self, **options): return check(options)",
    "def search(self, *args, **kwargs): return self.inner(*args, **kwargs)",
    "class C:\n    def __exit__(self, *_): self.close()",
    "class C:\n    async def __aexit__(self, *_: object): await self.close()",
    "class C:\n    def find_spec(self, name, *_): return None",
    "def call(*args): return lambda: inner(args)",
    "def old(**_): return 1  # tidy: allow(arguments): the caller is a C library",
]


class Arguments(PlantedTree):
    def test_each_function_that_drops_arguments_is_found(self) -> None:
        for source in PLANTED:
            self.assert_finds(arguments.check(self.plant({PATH: source + "\n"})), "[arguments]")

    def test_a_finding_names_the_function_and_the_line(self) -> None:
        self.assert_finds(arguments.check(self.plant({PATH: PLANTED[4] + "\n"})), f"{PATH}:3: add drops the arguments in options")

    def test_arguments_that_are_read_or_that_python_passes_are_not(self) -> None:
        self.assert_finds(arguments.check(self.plant({PATH: "\n".join(PASSES) + "\n"})))

    def test_only_the_package_is_checked(self) -> None:
        self.assert_finds(arguments.check(self.plant({"tests/python/x.py": PLANTED[0], "scripts/x.py": PLANTED[0]})))

"""The images under test, which scripts/container built. NEARFIELD_IMAGES names a folder with one
folder for each variant: config.json (the output of `buildah inspect`) and root (a link to the mounted
root file system)."""

from __future__ import annotations

import json
import os
import pathlib
import unittest
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = pathlib.Path(os.environ.get("NEARFIELD_IMAGES", "/nonexistent"))
PROGRAMS = ("nearfield-server", "nearfield")

LoadTests = Callable[[unittest.TestLoader, unittest.TestSuite, "str | None"], unittest.TestSuite]


class BuiltImage(unittest.TestCase):
    """A test of one variant."""

    variant = ""

    def setUp(self) -> None:
        folder = IMAGES / self.variant
        if not folder.is_dir():
            self.skipTest(f"the image {self.variant} is not built")
        self.root = (folder / "root").resolve()
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))["Docker"]["config"]

    def program(self, name: str) -> pathlib.Path:
        return self.root / "usr/local/bin" / name


def variants(*cases: type[BuiltImage]) -> LoadTests:
    """Returns a module's load_tests, which runs each class for each variant, for example as
    LifeOfCuda."""

    def load_tests(loader: unittest.TestLoader, _: unittest.TestSuite, __: str | None) -> unittest.TestSuite:
        suite = unittest.TestSuite()
        for variant in ("cpu", "cuda"):
            for case in cases:
                of_variant = type(f"{case.__name__}Of{variant.capitalize()}", (case,), {"variant": variant, "__module__": case.__module__})
                suite.addTests(loader.loadTestsFromTestCase(of_variant))
        return suite

    return load_tests

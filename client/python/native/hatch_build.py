"""Puts the files of a build folder into the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
import older_glibc

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = (
    "bin/nearfield-server",
    "bin/nearfield",
    "lib/libnearfield.so",
    "lib/libnearfield_topk.so",
)
# The command `nearfield demo` finds its corpus at ../share/nearfield/demo.
DEMO = ("packages.fp16.npy", "packages.jsonl", "queries.f32.npy", "queries.json")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before the build of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            sys.exit("nearfield-native: there is only a wheel, scripts/wheels builds it")
        build = Path(os.environ["NEARFIELD_BUILD_DIR"]).resolve()
        stage = Path(self.directory) / "stage"
        libraries = stage / "libraries"  # where scripts/wheels lets auditwheel find them
        libraries.mkdir(parents=True, exist_ok=True)
        include = build_data["force_include"]
        for name in PROGRAMS:
            stripped = stage / Path(name).name
            subprocess.run(["strip", "--strip-unneeded", "-o", stripped, build / name], check=True)
            include[str(stripped)] = f"nearfield_native/{name}"
        older_glibc.port([stage / Path(name).name for name in PROGRAMS], libraries)
        for name in DEMO:
            source = ROOT / "scripts" / "data" / name
            include[str(source)] = f"nearfield_native/share/nearfield/demo/{name}"
        include[str(ROOT / "LICENSE")] = "nearfield_native/LICENSE"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"

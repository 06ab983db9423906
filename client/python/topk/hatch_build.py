"""Puts the library of a build folder into the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "native"))
import older_glibc

LIBRARY = "lib/libnearfield_topk.so"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before the build of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            sys.exit("nearfield-topk: there is only a wheel, scripts/wheels builds it")
        folder = os.environ.get("NEARFIELD_BUILD_DIR")
        build_data["pure_python"] = folder is None
        if folder is None:
            return
        stage = Path(self.directory, "stage")
        stripped, libraries = stage / Path(LIBRARY).name, stage / "libraries"
        libraries.mkdir(parents=True)
        command = ["strip", "--strip-unneeded", "-o", stripped, Path(folder, LIBRARY)]
        subprocess.run(command, check=True)
        older_glibc.port([stripped], libraries)
        build_data["force_include"][str(stripped)] = f"nearfield_topk/{LIBRARY}"
        build_data["tag"] = "py3-none-linux_x86_64"

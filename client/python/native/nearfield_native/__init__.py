"""The compiled part of nearfield: the libraries of nearfield.open() and nearfield.topk in the
folder lib, and the programs in bin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def program(name: str) -> Path:
    """Returns the path of a program: "nearfield-server" or "nearfield"."""
    return _HERE / "bin" / name


def _run(name: str) -> None:
    path = program(name)
    os.execv(path, [str(path), *sys.argv[1:]])


def run_server() -> None:
    """Becomes nearfield-server, with the arguments of this process."""
    _run("nearfield-server")


def run_command() -> None:
    """Becomes the command nearfield, with the arguments of this process."""
    _run("nearfield")

"""Shared libraries by ctypes: of an installed package, or of a build folder."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def load(
    variable: str,
    place: tuple[str, Sequence[str]],
    needed_by: str,
    version: tuple[str, int],
    declarations: Iterable[tuple[str, Any, Sequence[Any]]],
) -> Any:
    """Loads a library and declares its functions.

    variable   environment variable that may name its file
    place      the name of its file otherwise, and the packages that may have it in their folder lib
    needed_by  what needs it, for the message
    version    the library's function that returns its ABI version, and the wanted one
    declarations  name, result and arguments of each function
    Raises ImportError: no package has it, it has another version, or the file is no library."""
    named = os.environ.get(variable)
    path = named or _installed(*place, needed_by)
    try:
        library = ctypes.CDLL(path)
        found = getattr(library, version[0])()
    except (OSError, AttributeError) as error:  # no file, no library, or another one
        raise ImportError(f"{f'{variable}={named}' if named else needed_by}: {error}") from None
    if found != version[1]:
        raise ImportError(
            f"{path}: its ABI version is {found}, this package needs {version[1]}: install the"
            " same version of the packages nearfield..."
        )
    for name, result, arguments in declarations:
        declared = getattr(library, name)
        declared.restype = result
        declared.argtypes = arguments
    return library


def _installed(file: str, packages: Sequence[str], needed_by: str) -> str:
    for name in packages:
        found = importlib.util.find_spec(name)
        path = Path((found and found.origin) or "").parent / "lib" / file
        if found is not None and path.is_file():
            return str(path)
    wheels = " or ".join(name.replace("_", "-") for name in packages)
    raise ImportError(
        f"{needed_by} needs {file} of the package {wheels}. In a checkout, scripts/wheels"
        " --native BUILD_DIR makes its wheel: pip install .venv/dist/"
        f"{packages[0]}-*.whl"
    )

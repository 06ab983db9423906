"""Shared libraries of the package nearfield-native, or of a build folder, by ctypes."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Iterable, Sequence
from typing import Any


def load(
    variable: str,
    function: str,
    needed_by: str,
    version: tuple[str, int],
    declarations: Iterable[tuple[str, Any, Sequence[Any]]],
) -> Any:
    """Loads a library and declares its functions.

    variable   environment variable that may name its file
    function   function of nearfield_native that names it otherwise
    needed_by  what needs it, for the message
    version    the library's function that returns its ABI version, and the wanted one
    declarations  name, result and arguments of each function
    Raises ImportError: no nearfield-native, one with another version, or a file that is none."""
    named = os.environ.get(variable)
    path = named or _installed(function, needed_by)
    try:
        library = ctypes.CDLL(path)
        found = getattr(library, version[0])()
    except (OSError, AttributeError) as error:  # no file, no library, or another one
        raise ImportError(f"{f'{variable}={named}' if named else needed_by}: {error}") from None
    if found != version[1]:
        raise ImportError(
            f"{path}: its ABI version is {found}, this package needs {version[1]}: install the"
            " same version of nearfield and nearfield-native"
        )
    for name, result, arguments in declarations:
        declared = getattr(library, name)
        declared.restype = result
        declared.argtypes = arguments
    return library


def _installed(function: str, needed_by: str) -> str:
    try:
        native = importlib.import_module("nearfield_native")
    except ImportError:
        raise ImportError(
            f"{needed_by} needs the package nearfield-native. In a checkout, scripts/wheels"
            " --native BUILD_DIR makes its wheel: pip install .venv/dist/nearfield_native-*.whl"
        ) from None
    return str(getattr(native, function)())

"""The parts that programs of this package share: the options of the server, and the exit codes."""

from __future__ import annotations

import argparse
import os
import sys

from nearfield._client import DEFAULT_ADDRESS
from nearfield._errors import Error, NotFound

# As those of the command nearfield.
EXIT_NEGATIVE = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_UNREACHABLE = 4
EXIT_INTERRUPTED = 130


def add_server_options(parser: argparse.ArgumentParser, caller: str) -> None:
    """Adds the options that the command nearfield has, with the same variables."""
    address = os.environ.get("NEARFIELD_ADDRESS") or DEFAULT_ADDRESS
    parser.add_argument(
        "-a", "--address", default=address, help="of the server, as host:port [NEARFIELD_ADDRESS]"
    )
    parser.add_argument(
        "--caller",
        default=os.environ.get("NEARFIELD_CALLER") or caller,
        help="who calls [NEARFIELD_CALLER]",
    )


def fail(program: str, error: object, code: int) -> int:
    """Prints an error; returns the exit code."""
    print(f"{program}: {error}", file=sys.stderr)
    return code


def fail_call(program: str, error: Exception, address: str) -> int:
    """Prints an error of a call, or of a value that cannot be used; returns the exit code."""
    if not isinstance(error, Error):
        return fail(program, error, EXIT_USAGE)
    if error.unreachable:
        text = f"cannot reach {address}: is nearfield-server running? ({error})"
        return fail(program, text, EXIT_UNREACHABLE)
    return fail(program, error, EXIT_NEGATIVE if isinstance(error, NotFound) else EXIT_REFUSED)

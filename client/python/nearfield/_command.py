"""The parts that programs of this package share: their options, and the exit codes."""

from __future__ import annotations

import argparse
import sys

from nearfield._connection import DEFAULT_ADDRESS
from nearfield._embed import FORMS
from nearfield._errors import Error, NotFound
from nearfield._identity import given

# As those of the command nearfield.
EXIT_NEGATIVE = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_UNREACHABLE = 4
EXIT_INTERRUPTED = 130


def command_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """Returns a parser that shows the description as it is, and takes no abbreviated options."""
    return argparse.ArgumentParser(
        program,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_server_options(parser: argparse.ArgumentParser, caller: str) -> None:
    """Adds the options that the command nearfield has, with the same variables. Without an address
    connect() chooses it. caller: by default"""
    parser.add_argument(
        "-a",
        "--address",
        help=f"of the server, as host:port [NEARFIELD_ADDRESS, or {DEFAULT_ADDRESS}]",
    )
    parser.add_argument(
        "--caller",
        default=given(None, "NEARFIELD_CALLER", caller),
        help="who calls [NEARFIELD_CALLER]",
    )


def add_embed_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--embed",
        metavar="MODEL",
        default=given(None, "NEARFIELD_EMBED"),
        help=f"makes vectors of texts: {FORMS} [NEARFIELD_EMBED]",
    )


def fail(program: str, error: object, code: int) -> int:
    """Prints an error; returns the exit code."""
    print(f"{program}: {error}", file=sys.stderr)
    return code


def fail_call(program: str, error: Exception) -> int:
    """Prints an error of a call, or of a value that cannot be used; returns the exit code."""
    if not isinstance(error, Error):
        return fail(program, error, EXIT_USAGE)
    if error.unreachable:
        return fail(program, error, EXIT_UNREACHABLE)
    return fail(program, error, EXIT_NEGATIVE if isinstance(error, NotFound) else EXIT_REFUSED)

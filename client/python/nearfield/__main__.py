"""python -m nearfield COMMAND: runs a command of this package, as nearfield COMMAND does.

import copies a collection of another store or a file of vectors, text answers questions about a
folder of texts, and mcp serves collections to agents.
"""

from __future__ import annotations

import importlib
import sys

from nearfield._command import EXIT_USAGE, fail

# The modules of the commands, each with a function main.
COMMANDS = {"import": "nearfield._import.command", "mcp": "nearfield.mcp", "text": "nearfield.text"}


def main() -> int:
    """Runs the command that the arguments name; returns its exit code."""
    command, *arguments = sys.argv[1:] or [""]
    if command not in COMMANDS:
        wanted = f"COMMAND = {command!r}, must be one of {', '.join(COMMANDS)}"
        return fail("python -m nearfield", wanted, EXIT_USAGE)
    code: int = importlib.import_module(COMMANDS[command]).main(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())

"""The first screen of README.md on a machine that has neither a compiler nor a network: the demo's
question with its verified answer, and the first lines of Python."""

from __future__ import annotations

import pathlib
import re
import shlex
import struct
import unittest

README = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
SCORES = [struct.unpack("f", struct.pack("f", 0.5**0.5))[0], 0.0]  # of the rows since 2020, in fp32


def shown() -> list[str]:
    """Returns the question and the answer that README.md shows, line by line."""
    found = re.search(r"^    \$ (nearfield demo .*\n(?:    .*\n)+)", README, re.MULTILINE)
    assert found is not None
    return [line.removeprefix("    ") for line in found.group(1).splitlines()]


def python() -> str:
    """Returns the first Python of README.md."""
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found.group(1)


def script(server: str, with_python: bool = False) -> str:
    """Returns lines of sh that follow the first screen, with the server that a line starts."""
    asked = f"python3 -c {shlex.quote(python())}" if with_python else ":"
    return f"""
set -eu
if command -v cc c++ gcc g++ clang; then exit 9; fi
test "$(ls /sys/class/net)" = lo
{server} >/tmp/log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
nearfield health --wait 300 >/dev/null || {{ tail -n 20 /tmp/log; exit 1; }}
{shown()[0]}
{asked}
kill $server
wait $server
"""


def check(case: unittest.TestCase, output: str, with_python: bool = False) -> None:
    """Checks the lines that script() printed."""
    wanted = shown()[1:] + [f"{id} {score}" for id, score in enumerate(SCORES, 1) if with_python]
    lines = [re.sub(r"in [\d.,]+ ms", "in MS", line) for line in output.splitlines() if line]
    case.assertEqual(lines, [re.sub(r"in [\d.,]+ ms", "in MS", line) for line in wanted])

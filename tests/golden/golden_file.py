"""The command line of the scripts that make files of golden values."""

import pathlib
import sys


def main(arguments, name, golden):
    """Writes golden() to the file, or with --check compares it; returns the exit code. arguments: [--check] [FILE]."""
    check = arguments[:1] == ["--check"]
    rest = arguments[1:] if check else arguments
    path = pathlib.Path(rest[0]) if rest else pathlib.Path(__file__).with_name(name)
    text = golden()
    if not check:
        path.write_text(text, encoding="ascii")
        print(f"{path}: {text.count(chr(10)) - 1} cases, {len(text)} bytes")
        return 0
    if path.read_text(encoding="ascii") == text:
        print(f"{path} is what this script makes")
        return 0
    print(f"{path} differs from what this script makes", file=sys.stderr)
    return 1

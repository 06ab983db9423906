#!/usr/bin/env python3
"""Runs the ctest entries of a build folder. An entry that passed with the same inputs before is not
run again, but counted.

The inputs of an entry are its command, its environment, the installed packages, and every file and
folder of the checkout that its command, its property REQUIRED_FILES or the bytes of its programs
name; for a script, also its folder. An entry that names the build folder itself runs always.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import test_report
from result_cache import Contents, ResultCache, default_folder, installed_packages, key_of
from stages import Known

ROOT = pathlib.Path(__file__).resolve().parents[2]
ELF = b"\x7fELF"
IMPORTED_TEST = re.compile(r"^(?:from|import) (test_\w+)", re.MULTILINE)
VARIABLES = re.compile(r"^(NEARFIELD_\w+|[ALT]SAN_OPTIONS|UBSAN_OPTIONS)$")


@dataclasses.dataclass
class Entry:
    """One entry of ctest."""

    number: int
    name: str
    command: list[str]
    properties: dict[str, object]

    def words(self, name: str) -> list[str]:
        value = self.properties.get(name, [])
        return [str(word) for word in value] if isinstance(value, list) else [str(value)]


def entries_of(build: pathlib.Path) -> list[Entry]:
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, capture_output=True, text=True)
    return [
        Entry(number, test["name"], test.get("command", []), {each["name"]: each["value"] for each in test.get("properties", [])})
        for number, test in enumerate(json.loads(listed.stdout)["tests"], 1)
    ]


class Inputs:
    """The inputs of the entries of one build folder."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path, environment: dict[str, str]) -> None:
        self.root = root
        self.build = build
        self.contents = Contents(root)
        self.named = re.compile(re.escape(bytes(root)) + rb"/[\w./+@-]*")
        self.machine = [installed_packages(), *(f"{name}={value}" for name, value in sorted(environment.items()) if VARIABLES.match(name))]

    @functools.cache
    def named_by(self, path: pathlib.Path) -> frozenset[pathlib.Path] | None:
        """Returns the files and folders of the checkout that a program names; None if it is none."""
        with path.open("rb") as file:
            if file.read(len(ELF)) != ELF:
                return None
        named = {pathlib.Path(os.fsdecode(word)) for word in self.named.findall(path.read_bytes())}
        return frozenset(each for each in named if each.exists() and each not in (path, self.root, self.build))

    @functools.cache
    def folder(self, path: pathlib.Path) -> frozenset[str]:
        """Returns the contents of a folder: the files that git does not ignore, or, in a build folder,
        all."""
        files = path.rglob("*") if path.is_relative_to(self.build) else self.contents.tracked(str(path))
        return frozenset(self.contents.file(each) for each in files if each.is_file())

    @functools.cache
    def parts(self, path: pathlib.Path) -> frozenset[str]:
        """Returns the contents of a file or folder, and of all that a program names."""
        found: set[str] = set()
        wanted, seen = [path], {path}
        while wanted:
            each = wanted.pop()
            if each.is_dir():
                found |= self.folder(each)
                continue
            found.add(self.contents.file(each))
            named = self.named_by(each) or frozenset()
            wanted += named - seen
            seen |= named
        return frozenset(found)

    def script_folder(self, script: pathlib.Path, words: list[str]) -> frozenset[str]:
        """Returns the contents of a script's folder, without the files of tests that neither its words
        nor those files name."""
        files = self.contents.tracked(str(script.parent))
        tests = {each.stem: each for each in files if each.name.startswith("test_")}
        wanted = [name for name, path in tests.items() if str(path) in words]
        for name in wanted:
            wanted += [other for other in IMPORTED_TEST.findall(tests[name].read_text("utf-8")) if other in tests and other not in wanted]
        return frozenset(self.contents.file(each) for each in files if each.stem not in tests or each.stem in wanted)

    def key(self, entry: Entry) -> str:
        """Returns a name for all that an entry reads; empty if that is not known."""
        paths = {pathlib.Path(word) for word in entry.command + entry.words("REQUIRED_FILES") if os.path.isabs(word)}
        if self.build in paths:
            return ""
        contents: set[str] = set()
        for path in paths:
            if path.exists():
                contents |= self.parts(path)
            script = str(path) in entry.command and path.is_relative_to(self.root) and path.is_file()
            if script and self.named_by(path) is None:
                contents |= self.script_folder(path, entry.command)
        command = [word.replace(str(self.root), ".") for word in [entry.name, *entry.command, *entry.words("ENVIRONMENT")]]
        return key_of([*command, *self.machine, *sorted(contents)])


def passed_cases(junit: pathlib.Path) -> dict[str, int]:
    """Returns the number of cases of each entry that passed and none of whose cases was skipped."""
    passed = {}
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name = case.get("name", "")
        tally = test_report.entry_tally(name, case.get("status", "fail"), case.findtext("system-out") or "")
        if tally.passed and not tally.failed and not tally.skipped:
            passed[name] = tally.passed
    return passed


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--results", required=True, metavar="PATH", help="write PATH.xml (JUnit) and PATH.known")
    parser.add_argument("--label", action="append", default=[], help="run only entries with one of these labels")
    parser.add_argument("--without-label", action="append", default=[], help="leave out entries with one of these labels")
    parser.add_argument("--name", default="", help="run only entries whose names this pattern finds")
    parser.add_argument("--no-result-cache", action="store_true", help="run every entry; what passes is still remembered")
    return parser.parse_known_args()


def is_chosen(entry: Entry, arguments: argparse.Namespace) -> bool:
    labels = set(entry.words("LABELS"))
    return bool((not arguments.label or labels & set(arguments.label)) and not labels & set(arguments.without_label)
                and re.search(arguments.name, entry.name))


def main() -> int:
    arguments, ctest = parse()
    build = arguments.build.resolve()
    chosen = [entry for entry in entries_of(build) if is_chosen(entry, arguments)]
    if not chosen:
        print(f"no entry in {build} has these labels and this name", file=sys.stderr)
        return 1
    cache = ResultCache(default_folder("nearfield-tests"))
    inputs = Inputs(ROOT, build, dict(os.environ))
    keys = {entry.name: inputs.key(entry) for entry in chosen}
    known = {} if arguments.no_result_cache else {name: text for name, key in keys.items() if (text := cache.find(key)) is not None}
    before = Known(sum(int(text) for text in known.values()))
    pathlib.Path(f"{arguments.results}.known").write_text(before.text(), encoding="utf-8")
    wanted = [str(entry.number) for entry in chosen if entry.name not in known]
    print(f"{len(wanted)} entries to run; {len(known)} passed with the same inputs before", flush=True)
    if not wanted:
        return 0
    junit = pathlib.Path(f"{arguments.results}.xml").resolve()
    numbers = build / "entries"
    numbers.write_text("0,0,0," + "".join(f"{number}," for number in wanted), encoding="utf-8")
    ran = subprocess.run(["ctest", "--test-dir", str(build), "-I", str(numbers), "--output-junit", str(junit), *ctest], check=False)
    for name, count in passed_cases(junit).items():
        cache.add(keys[name], str(count))
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())

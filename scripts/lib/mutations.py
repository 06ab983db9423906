"""Planted bugs: the patches of tests/mutations, the behaviour that each breaks, and the test
that must detect it."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess

FOLDER = "tests/mutations"
CRASH_FOLDER = "tests/fault/mutations"  # bugs that the crash harness must detect
FIELDS = ("Breaks", "Unit", "Test", "Target", "Needs")
REQUIRED = ("Breaks", "Unit", "Test")
FIELD_LINE = re.compile(r"^(\w+): (.+)$")
TEST_NAME = re.compile(r"^(?P<folder>[a-z0-9]+)\.(?P<program>[\w-]+)(?:\.(?P<suite>[\w/]+)(?:\.(?P<case>[\w/]+))?)?$")
PATCHED_FILE = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One patch file."""

    name: str
    path: pathlib.Path
    breaks: str  # the behaviour that is wrong with the patch applied
    unit: str  # the source file or folder whose tests must detect it
    test: str  # the ctest entry that must fail, or the start of the names of several
    targets: tuple[str, ...]  # build targets for that test; empty for a test of the scripts
    needs_gpu: bool
    files: tuple[str, ...]  # the files that the patch changes

    @property
    def is_script_test(self) -> bool:
        return self.test.startswith("scripts.")


def parse(path: pathlib.Path) -> Mutation:
    """Reads one patch. Raises ValueError, with the file and the field in its text, if the header
    is wrong."""
    text = path.read_text(encoding="utf-8")
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith(("diff ", "--- ")):
            break
        match = FIELD_LINE.match(line)
        if match is None or match[1] not in FIELDS or match[1] in fields:
            raise ValueError(f"{path.name}: '{line}' is not a header field; allowed, each once: {', '.join(FIELDS)}")
        fields[match[1]] = match[2].strip()
    for field in REQUIRED:
        if field not in fields:
            raise ValueError(f"{path.name}: the header lacks '{field}:'")
    test = TEST_NAME.match(fields["Test"])
    if test is None:
        raise ValueError(f"{path.name}: Test '{fields['Test']}' is not FOLDER.PROGRAM[.Suite[.Case]]")
    if fields.get("Needs", "gpu") != "gpu":
        raise ValueError(f"{path.name}: Needs '{fields['Needs']}' is not gpu")
    default = () if test["folder"] == "scripts" else (test["program"],)
    return Mutation(
        name=path.stem,
        path=path,
        breaks=fields["Breaks"],
        unit=fields["Unit"],
        test=fields["Test"],
        targets=tuple(fields["Target"].split()) if "Target" in fields else default,
        needs_gpu="Needs" in fields,
        files=tuple(PATCHED_FILE.findall(text)),
    )


def load(root: pathlib.Path, folder: str = FOLDER) -> list[Mutation]:
    return [parse(path) for path in sorted((root / folder).glob("*.patch"))]


def applies(root: pathlib.Path, mutation: Mutation) -> str:
    """Returns why the patch does not fit the tree, or an empty string if it does."""
    ran = subprocess.run(
        ["git", "apply", "--check", str(mutation.path)], cwd=root, check=False, capture_output=True, text=True
    )
    return "" if ran.returncode == 0 else ran.stderr.strip()


def missing_test(root: pathlib.Path, mutation: Mutation) -> str:
    """Returns why the named test cannot exist, according to the sources, or an empty string if
    it exists."""
    name = TEST_NAME.match(mutation.test)
    assert name is not None, mutation.test
    folder = root / "tests" / name["folder"]
    if name["folder"] == "scripts":
        file = folder / f"{name['program']}.py"
        defined = re.compile(rf"def {name['case']}\(" if name["case"] else rf"class {name['suite']}\(")
        return "" if file.exists() and defined.search(file.read_text(encoding="utf-8")) else f"not in {file}"
    if name["folder"] == "e2e":
        return "" if (folder / f"{name['program']}.py").exists() else f"no {name['program']}.py in tests/e2e"
    sources = declared_sources(folder, name["program"])
    if sources is None:
        return f"no CMakeLists.txt below tests/{name['folder']} declares {name['program']}"
    if name["suite"] is None:
        return ""
    suite = next(part for part in reversed(name["suite"].split("/")) if not part.isdigit())
    case = (name["case"] or "").split("/")[0]
    defined = re.compile(rf"\bT(?:YPED_T)?EST(?:_[FP])?\(\s*{suite},\s*{case}")
    if any(defined.search(path.read_text(encoding="utf-8")) for path in sources):
        return ""
    return f"no source of {name['program']} defines {suite}.{case}"


def declared_sources(folder: pathlib.Path, program: str) -> list[pathlib.Path] | None:
    """Returns the sources of a test program, each next to the list that names it, or None if no
    list declares it."""
    declared = re.compile(rf"nearfield_(?:command_)?test\({re.escape(program)}\s([^)]*)\)")
    sources = None
    for path in sorted(folder.rglob("CMakeLists.txt")):
        for match in declared.finditer(path.read_text(encoding="utf-8")):
            named = re.findall(r"(?<![\w/}])[\w./]+\.c[cu]\b", match[1])
            sources = (sources or []) + [path.parent / source for source in named if (path.parent / source).exists()]
    return sources

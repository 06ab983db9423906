"""The registers and the memory of each GPU kernel: read from the compiled objects of a build, and
compared with a committed table.

The table has a section for each source file and architecture, and one line for each kernel in it.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shlex
import subprocess
from collections.abc import Iterator

HEADER = """\
# The registers and the memory that nvcc gives to each GPU kernel. A test compares them with the
# build. Written by scripts/kernel_resources --write; do not edit.
#
# Per thread: registers; bytes of its stack, which holds spilled registers and local arrays; other
# local bytes. Per block: bytes of shared memory with a fixed size, 1,024 of them reserved by sm_90.
"""
# The engine, and the selection algorithms that it is compared with: a baseline that spills registers
# would flatter the engine.
FOLDERS = ("engine", "tests/bench/published")
COLUMNS = "# registers  shared   stack   local  kernel"
NVCC_LINE = re.compile(r"^nvcc ([\d.]+)$")
SECTION_LINE = re.compile(r"^\[(\w+) (\S+)\]$")
KERNEL_LINE = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\S.*)$")

# Lines of cuobjdump --dump-resource-usage.
ARCHITECTURE = re.compile(r"^arch = (sm_\w+)$")
FUNCTION = re.compile(r"^ Function ([\w$.]+):$")
USAGE = re.compile(r"^  REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+) ")
# The namespaces of this project, up to the name of a type or a function.
NAMESPACES = re.compile(r"\bnearfield::(?:[a-z]\w*::|\(anonymous namespace\)::)*")


class ResourcesError(Exception):
    """The build or the table cannot be read."""


class MissingError(Exception):
    """The comparison needs a tool or an architecture that is not there."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The identity of a compiled kernel."""

    file: str
    architecture: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}, {self.architecture}, {self.name}"

    def order(self) -> tuple[str, str, list[tuple[str, int]]]:
        """Returns a key that sorts the numbers in names by value."""
        parts = re.findall(r"(\D*)(\d*)", self.name)
        return self.file, self.architecture, [(text, int(number or -1)) for text, number in parts]


@dataclasses.dataclass(frozen=True)
class Resources:
    """The resources of one kernel, in the units of the table's header."""

    registers: int
    shared: int
    stack: int
    local: int


@dataclasses.dataclass
class Table:
    """All kernels of one build, and the version of the compiler."""

    nvcc: str
    kernels: dict[Kernel, Resources] = dataclasses.field(default_factory=dict)

    def architectures(self) -> set[str]:
        return {kernel.architecture for kernel in self.kernels}

    def add(self, kernel: Kernel, resources: Resources) -> None:
        if kernel in self.kernels:
            raise ResourcesError(f"two kernels have the same name: {kernel}")
        self.kernels[kernel] = resources


def output_of(*command: str, stdin: str | None = None) -> str:
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise ResourcesError(f"{shlex.join(command)} failed with {ran.returncode}: {ran.stderr.strip()}")
    return ran.stdout


# The table as a file.


def format_table(table: Table) -> str:
    lines = [f"nvcc {table.nvcc}", "", COLUMNS]
    section = None
    for kernel in sorted(table.kernels, key=Kernel.order):
        if section != (kernel.architecture, kernel.file):
            section = (kernel.architecture, kernel.file)
            lines += ["", f"[{kernel.architecture} {kernel.file}]"]
        taken = table.kernels[kernel]
        lines.append(f"{taken.registers:>11} {taken.shared:>7} {taken.stack:>7} {taken.local:>7}  {kernel.name}")
    return HEADER + "\n".join(lines) + "\n"


def parse_table(text: str) -> Table:
    table, section = Table(nvcc=""), None
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if match := NVCC_LINE.match(line):
            table.nvcc = match.group(1)
        elif match := SECTION_LINE.match(line):
            section = match.groups()
        elif section and (match := KERNEL_LINE.match(line)):
            *numbers, name = match.groups()
            table.add(Kernel(section[1], section[0], name), Resources(*map(int, numbers)))
        else:
            raise ResourcesError(f"line {number} of the table is neither a section nor a kernel: {line}")
    if not table.nvcc:
        raise ResourcesError("the table does not name the version of nvcc")
    return table


# The kernels of a build.


def cache_value(build: pathlib.Path, name: str) -> str:
    """Returns one variable of a configured build folder."""
    cache = build / "CMakeCache.txt"
    match = cache.is_file() and re.search(rf"^{name}:\w+=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE)
    if not match or not match.group(1):
        raise ResourcesError(f"{build} is not a build folder with CUDA: {cache} has no {name}")
    return match.group(1)


def nvcc_version(nvcc: str) -> str:
    match = re.search(r"\bV([\d.]+)", output_of(nvcc, "--version"))
    if not match:
        raise ResourcesError(f"{nvcc} --version does not print a version")
    return match.group(1)


def kernel_objects(build: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """Yields each CUDA source of FOLDERS, relative to the checkout, and its object."""
    source_root = pathlib.Path(cache_value(build, "CMAKE_HOME_DIRECTORY"))
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = pathlib.Path(entry["file"])
        if source.suffix == ".cu" and any(source.is_relative_to(source_root / folder) for folder in FOLDERS):
            words = shlex.split(entry["command"])
            yield source.relative_to(source_root).as_posix(), pathlib.Path(entry["directory"], words[words.index("-o") + 1])


def parse_usage(text: str) -> Iterator[tuple[str, str, Resources]]:
    """Yields architecture, mangled name and resources of each function that cuobjdump printed."""
    architecture = function = ""
    for line in text.splitlines():
        if match := ARCHITECTURE.match(line):
            architecture = match.group(1)
        elif match := FUNCTION.match(line):
            function = match.group(1)
        elif match := USAGE.match(line):
            registers, stack, shared, local = map(int, match.groups())
            if not architecture or not function:
                raise ResourcesError(f"cuobjdump printed resources without an architecture or a function: {line}")
            yield architecture, function, Resources(registers=registers, shared=shared, stack=stack, local=local)
            function = ""
        elif "REG:" in line or "Function " in line:
            raise ResourcesError(f"cuobjdump printed a line of an unknown form: {line}")


def short_names(mangled: list[str]) -> list[str | None]:
    """Demangles names, without parameters and namespaces; None for kernels of other projects, such
    as CUB."""
    if not mangled:
        return []
    demangled = output_of("c++filt", "--no-params", stdin="\n".join(mangled) + "\n").splitlines()
    return [NAMESPACES.sub("", name) if name.startswith("nearfield::") else None for name in demangled]


def read_build(build: pathlib.Path, cuobjdump: str) -> Table:
    """Reads the resources of all kernels of FOLDERS."""
    table = Table(nvcc=nvcc_version(cache_value(build, "NEARFIELD_NVCC")))
    for source, compiled in kernel_objects(build):
        if not compiled.is_file():
            raise ResourcesError(f"{source} is not compiled; run: cmake --build {build}")
        usage = list(parse_usage(output_of(cuobjdump, "--dump-resource-usage", str(compiled))))
        names = short_names([function for _, function, _ in usage])
        for (architecture, _, resources), name in zip(usage, names, strict=True):
            if name is not None:
                table.add(Kernel(source, architecture, name), resources)
    if not table.kernels:
        raise ResourcesError(f"{build} has no kernels")
    return table


# The comparison.


def differences(built: Table, expected: Table) -> list[str]:
    """Returns one line for each difference. Architectures that only the build has are ignored."""
    if built.nvcc != expected.nvcc:
        return [f"the table was written with nvcc {expected.nvcc}, but the build uses nvcc {built.nvcc}, "
                "which may give other registers to the same code"]  # fmt: skip
    compared = expected.architectures()
    absent = compared - built.architectures()
    if absent:
        raise MissingError(f"the build has no code for {', '.join(sorted(absent))}, which the table has")
    lines = []
    for kernel in sorted({*built.kernels, *expected.kernels}, key=Kernel.order):
        if kernel.architecture not in compared:
            continue
        if kernel not in expected.kernels:
            lines.append(f"{kernel}: in the build, but not in the table")
        elif kernel not in built.kernels:
            lines.append(f"{kernel}: in the table, but not in the build")
        else:
            lines += changed_fields(kernel, built.kernels[kernel], expected.kernels[kernel])
    return lines


def changed_fields(kernel: Kernel, built: Resources, expected: Resources) -> list[str]:
    fields = [field.name for field in dataclasses.fields(Resources)]
    return [
        f"{kernel}: {field} {getattr(built, field)}, but the table has {getattr(expected, field)}"
        for field in fields
        if getattr(built, field) != getattr(expected, field)
    ]

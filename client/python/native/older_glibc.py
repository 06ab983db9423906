"""Lets programs and libraries that were linked with a newer glibc run with glibc 2.27.

Newer releases of glibc have new versions of functions, such as pthread_create, and keep the first
ones. A file that asks for a newer version is changed, so that it asks for the first one,
GLIBC_2.2.5. Functions that glibc 2.27 lacks under that version are in a library of the wheel
(older_glibc.c). libstdc++ and zlib become parts of the wheel, under names of their own, as other
libraries do; libgcc_s, libc and its parts are those of the machine that the wheel runs on.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEWEST = (2, 27)
FIRST = b"GLIBC_2.2.5"
# The machine has these. Since glibc 2.34 libpthread, libdl and librt are empty.
PARTS_OF_LIBC = ("libpthread.so.0", "libdl.so.2", "librt.so.1")
SYSTEM = {*PARTS_OF_LIBC, "ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6"}
# The name puts that of the version into the strings of every file.
OURS = "libnearfield_glibc.so.GLIBC_2.2.5"
# auditwheel takes these for parts of the machine, where they are older or missing.
RENAMED = {"libstdc++.so.6": "libnearfield_cxx.so.6", "libz.so.1": "libnearfield_z.so.1"}


def port(files: list[Path], folder: Path) -> None:
    """Changes programs and libraries in place.

    Puts changed copies of the libraries that they need into the folder, where auditwheel finds
    them if LD_LIBRARY_PATH names it.
    """
    found: dict[str, str] = {}
    for file in files:
        found |= dict(re.findall(r"^\s*(\S+) => (/\S+)", ldd(file), re.MULTILINE))
    libraries = [
        Path(shutil.copy(path, folder / RENAMED.get(name, name)))
        for name, path in found.items()
        if name not in SYSTEM
    ]
    script = f"-Wl,--version-script={HERE / 'older_glibc.map'}"
    options = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", script]
    source, ours = HERE / "older_glibc.c", folder / OURS
    subprocess.run(["cc", *options, f"-Wl,-soname,{OURS}", "-o", ours, source], check=True)
    changes = [word for name in (OURS, *PARTS_OF_LIBC) for word in ("--add-needed", name)]
    changes += [word for pair in RENAMED.items() for word in ("--replace-needed", *pair)]
    for path in (*files, *libraries):
        own_name = ["--set-soname", path.name] if path.name in RENAMED.values() else []
        subprocess.run(["patchelf", *changes, *own_name, path], check=True)
    for path in (*files, *libraries, ours):
        ask_for_first_versions(path)
    for file in files:
        output = ldd(file, "-r", LD_LIBRARY_PATH=str(folder))
        missing = re.findall(r".*(?:undefined symbol|not defined|not found).*", output)
        if missing:
            raise ValueError(f"{file}: not in older_glibc.c: {'; '.join(missing)}")


def ldd(file: Path, *options: str, **environment: str) -> str:
    """Returns what ldd prints of a file."""
    command = ["ldd", *options, str(file)]
    variables = {"PATH": os.defpath, **environment}
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def ask_for_first_versions(path: Path) -> None:
    """Changes every version of glibc newer than NEWEST that an ELF file of 64 bits asks for."""
    data = bytearray(path.read_bytes())
    need, strings = section(data, b".gnu.version_r"), section(data, b".dynstr")
    if need is None or strings is None:
        return
    first = data.index(FIRST + b"\0", strings) - strings
    while True:  # struct Elf64_Verneed, then its Elf64_Vernaux
        _, count, _, at, step = struct.unpack_from("<HHIII", data, need)
        at += need
        for _ in range(count):
            name = strings + struct.unpack_from("<8xI", data, at)[0]
            version = re.match(rb"GLIBC_(\d+)\.(\d+)", data[name : data.index(b"\0", name)])
            if version is not None and (int(version[1]), int(version[2])) > NEWEST:
                struct.pack_into("<I", data, at, elf_hash(FIRST))
                struct.pack_into("<I", data, at + 8, first)
            at += struct.unpack_from("<12xI", data, at)[0]
        if step == 0:
            break
        need += step
    path.write_bytes(data)


def section(data: bytearray, wanted: bytes) -> int | None:
    """Returns the position of a section in an ELF file of 64 bits; None if it has none."""
    (headers,) = struct.unpack_from("<40xQ", data)
    size, count, names = struct.unpack_from("<58xHHH", data)
    (text,) = struct.unpack_from("<24xQ", data, headers + names * size)
    for i in range(count):
        name, at = struct.unpack_from("<I20xQ", data, headers + i * size)
        if data.startswith(wanted + b"\0", text + name):
            return int(at)
    return None


def elf_hash(name: bytes) -> int:
    """Returns the hash of the ELF specification."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ ((value & 0xF0000000) >> 24)) & 0x0FFFFFFF
    return value

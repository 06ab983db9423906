"""Tests of the programs in the images: hardening, what they link, and the sizes."""

from __future__ import annotations

import pathlib
import re
import subprocess
import unittest

from images import PROGRAMS, BuiltImage, variants

# The CPU image has 117 MB. The size of the other depends on its GPU architectures.
CPU_BYTES_MAX = 130_000_000


def readelf(program: pathlib.Path, *options: str) -> str:
    return subprocess.run(["readelf", "--wide", *options, str(program)], capture_output=True, text=True, check=True).stdout


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


class Programs(BuiltImage):
    """Tests of the finished programs, which are stripped. Their undefined dynamic symbols include the
    checks that the compiler added."""

    def test_they_are_hardened(self) -> None:
        for name in PROGRAMS:
            with self.subTest(name):
                program = self.program(name)
                self.assertRegex(readelf(program, "--file-header"), r"Type:\s+DYN \(Position-Independent Executable file\)")
                segments = readelf(program, "--program-headers")
                self.assertIn("GNU_RELRO", segments)
                self.assertRegex(segments, r"GNU_STACK.* RW ")
                self.assertNotRegex(segments, r"LOAD.* RWE ")
                self.assertRegex(readelf(program, "--dynamic"), r"FLAGS_1\).*NOW.*PIE")
                symbols = set(re.findall(r"UND (\w+)", readelf(program, "--dyn-syms")))
                self.assertIn("__stack_chk_fail", symbols)
                self.assertTrue({symbol for symbol in symbols if symbol.endswith("_chk")}, "no call is checked (FORTIFY)")

    def test_the_cuda_runtime_is_linked_statically(self) -> None:
        for name in PROGRAMS:
            libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(self.program(name), "--dynamic"))
            self.assertIn("libc.so.6", libraries)
            self.assertFalse([library for library in libraries if "cuda" in library])
        self.assertEqual([str(path) for path in self.root.rglob("libcuda*")], [])

    def test_only_the_cuda_variant_has_code_for_gpus(self) -> None:
        sections = readelf(self.program("nearfield-server"), "--section-headers")
        self.assertEqual(".nv_fatbin" in sections, self.variant == "cuda")

    def test_the_sizes_are_reported(self) -> None:
        files = [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]
        unpacked = sum({path.stat().st_ino: path.stat().st_size for path in files}.values())
        packed = int(
            subprocess.run(f"tar -C '{self.root}' -c . | gzip | wc -c", shell=True, capture_output=True, check=True).stdout
        )
        programs = {name: self.program(name).stat().st_size for name in PROGRAMS}
        print(f"\nimage {self.variant}: {megabytes(unpacked)}, {megabytes(packed)} compressed;", end=" ")
        print(", ".join(f"{name} {megabytes(size)}" for name, size in programs.items()))
        if self.variant == "cpu":
            self.assertLess(unpacked, CPU_BYTES_MAX)


load_tests = variants(Programs)

if __name__ == "__main__":
    unittest.main()

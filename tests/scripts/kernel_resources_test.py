"""Tests the comparison of the kernels' registers and memory, with scripts in place of nvcc and
cuobjdump."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import kernel_resources  # noqa: E402
from kernel_resources import Kernel, ResourcesError  # noqa: E402

SCAN = "_ZN9nearfield3gpu10ScanKernelINS0_10Float32RowELb{blocks}ELi{step}EEEvNS0_8ScanArgsE"
COPY = "_ZN9nearfield3gpu50_GLOBAL__N__452ba41a_15_batch_encode_cu_cd1ade58_110CopyKernelENS0_8CopyArgsE"
OF_CUB = "_ZN3cub17CUB_300001_SM_9006detail11EmptyKernelIvEEvv"
FILE = "engine/gpu/kernels/scan.cu"


def scan(step: int, blocks: int = 0) -> str:
    return SCAN.format(blocks=blocks, step=step)


def usage(architecture: str, **functions: tuple[int, int, int, int]) -> str:
    """Returns what cuobjdump prints about functions: registers, stack, shared and local bytes."""
    lines = ["", "Fatbin elf code:", "================", f"arch = {architecture}", "code version = [1,8]", "host = linux",
             "compile_size = 64bit", "", "Resource usage:", " Common:", "  GLOBAL:0"]  # fmt: skip
    for name, (registers, stack, shared, local) in functions.items():
        lines += [f" Function {name}:", f"  REG:{registers} STACK:{stack} SHARED:{shared} LOCAL:{local} CONSTANT[0]:712 TEXTURE:0 SURFACE:0 SAMPLER:0"]
    return "\n".join(lines) + "\n"


FUNCTIONS = {scan(2): (120, 0, 1024, 0), scan(10): (128, 16, 1024, 0), scan(2, blocks=1): (80, 0, 1024, 0), COPY: (32, 0, 0, 0)}


class KernelResources(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.build = self.folder / "build"
        self.build.mkdir()
        self.table = self.folder / "table.txt"
        self.write_program("nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
        # The objects of these tests hold the output of cuobjdump.
        self.write_program("cuobjdump", '[ "$1" = --dump-resource-usage ] && cat "$2"')
        self.write("CMakeCache.txt", f"CMAKE_HOME_DIRECTORY:INTERNAL={self.folder}\nNEARFIELD_NVCC:FILEPATH={self.folder}/nvcc\n")
        self.compile({FILE: usage("sm_90", **FUNCTIONS)})

    def write(self, path: str, text: str) -> None:
        (self.build / path).write_text(text, encoding="utf-8")

    def write_program(self, name: str, script: str) -> None:
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)

    def compile(self, objects: dict[str, str]) -> None:
        """Makes a build with the given output of cuobjdump for each source."""
        commands = []
        for number, (source, text) in enumerate(objects.items()):
            self.write(f"{number}.o", text)
            commands.append({"directory": str(self.build), "file": str(self.folder / source), "command": f"nvcc -c {source} -o {number}.o"})
        self.write("compile_commands.json", json.dumps(commands))

    def run_script(self, *arguments: str, ci: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts/kernel_resources"), "--build-dir", str(self.build), "--table", str(self.table)]
        return subprocess.run([*command, *arguments], env={**os.environ, "CI": ci}, capture_output=True, text=True, check=False, timeout=60)

    def write_table(self) -> None:
        ran = self.run_script("--write")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def check_differences(self, *expected: str) -> str:
        """Expects exactly these differences between the build and the table."""
        ran = self.run_script()
        self.assertEqual((ran.returncode, ran.stderr), (1, ""), ran.stdout)
        *found, count, advice = ran.stdout.splitlines()
        self.assertEqual(found, list(expected))
        self.assertTrue(count.endswith(f": {len(expected)}"), count)
        self.assertIn(f"scripts/kernel_resources --write --build-dir {self.build}", advice)
        return ran.stdout

    def test_the_table_that_a_build_wrote_equals_it(self) -> None:
        self.write_table()
        ran = self.run_script(ci="true")
        self.assertEqual((ran.returncode, ran.stdout), (0, "kernel_resources: 4 kernels as in the table\n"))
        text = self.table.read_text(encoding="utf-8")
        self.assertEqual(kernel_resources.format_table(kernel_resources.parse_table(text)), text)

    def test_the_table_is_sorted_and_has_short_names(self) -> None:
        self.write_table()
        lines = self.table.read_text(encoding="utf-8").splitlines()
        self.assertIn("nvcc 13.0.88", lines)
        self.assertEqual(lines[lines.index(f"[sm_90 {FILE}]") + 1 :], [
            "         32       0       0       0  CopyKernel",
            "        120    1024       0       0  ScanKernel<Float32Row, false, 2>",
            "        128    1024      16       0  ScanKernel<Float32Row, false, 10>",
            "         80    1024       0       0  ScanKernel<Float32Row, true, 2>",
        ])  # fmt: skip

    def test_a_changed_number_of_registers_is_found(self) -> None:
        self.write_table()
        self.compile({FILE: usage("sm_90", **{**FUNCTIONS, scan(2): (121, 0, 1024, 0)})})
        self.check_differences(f"{FILE}, sm_90, ScanKernel<Float32Row, false, 2>: registers 121, but the table has 120")

    def test_a_new_spill_and_other_bytes_are_found(self) -> None:
        self.write_table()
        self.compile({FILE: usage("sm_90", **{**FUNCTIONS, scan(2): (120, 24, 2048, 8)})})
        self.check_differences(
            f"{FILE}, sm_90, ScanKernel<Float32Row, false, 2>: shared 2048, but the table has 1024",
            f"{FILE}, sm_90, ScanKernel<Float32Row, false, 2>: stack 24, but the table has 0",
            f"{FILE}, sm_90, ScanKernel<Float32Row, false, 2>: local 8, but the table has 0",
        )

    def test_an_improvement_is_a_difference_too(self) -> None:
        self.write_table()
        self.compile({FILE: usage("sm_90", **{**FUNCTIONS, scan(10): (128, 0, 1024, 0)})})
        self.check_differences(f"{FILE}, sm_90, ScanKernel<Float32Row, false, 10>: stack 0, but the table has 16")

    def test_a_kernel_that_one_side_lacks_is_found(self) -> None:
        self.write_table()
        self.compile({FILE: usage("sm_90", **{name: taken for name, taken in FUNCTIONS.items() if name != COPY}, **{scan(3): (64, 0, 0, 0)})})
        self.check_differences(
            f"{FILE}, sm_90, CopyKernel: in the table, but not in the build",
            f"{FILE}, sm_90, ScanKernel<Float32Row, false, 3>: in the build, but not in the table",
        )

    def test_only_the_kernels_of_the_engine_and_of_its_baselines_count(self) -> None:
        self.write_table()
        engine, other = usage("sm_90", **FUNCTIONS, **{OF_CUB: (4, 0, 0, 0)}), usage("sm_90", **{scan(9): (4, 0, 0, 0)})
        self.compile({FILE: engine, "tests/bench/other.cu": other})
        self.assertEqual(self.run_script().returncode, 0)
        self.compile({FILE: engine, "tests/bench/published/other.cu": other})
        self.check_differences("tests/bench/published/other.cu, sm_90, ScanKernel<Float32Row, false, 9>: in the build, but not in the table")

    def test_architectures_that_only_the_build_has_are_not_compared(self) -> None:
        self.write_table()
        self.compile({FILE: usage("sm_90", **FUNCTIONS) + usage("sm_100", **{scan(2): (99, 99, 99, 99)})})
        self.assertEqual(self.run_script().returncode, 0)

    def test_a_build_for_another_architecture_is_skipped_and_fails_in_ci(self) -> None:
        self.write_table()
        self.compile({FILE: usage("sm_89", **FUNCTIONS)})
        self.check_skipped("the build has no code for sm_90")

    def test_without_cuobjdump_it_is_skipped_and_fails_in_ci(self) -> None:
        self.write_table()
        self.check_skipped("no cuobjdump in /nowhere/cuobjdump", "--cuobjdump", "/nowhere/cuobjdump")

    def check_skipped(self, reason: str, *arguments: str) -> None:
        ran = self.run_script(*arguments)
        self.assertEqual(ran.returncode, 77)
        self.assertIn(f"SKIPPED: {reason}", ran.stdout)
        ran = self.run_script(*arguments, ci="true")
        self.assertEqual(ran.returncode, 1)
        self.assertIn(f"FAILED: {reason}", ran.stdout)

    def test_without_cuobjdump_the_table_is_not_written(self) -> None:
        ran = self.run_script("--write", "--cuobjdump", "/nowhere/cuobjdump")
        self.assertEqual(ran.returncode, 1)
        self.assertFalse(self.table.exists())

    def test_another_nvcc_is_named_in_place_of_its_differences(self) -> None:
        self.write_table()
        self.write_program("nvcc", "echo 'Cuda compilation tools, release 13.1, V13.1.40'")
        self.compile({FILE: usage("sm_90", **{**FUNCTIONS, scan(2): (99, 0, 1024, 0)})})
        self.check_differences("the table was written with nvcc 13.0.88, but the build uses nvcc 13.1.40, "
                               "which may give other registers to the same code")  # fmt: skip

    def test_an_incomplete_build_is_an_error(self) -> None:
        self.write_table()
        (self.build / "0.o").unlink()
        self.check_error(f"{FILE} is not compiled")
        self.write("CMakeCache.txt", f"CMAKE_HOME_DIRECTORY:INTERNAL={self.folder}\n")
        self.check_error(f"{self.build} is not a build folder with CUDA")

    def test_output_of_an_unknown_form_is_an_error(self) -> None:
        self.write_table()
        self.compile({FILE: usage("sm_90", **FUNCTIONS).replace("REG:", "R-REG:")})
        self.check_error("cuobjdump printed a line of an unknown form")
        self.write_program("cuobjdump", "echo 'cuobjdump fatal: bad file' >&2; exit 255")
        self.check_error("failed with 255: cuobjdump fatal: bad file")

    def check_error(self, reason: str) -> None:
        ran = self.run_script()
        self.assertEqual((ran.returncode, ran.stderr), (1, ""))
        self.assertIn(reason, ran.stdout)


class CommittedTable(unittest.TestCase):
    def test_it_is_as_the_script_writes_it(self) -> None:
        text = (ROOT / "tests/engine/gpu/kernel_resources.txt").read_text(encoding="utf-8")
        table = kernel_resources.parse_table(text)
        self.assertEqual(kernel_resources.format_table(table), text)
        for kernel in table.kernels:
            self.assertTrue((ROOT / kernel.file).is_file(), kernel)

    def test_a_line_of_another_form_and_a_repeated_kernel_are_errors(self) -> None:
        section = f"nvcc 13.0.88\n[sm_90 {FILE}]\n"
        line = "128 1024 16 0 ScanKernel<1>\n"
        self.assertEqual(list(kernel_resources.parse_table(section + line).kernels), [Kernel(FILE, "sm_90", "ScanKernel<1>")])
        for text in (section + "128 1024 16 ScanKernel<1>\n", section + line + line, "nvcc 13.0.88\n" + line, f"[sm_90 {FILE}]\n{line}"):
            with self.assertRaises(ResourcesError):
                kernel_resources.parse_table(text)


if __name__ == "__main__":
    unittest.main()

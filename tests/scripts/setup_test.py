"""Tests how scripts/setup finds GPUs and installs nvcc and cuobjdump, with a script in place of nvidia-smi, and
without PyPI."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Runs a command where no toolkit is installed.
HIDE_TOOLKIT = '[ ! -d /usr/local/cuda ] || mount -t tmpfs none /usr/local/cuda; exec "$@"'


class Setup(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "scripts").mkdir()
        (self.folder / "bin").mkdir()
        shutil.copy(ROOT / "scripts/setup", self.folder / "scripts/setup")
        self.cuda = self.folder / "build/cuda"
        # Without this script the nvidia-smi of a machine with a GPU would answer.
        self.have_driver("", code=127)

    def have_driver(self, output: str, code: int = 0) -> None:
        self.have_program("nvidia-smi", f"cat <<'END'\n{output}\nEND\nexit {code}")

    def have_program(self, name: str, script: str) -> None:
        program = self.folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)

    def run_setup(self, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Runs setup with this machine's packages, without PyPI and without a toolkit on PATH."""
        environment = {"PATH": f"{self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ.get("HOME", "/"), "PIP_NO_INDEX": "1"}
        return subprocess.run([*before, str(self.folder / "scripts/setup"), *arguments], env=environment,
                              capture_output=True, text=True, check=False, timeout=120)  # fmt: skip

    def test_each_architecture_of_the_gpus_is_named_once(self) -> None:
        self.have_driver("580.95.05, 9.0\n580.95.05, 8.9\n580.95.05, 9.0")
        self.assertEqual(self.run_setup("--gpus").stdout, "89;90\n")

    def test_without_a_driver_there_is_no_gpu(self) -> None:
        self.assertEqual(self.run_setup("--gpus").stdout, "")
        self.have_driver("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.", code=9)
        ran = self.run_setup("--gpus")
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "", ""))

    def test_an_old_driver_and_an_old_gpu_are_named_and_not_used(self) -> None:
        self.have_driver("535.183.01, 8.9")
        ran = self.run_setup("--gpus")
        self.assertEqual(ran.stdout, "")
        self.assertIn("the NVIDIA driver 535.183.01 is older than 580", ran.stderr)
        self.have_driver("580.95.05, 7.0\n580.95.05, 12.0")
        ran = self.run_setup("--gpus")
        self.assertEqual(ran.stdout, "120\n")
        self.assertIn("compute capability 7.0", ran.stderr)

    def test_the_option_cuda_fails_without_pypi(self) -> None:
        ran = self.run_setup("--build-only", "--cuda")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("nvcc was not installed", ran.stderr)
        self.assertEqual(list((self.folder / "build").iterdir()), [])

    def test_a_step_that_fails_after_the_download_keeps_the_old_nvcc(self) -> None:
        # pip delivers nothing, so the toolkit that the next steps need is not there.
        self.have_program("python3", "exit 0")
        script = self.folder / "scripts/setup"
        script.write_text(script.read_text(encoding="utf-8").replace("/usr/bin/python3", "python3"), encoding="utf-8")
        self.cuda.mkdir(parents=True)
        (self.cuda / "old").touch()
        ran = self.run_setup("--build-only", "--cuda")
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertIn("nvcc was not installed", ran.stderr)
        self.assertEqual([each.name for each in self.cuda.parent.rglob("*")], ["cuda", "old"])

    @unittest.skipUnless(os.geteuid() == 0, "hiding this machine's toolkit needs root")
    def test_a_gpu_without_pypi_leads_to_a_build_for_the_cpu(self) -> None:
        self.have_driver("580.95.05, 9.0")
        self.check_cpu_only()
        # The same without the package that has pip, and without a Debian mirror.
        self.have_program("dpkg-query", "/usr/bin/dpkg-query \"$@\" | grep -v ' python3-pip$'")
        self.have_program("apt-get", "exit 100")
        self.check_cpu_only()

    def check_cpu_only(self) -> None:
        hidden = ("unshare", "--mount", "--propagation", "private", "sh", "-c", HIDE_TOOLKIT, "sh")
        ran = self.run_setup("--build-only", before=hidden)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("nvcc was not installed", ran.stdout)
        self.assertIn("the build will be CPU-only", ran.stdout)

    def test_an_installed_nvcc_is_used_without_pypi(self) -> None:
        requirements = re.search("cuda_requirements='(.*?)'", (ROOT / "scripts/setup").read_text(encoding="utf-8"), re.DOTALL)
        assert requirements is not None
        other = self.folder / "other"
        for options, folder, name in ((["--cuda"], self.cuda, "build/cuda"), (["--cuda-dir", str(other)], other, str(other))):
            (folder / "bin").mkdir(parents=True)
            (folder / "requirements.txt").write_text(requirements.group(1), encoding="utf-8")
            nvcc = folder / "bin/nvcc"
            nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n", encoding="utf-8")
            nvcc.chmod(0o755)
            ran = self.run_setup("--build-only", *options)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn(f"CUDA 13.0 in {name}: the GPU backend will be built", ran.stdout)
            shutil.rmtree(folder)

    def test_a_toolkit_without_cuobjdump_gets_one_with_the_tests(self) -> None:
        (self.cuda / "bin").mkdir(parents=True)
        nvcc = self.cuda / "bin/nvcc"
        nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n", encoding="utf-8")
        nvcc.chmod(0o755)
        self.assertNotIn("cuobjdump", self.run_setup("--build-only").stdout)
        # Without PyPI the tests can still be built.
        ran = self.run_setup("--test")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("cuobjdump was not installed", ran.stdout)
        self.assertFalse((self.folder / "build/cuobjdump").exists())
        shutil.copy(nvcc, nvcc.with_name("cuobjdump"))
        self.assertNotIn("cuobjdump", self.run_setup("--test").stdout)


if __name__ == "__main__":
    unittest.main()

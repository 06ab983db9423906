"""Tests of the build's options: which libraries a configuration without the server needs."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The libraries of the server and of the tests. CMake treats a disabled package as not installed.
OF_THE_SERVER = ("SQLite3", "roaring", "spdlog", "GTest")


class WithoutTheServer(unittest.TestCase):
    def configure(self, *absent: str) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        options = ["NEARFIELD_SERVER=OFF", "NEARFIELD_TESTS=OFF", *(f"CMAKE_DISABLE_FIND_PACKAGE_{each}=ON" for each in absent)]
        line = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", folder.name, *(f"-D{each}" for each in options)]
        configured = subprocess.run(line, check=False, capture_output=True, text=True)
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        self.assertNotIn("libisal", configured.stdout)
        return configured.stdout

    def test_it_needs_no_library_of_the_server(self) -> None:
        self.assertNotIn("without the engine", self.configure(*OF_THE_SERVER))

    def test_without_highway_the_engine_is_left_out(self) -> None:
        output = self.configure(*OF_THE_SERVER, "hwy")
        self.assertIn("without the engine", output)
        self.assertNotIn("CUDA", output)


if __name__ == "__main__":
    unittest.main()

"""Tests of the build's options: which libraries a configuration without the server needs."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The libraries of the server and of the tests. CMake treats a disabled package as not installed.
OF_THE_SERVER = ("SQLite3", "roaring", "spdlog", "GTest")


# A project that contains this one.
PARENT = f"""
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
set(NEARFIELD_SERVER OFF)
add_subdirectory({ROOT} nearfield)
add_executable(app app.cc)
target_link_libraries(app PRIVATE nearfield::client nearfield::engine nearfield::topk)
"""


class WithoutTheServer(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_cmake(self, *settings: str, source: pathlib.Path = ROOT) -> subprocess.CompletedProcess[str]:
        options = ["NEARFIELD_SERVER=OFF", *settings]
        line = ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(self.folder / "build"), *(f"-D{each}" for each in options)]
        return subprocess.run(line, check=False, capture_output=True, text=True)

    def configure(self, *absent: str, settings: tuple[str, ...] = (), source: pathlib.Path = ROOT) -> str:
        configured = self.run_cmake(*settings, *(f"CMAKE_DISABLE_FIND_PACKAGE_{each}=ON" for each in absent), source=source)
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        self.assertNotIn("libisal", configured.stdout)
        return configured.stdout

    def test_it_needs_no_library_of_the_server(self) -> None:
        self.assertNotIn("without the engine", self.configure(*OF_THE_SERVER))

    def test_without_highway_the_engine_is_left_out(self) -> None:
        output = self.configure(*OF_THE_SERVER, "hwy")
        self.assertIn("without the engine", output)
        self.assertNotIn("CUDA", output)

    def test_the_engine_can_be_left_out(self) -> None:
        self.assertIn("without the engine", self.configure(*OF_THE_SERVER, "hwy", settings=("NEARFIELD_ENGINE=OFF",)))

    def test_an_option_of_three_values_has_no_other(self) -> None:
        configured = self.run_cmake("NEARFIELD_ENGINE=1")
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn("NEARFIELD_ENGINE=1: must be AUTO, ON or OFF", configured.stderr)

    def test_another_project_can_contain_it(self) -> None:
        (self.folder / "CMakeLists.txt").write_text(PARENT, encoding="utf-8")
        (self.folder / "app.cc").write_text("int main() {}\n", encoding="utf-8")
        self.configure(*OF_THE_SERVER, source=self.folder)


if __name__ == "__main__":
    unittest.main()

"""Tests of libnearfield-dev: a program outside the tree is built with CMake and with pkg-config, on a
machine that has only this package and a compiler, and run against the server of the build."""

from __future__ import annotations

import os
import pathlib
import tempfile
import unittest

from debian_root import ROOT, DebianRoot, package

from server import ServerProcess

TOOLS = ("cmake", "g++", "make", "pkg-config")
PKG_CONFIG = (
    "g++ -std=c++20 /mnt/consumer/consumer.cc -o /usr/local/bin/from-pkg-config"
    " $(pkg-config --cflags --libs nearfield-client nearfield-engine nearfield-topk)"
)


class Consumer(unittest.TestCase):
    root: DebianRoot

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = DebianRoot()
        cls.addClassCleanup(cls.root.close)
        cls.root.install(package("libnearfield-dev"), *TOOLS)
        source = cls.root.files / "consumer"
        source.mkdir()
        for each in (ROOT / "tests/packages/consumer").iterdir():
            (source / each.name).write_bytes(each.read_bytes())

    def check_program(self, program: str) -> None:
        """Runs the program, which compares the answers of a server with those of its own engine."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        log = pathlib.Path(folder.name) / "log"
        server = ServerProcess(
            [os.environ["NEARFIELD_SERVER"], "--listen", "127.0.0.1:0", "--ops-listen", "none", "--http-listen", "none", "--data-dir", "none", "--memory-bytes", "256MiB"], log)  # fmt: skip
        self.addCleanup(server.kill)
        ran = self.root.run(program, server.wait_ready())
        self.assertIn("best: 7, 5\n", ran.stdout)
        self.assertRegex(ran.stdout, "topk: (OK|UNAVAILABLE|UNIMPLEMENTED)")
        self.assertEqual(server.terminate(), 0)

    def test_find_package(self) -> None:
        self.root.run("cmake", "-S", "/mnt/consumer", "-B", "/mnt/build")
        self.root.run("cmake", "--build", "/mnt/build")
        self.check_program("/mnt/build/consumer")

    def test_pkg_config(self) -> None:
        self.root.run("sh", "-c", PKG_CONFIG)
        self.check_program("/usr/local/bin/from-pkg-config")

    def test_an_unknown_component_is_refused(self) -> None:
        (self.root.files / "unknown").mkdir()
        (self.root.files / "unknown/CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(unknown CXX)\nfind_package(nearfield REQUIRED COMPONENTS engin)\n",
            encoding="utf-8")  # fmt: skip
        configured = self.root.run("cmake", "-S", "/mnt/unknown", "-B", "/mnt/unknown/build", check=False)
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn("no component engin; there are: client;engine;topk", configured.stderr)


if __name__ == "__main__":
    unittest.main()

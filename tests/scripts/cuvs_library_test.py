"""Tests of the calls into cuVS's C API, with a library that searches in host memory in its place."""

from __future__ import annotations

import atexit
import ctypes
import gc
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import cuvs_library  # noqa: E402

ROWS = [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0]]
OPENED = ["pool 10 50 0", "resources create", "stream 0x7fff12345678"]


def floats(values: list[list[float]]) -> ctypes.Array[ctypes.c_float]:
    flat = [value for row in values for value in row]
    return (ctypes.c_float * len(flat))(*flat)


class Calls(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    lib: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        """Compiles the library once, into the folders that pip makes."""
        cls.folder = tempfile.TemporaryDirectory()
        cls.lib = pathlib.Path(cls.folder.name) / "libcuvs" / "lib64"
        cls.lib.mkdir(parents=True)
        source = ROOT / "tests" / "scripts" / "cuvs_stand_in.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(cls.lib / "libcuvs_c.so"), str(source)], check=True)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def setUp(self) -> None:
        self.peer = cuvs_library.BruteForce(self.lib)
        self.calls = self.peer.library.stand_in_calls
        self.calls.restype = ctypes.c_char_p
        self.before = len(self.calls())
        self.rows = floats(ROWS)

    def recorded(self) -> list[str]:
        """Returns the calls of this test."""
        calls: bytes = self.calls()
        return calls[self.before :].decode().splitlines()

    def open(self) -> None:
        self.peer.open(0x7FFF12345678)
        self.addCleanup(atexit.unregister, self.peer.close)
        self.peer.build(cuvs_library.matrix(ctypes.addressof(self.rows), 4, 3, cuvs_library.FLOAT32))

    def search(self, queries: list[list[float]], k: int) -> tuple[list[int], list[float]]:
        asked, scores = floats(queries), (ctypes.c_float * (len(queries) * k))()
        ids = (ctypes.c_int64 * (len(queries) * k))()
        matrices = (
            cuvs_library.matrix(ctypes.addressof(asked), len(queries), 3, cuvs_library.FLOAT32),
            cuvs_library.matrix(ctypes.addressof(ids), len(queries), k, cuvs_library.INT64),
            cuvs_library.matrix(ctypes.addressof(scores), len(queries), k, cuvs_library.FLOAT32),
        )
        gc.collect()
        self.peer.search(*matrices)
        return list(ids), list(scores)

    def test_rows_queries_and_results_reach_the_library(self) -> None:
        self.open()
        self.assertEqual(self.search([[1, 2, 3]], 2), ([2, 3], [9.0, 6.0]))
        self.assertEqual(self.search([[5, 0, -1], [0, 1, 0]], 3), ([0, 3, 1, 1, 3, 0], [5.0, 4.0, 0.0, 2.0, 1.0, 0.0]))

    def test_the_pool_comes_before_the_resources_and_goes_last(self) -> None:
        self.open()
        self.search([[1, 2, 3]], 1)
        self.peer.close()
        self.assertEqual(self.recorded(), [*OPENED, "index create", "build", "search", "index destroy", "resources destroy", "pool reset"])

    def test_a_new_index_frees_the_old_one(self) -> None:
        self.open()
        self.rows = floats([[7.0, 0.0, 0.0], [8.0, 0.0, 0.0]])
        self.peer.build(cuvs_library.matrix(ctypes.addressof(self.rows), 2, 3, cuvs_library.FLOAT32))
        self.assertEqual(self.recorded()[len(OPENED) :], ["index create", "build", "index destroy", "index create", "build"])
        self.assertEqual(self.search([[1, 0, 0]], 2), ([1, 0], [8.0, 7.0]))

    def test_an_error_has_the_function_and_the_text_of_the_library(self) -> None:
        self.open()
        with self.assertRaisesRegex(RuntimeError, "^cuvsBruteForceBuild: rows are no matrix of fp32$"):
            self.peer.build(cuvs_library.matrix(ctypes.addressof(self.rows), 4, 3, cuvs_library.INT64))

    def test_the_version_is_written_as_the_package_writes_it(self) -> None:
        self.assertEqual(self.peer.version, "26.02.1")

    def test_a_folder_without_the_library_is_an_error_of_the_system(self) -> None:
        with self.assertRaises(OSError):
            cuvs_library.BruteForce(self.lib.parent)

    def test_libraries_of_neighbouring_packages_are_loaded_first(self) -> None:
        broken = self.lib.parent.parent / "librmm" / "lib64" / "librmm.so"
        broken.parent.mkdir(parents=True)
        broken.write_text("no library", encoding="utf-8")
        self.addCleanup(broken.unlink)
        with self.assertRaisesRegex(OSError, "librmm.so"):
            cuvs_library.BruteForce(self.lib)


if __name__ == "__main__":
    unittest.main()

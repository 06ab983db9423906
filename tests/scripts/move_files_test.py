"""scripts/move_files moves what its map names, and every mention follows."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "#pragma once\n"
PATCH = "--- a/server/old/a.cc\n+++ b/server/old/a.cc\n"


class MoveFiles(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/move_files", self.root / "scripts/move_files")
        self.git("init", "--quiet")
        self.plant("server/CMakeLists.txt", "add_subdirectory(old)\nadd_library(x c.cc old/a.cc)\n")
        self.plant("server/c.cc", '#include "server/old/a.h"\n#include "server/older/a.h"\n')
        self.plant("server/old/a.h", HEADER)
        self.plant("server/old/a.cc", '#include "server/old/a.h"\n')
        self.plant("server/old/CMakeLists.txt", "add_library(y a.cc)\n")
        self.plant("tests/mutations/a.patch", PATCH)
        self.git("add", "--all")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True)

    def plant(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def run_map(self, text: str) -> subprocess.CompletedProcess[str]:
        (self.root / "map").write_text(text, encoding="utf-8")
        return subprocess.run(["scripts/move_files", "map"], cwd=self.root, check=False, capture_output=True, text=True)

    def test_a_folder_moves_with_its_mentions_and_its_build_list(self) -> None:
        ran = self.run_map("server/old/ server/new/\n")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.text("server/new/a.h"), HEADER)
        self.assertEqual(self.text("server/new/CMakeLists.txt"), "add_library(y a.cc)\n")
        self.assertEqual(self.text("server/c.cc"), '#include "server/new/a.h"\n#include "server/older/a.h"\n')
        self.assertEqual(self.text("tests/mutations/a.patch"), PATCH.replace("/old/", "/new/"))
        self.assertIn("c.cc new/a.cc", self.text("server/CMakeLists.txt"))
        self.assertFalse((self.root / "server/old").exists())

    def test_a_source_that_leaves_its_build_list_is_reported(self) -> None:
        ran = self.run_map("server/old/a.cc engine/a.cc\n")
        self.assertIn("not in any build list: engine/a.cc (was in server/old/CMakeLists.txt)", ran.stdout)
        self.assertEqual(self.text("server/old/CMakeLists.txt"), "add_library(y )\n")

    def test_a_map_that_cannot_be_is_refused_before_anything_moves(self) -> None:
        for text, message in (("server/none.h x.h", "does not track"), ("one", "not an old and a new path"),
                              ("server/old/a.h server/c.cc", "two files would have one path")):
            ran = self.run_map(text)
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn(message, ran.stderr)
        self.assertEqual(self.text("server/old/a.h"), HEADER)


if __name__ == "__main__":
    unittest.main()

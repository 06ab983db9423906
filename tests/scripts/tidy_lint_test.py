"""Tests that scripts/tidy --lint runs clang-tidy on the right files, with the right checks."""

from __future__ import annotations

import json
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from tidy_test import ROOT, PlantedTree  # noqa: E402
from tidy_rules import lint, tree  # noqa: E402


class Lint(PlantedTree):
    def test_the_linter_needs_a_configured_build(self) -> None:
        self.assert_finds(lint.check(self.plant({}), self.root / "build"), "is not configured")

    def write_commands(self, build: pathlib.Path) -> None:
        build.mkdir()
        (build / "compile_commands.json").write_text(
            f'[{{"directory": "{build}", "file": "{self.root}/engine/a.cc", "command": "g++ -c {self.root}/engine/a.cc -o a.o"}}]'
        )

    def test_the_linter_complains(self) -> None:
        planted = self.plant({".clang-tidy": "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\n",
                              "engine/a.cc": "int* a = 0;\n"})
        build = self.root / "build"
        self.write_commands(build)
        found = lint.check(planted, build, cache_folder=self.root / "cache")
        self.assert_finds(found, "engine/a.cc:1: use nullptr")

    def plant_unlocked_write(self) -> tree.Tree:
        """Plants a file with two errors; only the second is one of the locks."""
        lines = [
            "int* pointer = 0;",
            'struct __attribute__((capability("mutex"))) Lock {};',
            "Lock lock;",
            "int guarded __attribute__((guarded_by(lock)));",
            "void Write() { guarded = 1; }",
        ]
        return self.plant({".clang-tidy": (ROOT / ".clang-tidy").read_text(), "engine/a.cc": "\n".join(lines) + "\n"})

    def test_the_linter_finds_a_missing_lock(self) -> None:
        planted = self.plant_unlocked_write()
        build = self.root / "build"
        self.write_commands(build)
        found = lint.check(planted, build, cache_folder=self.root / "cache")
        self.assert_finds(found, "engine/a.cc:1: use nullptr", "engine/a.cc:5: writing variable 'guarded' requires holding")

    def test_the_linter_checks_the_joined_files_of_the_tree(self) -> None:
        planted = self.plant({".clang-tidy": "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\nHeaderFilterRegex: 'engine/.*'\n",
                              "engine/a.cc": "int* a = 0;\n", "engine/b.cc": "int* b = 0;\n"})
        build = self.root / "build"
        build.mkdir()
        (build / "joined.cxx").write_text(f'#include "{self.root}/engine/a.cc"\n#include "{self.root}/engine/b.cc"\n')
        (build / "generated.cxx").write_text(f'#include "{build}/generated.cc"\n')
        (build / "compile_commands.json").write_text(json.dumps([
            {"directory": str(build), "file": str(build / name), "command": f"g++ -c {build / name}"}
            for name in ("joined.cxx", "generated.cxx")]))
        found = lint.check(planted, build, cache_folder=self.root / "cache")
        self.assert_finds(found, "engine/a.cc:1: use nullptr", "engine/b.cc:1: use nullptr")

    def test_the_linter_checks_a_clean_file_again_only_when_it_or_a_header_changed(self) -> None:
        planted = self.plant({".clang-tidy": "Checks: '-*,modernize-use-nullptr'\n",
                              "engine/a.cc": '#include "a.h"\nint a;\n', "engine/a.h": "int b;\n"})
        build = self.root / "build"
        self.write_commands(build)

        def checked_files() -> list[str]:
            with mock.patch.object(lint, "lint_file", return_value=[]) as run:
                lint.check(planted, build, cache_folder=self.root / "cache")
            return [str(call.args[2].relative_to(self.root)) for call in run.call_args_list]

        self.assertEqual(checked_files(), ["engine/a.cc"])
        self.assertEqual(checked_files(), [])
        (self.root / "engine/a.h").write_text("int c;\n")
        self.assertEqual(checked_files(), ["engine/a.cc"])
        (self.root / "engine/a.h").unlink()  # the files that it includes are not known
        self.assertEqual(checked_files(), ["engine/a.cc"])
        self.assertEqual(checked_files(), ["engine/a.cc"])


if __name__ == "__main__":
    unittest.main()

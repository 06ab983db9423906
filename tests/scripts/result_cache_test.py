"""Tests of the result cache: a check is skipped only if everything that it depends on is the same."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import ctest_cases  # noqa: E402
from result_cache import UNUSED_DAYS_MAX, Contents, ResultCache  # noqa: E402
from stages import Known  # noqa: E402


class Folder(unittest.TestCase):
    """A checkout with a build folder that git ignores."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "checkout"
        self.write(".gitignore", "/build/\n")
        subprocess.run(["git", "init", "--quiet", str(self.root)], check=True)

    def write(self, name: str, content: str | bytes) -> pathlib.Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


class Cache(Folder):
    def test_what_was_added_is_found_with_its_text(self) -> None:
        cache = ResultCache(self.root / "cache")
        self.assertIsNone(cache.find("a"))
        cache.add("a", "7")
        self.assertEqual(ResultCache(self.root / "cache").find("a"), "7")
        self.assertEqual([path.name for path in cache.folder.iterdir()], ["a"])

    def test_an_unknown_key_is_neither_stored_nor_found(self) -> None:
        cache = ResultCache(self.root / "cache")
        cache.add("", "7")
        self.assertIsNone(cache.find(""))

    def test_only_what_nobody_used_for_30_days_is_removed(self) -> None:
        cache = ResultCache(self.root / "cache")
        for name, days in (("old", UNUSED_DAYS_MAX + 1), ("used", UNUSED_DAYS_MAX + 1), ("new", UNUSED_DAYS_MAX - 1)):
            cache.add(name)
            os.utime(cache.folder / name, (time.time() - days * 86400,) * 2)
        self.assertEqual(cache.find("used"), "")
        ResultCache(self.root / "cache")
        self.assertEqual([cache.find(name) for name in ("old", "used", "new")], [None, "", ""])


class Trees(Folder):
    def test_a_tree_changes_with_each_file_that_git_does_not_ignore(self) -> None:
        self.write("a.cc", "1")
        seen = [Contents(self.root).tree(".")]
        self.write("build/x", "2")
        self.assertEqual(Contents(self.root).tree("."), seen[0])
        for name, content in (("new.cc", "3"), ("a.cc", "4"), ("folder/b.md", "5")):
            self.write(name, content)
            seen.append(Contents(self.root).tree("."))
        (self.root / "a.cc").rename(self.root / "c.cc")
        seen.append(Contents(self.root).tree("."))
        self.assertEqual(len(set(seen)), 5)
        self.assertNotIn(Contents(self.root).tree(".", ":!folder"), seen)

    def test_a_tree_does_not_depend_on_the_path_of_the_checkout(self) -> None:
        self.write("a.cc", f"{self.root}/b")
        before = Contents(self.root).tree(".")
        moved = self.root.rename(self.root.parent / "elsewhere")
        (moved / "a.cc").write_text(f"{moved}/b", encoding="utf-8")
        self.assertEqual(Contents(moved).tree("."), before)


class Keys(Folder):
    """The key of an entry changes with everything that the entry reads."""

    def setUp(self) -> None:
        super().setUp()
        self.environment: dict[str, str] = {}
        self.data = self.write("tests/data/x.json", "1")
        self.program = self.write("build/bin/program", ctest_cases.ELF + f"\0{self.data.parent}\0{self.root}/gone\0".encode())

    def key(self, *command: object, **properties: object) -> str:
        inputs = ctest_cases.Inputs(self.root, self.root / "build", self.environment)
        return inputs.key(ctest_cases.Entry(1, "a.b", [str(word) for word in command], properties))

    def test_the_same_inputs_give_the_same_key(self) -> None:
        self.assertEqual(self.key(self.program, "--case"), self.key(self.program, "--case"))

    def test_command_program_data_and_environment_count(self) -> None:
        seen = {self.key(self.program), self.key(self.program, "--case"), self.key(self.program, ENVIRONMENT=["A=1"])}
        self.environment = {"NEARFIELD_PROPERTY_CASES": "800"}
        seen.add(self.key(self.program))
        self.environment = {"UNRELATED": "1"}
        self.assertIn(self.key(self.program), seen)
        self.write("tests/data/x.json", "2")
        seen.add(self.key(self.program))
        self.write("build/bin/program", self.program.read_bytes() + b"x")
        seen.add(self.key(self.program))
        self.assertEqual(len(seen), 6)

    def test_a_program_that_a_program_starts_counts(self) -> None:
        starter = self.write("build/bin/starter", ctest_cases.ELF + f"\0{self.program}\0".encode())
        before = self.key(starter)
        self.write("tests/data/x.json", "2")
        self.assertNotEqual(self.key(starter), before)

    def test_required_files_count(self) -> None:
        readme, library = self.write("README.md", "1"), self.write("build/lib/a.so", "1")
        required = {"REQUIRED_FILES": [str(readme), str(library.parent)]}
        seen = {self.key(self.program, **required)}
        for path in (readme, library):
            path.write_text("2", encoding="utf-8")
            seen.add(self.key(self.program, **required))
        self.assertEqual(len(seen), 3)
        self.write("beside.txt", "1")
        self.assertIn(self.key(self.program, **required), seen)

    def test_the_folder_of_a_script_counts_without_the_other_tests(self) -> None:
        script, helper = self.write("tests/environment/run", "#!/bin/sh\n"), self.write("tests/e2e/helper.py", "1")
        own, other = self.write("tests/e2e/test_a.py", "1"), self.write("tests/e2e/test_b.py", "1")
        before = self.key(script, own)
        other.write_text("2", encoding="utf-8")
        self.assertEqual(self.key(script, own), before)
        for path in (own, helper):
            path.write_text("2", encoding="utf-8")
            self.assertNotEqual(self.key(script, own), before)
            path.write_text("1", encoding="utf-8")
        own.write_text("from test_b import x\n", encoding="utf-8")
        before = self.key(script, own)
        other.write_text("3", encoding="utf-8")
        self.assertNotEqual(self.key(script, own), before)

    def test_an_entry_that_reads_the_whole_build_folder_has_no_key(self) -> None:
        self.assertEqual(self.key(self.program, "--build-dir", self.root / "build"), "")


class Runs(Folder):
    """ctest_cases.py over a build folder of three entries: one passes, one is skipped, one fails until
    the file `fixed` exists."""

    def setUp(self) -> None:
        super().setUp()
        self.fixed = self.root / "fixed"
        self.write("build/CTestTestfile.cmake", f"""
add_test(passes "/bin/sh" "-c" "echo once >>{self.root}/runs")
set_tests_properties(passes PROPERTIES LABELS "host;threads")
add_test(skips "/bin/sh" "-c" "exit 77")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77 LABELS gpu)
add_test(fails "/bin/sh" "-c" "test -e {self.fixed}")
""")

    def run_cases(self, *options: str) -> tuple[int, int, list[str]]:
        """Returns the exit code, the number of cases that passed before, and the entries that ran."""
        results = self.root / "results"
        command = [sys.executable, str(ROOT / "scripts/lib/ctest_cases.py"), str(self.root / "build"), "--results", str(results), *options]
        junit = pathlib.Path(f"{results}.xml")
        junit.unlink(missing_ok=True)
        ran = subprocess.run(command, check=False, capture_output=True, env={**os.environ, "CCACHE_DIR": str(self.root / "caches/ccache")})
        cases = ElementTree.parse(junit).getroot().iter("testcase") if junit.exists() else []
        return ran.returncode, Known.read(pathlib.Path(f"{results}.known")).passed, sorted(case.get("name", "") for case in cases)

    def test_only_what_passed_is_not_run_again(self) -> None:
        self.assertEqual(self.run_cases(), (8, 0, ["fails", "passes", "skips"]))
        self.assertEqual(self.run_cases(), (8, 1, ["fails", "skips"]))
        self.fixed.touch()
        self.assertEqual(self.run_cases(), (0, 1, ["fails", "skips"]))
        self.assertEqual(self.run_cases(), (0, 2, ["skips"]))
        self.assertEqual(self.run_cases("--no-result-cache"), (0, 0, ["fails", "passes", "skips"]))
        self.assertEqual((self.root / "runs").read_text(encoding="utf-8"), "once\n" * 2)

    def test_labels_and_names_choose_entries(self) -> None:
        self.assertEqual(self.run_cases("--label", "threads"), (0, 0, ["passes"]))
        self.assertEqual(self.run_cases("--without-label", "host", "--without-label", "gpu"), (8, 0, ["fails"]))
        self.assertEqual(self.run_cases("--name", "^sk"), (0, 0, ["skips"]))
        self.assertEqual(self.run_cases("--label", "none"), (1, 0, []))
        self.assertEqual(self.run_cases("--label", "threads"), (0, 1, []))


if __name__ == "__main__":
    unittest.main()

"""Tests that the planted bugs of tests/mutations fit the tree and name existing tests, and that the
parser refuses a bad header."""

from __future__ import annotations

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import mutations  # noqa: E402

PATCH = """Breaks: a row that ties is dropped.
Unit: engine/a.cc
Test: engine.a_test.Laws/Law.Holds/3
--- a/engine/a.cc
+++ b/engine/a.cc
@@ -1,3 +1,3 @@
 int Less(int a, int b) {
-  return a < b;
+  return a <= b;
 }
"""
SOURCE = "int Less(int a, int b) {\n  return a < b;\n}\n"


class Folder(unittest.TestCase):
    """A tree with one source, one test and one patch."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("engine/a.cc", SOURCE)
        self.write("tests/engine/CMakeLists.txt", "nearfield_test(a_test SOURCES a_test.cc)\n")
        self.write("tests/engine/a_test.cc", "TEST_P(Law, Holds) {}\n")

    def write(self, path: str, text: str) -> pathlib.Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def mutation(self, text: str) -> mutations.Mutation:
        return mutations.parse(self.write("tests/mutations/less.patch", text))


class Parse(Folder):
    def test_a_patch_tells_what_it_breaks_and_which_test_must_fail(self) -> None:
        parsed = self.mutation(PATCH)
        self.assertEqual((parsed.name, parsed.unit, parsed.test), ("less", "engine/a.cc", "engine.a_test.Laws/Law.Holds/3"))
        self.assertEqual((parsed.targets, parsed.files, parsed.needs_gpu), (("a_test",), ("engine/a.cc",), False))

    def test_the_target_may_be_named(self) -> None:
        parsed = self.mutation(PATCH.replace("Test:", "Target: one two\nNeeds: gpu\nTest:"))
        self.assertEqual((parsed.targets, parsed.needs_gpu), (("one", "two"), True))

    def test_a_bad_header_is_refused(self) -> None:
        for text in (PATCH.replace("Breaks:", "Break:"), PATCH.replace("Unit: engine/a.cc\n", ""),
                     PATCH.replace("engine.a_test", "a_test of the engine"), PATCH.replace("Test:", "Needs: luck\nTest:")):
            with self.assertRaisesRegex(ValueError, "less.patch"):
                self.mutation(text)


class Static(Folder):
    def test_a_patch_that_fits_and_a_test_that_exists(self) -> None:
        parsed = self.mutation(PATCH)
        self.assertEqual(mutations.applies(self.root, parsed), "")
        self.assertEqual(mutations.missing_test(self.root, parsed), "")

    def test_a_patch_that_no_longer_fits_is_found(self) -> None:
        self.write("engine/a.cc", SOURCE.replace("a < b", "b > a"))
        self.assertIn("engine/a.cc", mutations.applies(self.root, self.mutation(PATCH)))

    def test_a_test_of_another_program_is_not_taken_for_the_named_one(self) -> None:
        self.write("tests/engine/CMakeLists.txt", "nearfield_test(a_test SOURCES a_test.cc)\n"
                   "nearfield_test(b_test\n  SOURCES b_test.cc DEPS a_test)\n")
        self.write("tests/engine/b_test.cc", "TEST(Other, Holds) {}\n")
        other = self.mutation(PATCH.replace("engine.a_test", "engine.b_test"))
        self.assertEqual(mutations.missing_test(self.root, other), "no source of b_test defines Law.Holds")

    def test_a_test_that_is_gone_is_found(self) -> None:
        for old, new in (("Holds", "Held"), ("Law.", "Rule."), ("a_test", "b_test"), ("engine.", "server.")):
            self.assertNotEqual(mutations.missing_test(self.root, self.mutation(PATCH.replace(f"{old}", new))), "")


class Planted(unittest.TestCase):
    """Tests of the patches of this tree."""

    def test_every_patch_applies_and_names_a_test_that_exists(self) -> None:
        for mutation in mutations.load(ROOT) + mutations.load(ROOT, mutations.CRASH_FOLDER):
            with self.subTest(mutation.name):
                self.assertEqual(mutations.applies(ROOT, mutation), "")
                self.assertEqual(mutations.missing_test(ROOT, mutation), "")
                self.assertTrue((ROOT / mutation.unit).exists(), mutation.unit)

    def test_there_are_patches(self) -> None:
        self.assertGreater(len(mutations.load(ROOT)), 0)

    def test_the_crash_harness_has_a_control_for_each_of_its_patches(self) -> None:
        controls = (ROOT / "tests/fault/crash_campaign.cc").read_text(encoding="utf-8")
        named = sorted(set(re.findall(r'\bpatch\("(\w+)"', controls)))
        self.assertEqual([mutation.name for mutation in mutations.load(ROOT, mutations.CRASH_FOLDER)], named)


if __name__ == "__main__":
    unittest.main()

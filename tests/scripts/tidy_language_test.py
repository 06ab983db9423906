"""Tests that the rule "language" of scripts/tidy finds each banned phrase in text that people read,
and nothing else."""

from __future__ import annotations

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from tidy_test import PlantedTree  # noqa: E402
from tidy_rules import language, tree  # noqa: E402


class Language(PlantedTree):
    def findings(self, path: str, text: str) -> list[tree.Finding]:
        return language.check(self.plant({path: text}))

    def test_each_phrase_is_found_in_a_comment(self) -> None:
        for number, words in enumerate((
            "the rows behind them", "beside the queue", "all but for one", "it tells the caller", "this mends it",
            "so many rows", "the least score", "the greatest score", "a great batch", "used lately", "asked once more",
            "made anew", "it gives up", "nothing is left over", "nobody holds it", "a rule of the house",
            "it waits from now on", "codes pay from 32 dimensions on", "more keys from 32 GiB on", "bytes from `begin` on",
            "it ends by itself", "they end by themselves", "it is right as far as it goes", "every GPU that there is",
            "the rows of before", "a copy that is no longer made", "it is called, also after the end",
        )):
            with self.subTest(words):
                found = self.findings(f"engine/x{number}.h", f"// Says that {words}.\nint x;\n")
                self.assert_finds([one for one in found if f"x{number}.h" in one.path], f"engine/x{number}.h:1: '")

    def test_plain_words_pass(self) -> None:
        self.assert_finds(self.findings("engine/x.h", "// At least one row. Runs behind a proxy. Is a row greater?\nint least;\n"))
        text = "// Checks that there is one row. Copies rows from host memory on a stream, also for int8. It no longer makes one.\n"
        self.assert_finds(self.findings("engine/y.h", text))

    def test_a_sentence_begins_with_its_subject(self) -> None:
        text = "// The rows of a page. Of these,\n// each is shown. Returns whether one is\n// left. What remains is dropped.\n"
        self.assert_finds(self.findings("engine/x.h", text), "engine/x.h:1: 'Of ...'", "engine/x.h:3: 'What ...'")

    def test_a_line_that_repeats_the_end_of_the_line_above_is_found(self) -> None:
        text = "// It is in the next part.\n// the next.\n// Rows of the next part are older than\n// the next part.\n"
        self.assert_finds(self.findings("engine/x.h", text), "engine/x.h:2: 'the next.': repeats the line above")

    def test_a_question_may_begin_with_what(self) -> None:
        self.assert_finds(self.findings("README.md", "What is it? A service.\n"))

    def test_messages_of_the_product_are_read_and_those_of_tests_are_not(self) -> None:
        code = '#include "behind.h"\nconst char* x = "rows behind it";\n'
        self.assert_finds(language.check(self.plant({"server/x.cc": code, "tests/x_test.cc": code})), "server/x.cc:2:")

    def test_documents_are_read_without_their_code(self) -> None:
        text = "# What it is\n\n```\nbehind\n```\n\nUse `--behind`.\n\n- Of these rows\n"
        self.assert_finds(self.findings("server/DESIGN.md", text), "server/DESIGN.md:9: 'Of ...'")

    def test_docstrings_and_comments_of_python_are_read(self) -> None:
        text = 'def f():\n    """Tells the rows."""\n    return "x"  # behind it\n'
        self.assert_finds(self.findings("tests/e2e/x.py", text), "x.py:2: 'Tells'", "x.py:3: 'behind'")

    def test_comments_of_build_files_are_read(self) -> None:
        self.assert_finds(self.findings("engine/CMakeLists.txt", "# Beside it.\n"), "engine/CMakeLists.txt:1: 'Beside'")

    def test_lines_of_documents_are_wrapped_and_rows_of_tables_are_not(self) -> None:
        wide = "word " * 25
        self.assert_finds(self.findings("README.md", f"{wide}\n\n| {wide} |\n"), "README.md:1: 125 columns")

    def test_a_line_may_say_why_it_breaks_the_rule(self) -> None:
        self.assert_finds(self.findings("engine/x.h", "// behind  tidy: allow(language): quotes the standard\n"))


if __name__ == "__main__":
    unittest.main()

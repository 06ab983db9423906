"""Tests of the passage rules and readers of tests/bench/real_text, with made-up inputs.
Run: python3 -m unittest discover tests/scripts/data"""

from __future__ import annotations

import random
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "bench" / "real_text"))

import passages  # noqa: E402
import readers  # noqa: E402

CAT = "The cat sat on the mat and looked at the moon."
DOG = "A dog is an animal that was bred for the hunt."


class Rules(unittest.TestCase):
    def test_cleaning_makes_one_plain_line(self) -> None:
        self.assertEqual(
            passages.clean(" \u201cOne\u201d\u00a0\tline \u2013 \ufb01ne\x07\n "),
            '"One" line - fine',
        )

    def test_what_is_a_passage(self) -> None:
        refused = {
            "short": "The cat sat on a mat.",
            "few words": "Incomprehensibilities of counterrevolutionaries",
            "code": "public static final int getValue(String name, boolean flag)",
            "few letters": "the 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 of 16 17 18",
            "another script": "the of \u0431\u043e\u043b\u044c\u0448\u0435 " * 4,
            "long": "the cat of " * 100,
        }
        self.assertTrue(passages.is_passage(CAT))
        for name, text in refused.items():
            with self.subTest(name):
                self.assertFalse(passages.is_passage(text))

    def test_long_texts_split_at_sentence_ends(self) -> None:
        pieces = list(passages.split(" ".join([CAT] * 50)))
        self.assertEqual(" ".join(pieces), " ".join([CAT] * 50))
        self.assertTrue(all(piece.endswith("moon.") for piece in pieces))
        self.assertTrue(all(len(piece) <= passages.CHARACTERS_MAX for piece in pieces))
        endless = "the cat " * 200
        self.assertEqual(list(passages.split(f"{CAT} {endless.strip()}. {DOG}")), [CAT, DOG])

    def test_equal_letters_are_one_passage_of_the_first_source(self) -> None:
        kept = passages.collect([("a", CAT), ("b", CAT.upper()), ("b", f"1. {CAT}"), ("b", DOG)])
        self.assertEqual(
            sorted((each.source, each.text) for each in kept.values()), [("a", CAT), ("b", DOG)]
        )

    def test_order_and_queries_do_not_depend_on_the_input(self) -> None:
        found = [
            ("a", f"The cat {chr(97 + i) * 3} was on the mat of the house.") for i in range(20)
        ]
        titles = [("t", f"the title {chr(97 + i) * 3}") for i in range(9)]
        corpus, queries = passages.hold_out(passages.collect(found), titles, 5)
        shuffled = random.Random(7)
        shuffled.shuffle(found)
        shuffled.shuffle(titles)
        again = passages.hold_out(passages.collect(found), titles, 5)
        self.assertEqual(again, (corpus, queries))
        self.assertEqual([len(corpus), len(queries)], [15, 10])
        self.assertEqual(sum(query.kind == "title" for query in queries), 5)
        asked = {query.text for query in queries}
        self.assertFalse(asked & {passage.text for passage in corpus})
        digests = [passages.digest(passage.text) for passage in corpus]
        self.assertEqual(digests, sorted(digests))

    def test_titles_that_are_passages_or_short_are_no_queries(self) -> None:
        kept = passages.collect([("a", CAT), ("a", DOG)])
        with self.assertRaisesRegex(ValueError, "2 passages and 1 titles are too few"):
            passages.hold_out(kept, [("t", CAT), ("t", "two words"), ("t", "one good title")], 2)


class Readers(unittest.TestCase):
    def read(self, reader: Callable[[Path], Iterable[str]], text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x"
            path.write_text(text, encoding="utf-8")
            return [" ".join(each.split()) for each in reader(path) if each.strip()]

    def test_wordnet(self) -> None:
        text = "  1 licence\n00001740 03 a 02 big(a) 0 ice_cream 0 001 @ 0000 n 0000 | of size  \n"
        self.assertEqual(self.read(readers.wordnet, text), ["big, ice cream: of size"])

    def test_dictionary(self) -> None:
        text = "Abb \\Abb\\, n. [L. [x] a.]\n   1. A {yarn}.\n   [1913]\n\n   2. Wool.\n"
        self.assertEqual(self.read(readers.dictd, text), ["Abb: 1. A yarn.", "Abb: Wool."])

    def test_web_page(self) -> None:
        text = "<head>x</head><p>One &amp; <b>two</b></p><pre>code</pre><ul><li>three</ul>"
        self.assertEqual(self.read(readers.web_page, text), ["One & two", "three"])

    def test_manual_page(self) -> None:
        text = '.\\" no\n.SH NAME\nls \\- \\fBlist\\fP\n.PP\n.EX\ncode\n.EE\nSee\n.BR "ls" (1)\n'
        self.assertEqual(self.read(readers.man_page, text), ["ls - list", "See ls(1)"])

    def test_perl_document(self) -> None:
        text = "=head1 X\n\nUse B<I<this>> C<< now >>.\n\n    code\n"
        self.assertEqual(self.read(readers.pod, text), ["Use this now."])


if __name__ == "__main__":
    unittest.main()

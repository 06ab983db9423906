"""Tests of scripts/data/make_corpus.py. Run: python3 -m unittest discover tests/scripts/data"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[3] / "scripts" / "data"
sys.path.insert(0, str(DATA))

import make_corpus as mc  # noqa: E402

PACKAGES = """\
Package: alpha
Section: utils
Tag: interface::commandline,
 role::program
Depends: libalpha1 (>= 2) | beta, gamma
Description-md5: a

Package: alpha-doc
Source: alpha (1.0)
Section: utils
Description-md5: a

Package: alpha-extra
Source: alpha
Section: utils
Description-md5: b

Package: beta
Section: games
Description-md5: b

Package: gamma
Section: utils
Description-md5: c

Package: libalpha1
Section: utils
Description-md5: b
"""
TRANSLATION = """\
Package: alpha
Description-md5: a
Description-en: first tool
 It does
 one thing.
 .
 And another.

Package: beta
Description-md5: b
Description-en: a game
 Play.

Package: gamma
Description-md5: c
Description-en: old name
 This is a transitional package.
"""


class Selection(unittest.TestCase):
    def setUp(self) -> None:
        self.candidates, self.named_by = mc.read_packages(PACKAGES, TRANSLATION)

    def test_leaves_out_parts_libraries_and_transitional(self) -> None:
        self.assertEqual([p.name for p in self.candidates], ["alpha", "alpha-extra", "beta"])

    def test_document_is_one_line(self) -> None:
        self.assertEqual(
            mc.document(self.candidates[0]), "alpha: first tool. It does one thing. And another."
        )

    def test_counts_who_names_a_package(self) -> None:
        self.assertEqual(self.named_by, {"libalpha1": 1, "beta": 1, "gamma": 1})

    def test_one_package_a_source(self) -> None:
        chosen = mc.select(self.candidates, self.named_by, 2)
        self.assertEqual([p.name for p in chosen], ["alpha", "beta"])

    def test_order_of_the_input_does_not_matter(self) -> None:
        a = mc.select(self.candidates, self.named_by, 1)
        b = mc.select(reversed(self.candidates), self.named_by, 1)
        self.assertEqual(a, b)

    def test_too_few(self) -> None:
        with self.assertRaisesRegex(mc.CorpusError, "only 2 packages remain, but --count is 3"):
            mc.select(self.candidates, self.named_by, 3)


class Files(unittest.TestCase):
    def test_the_corpus_is_sound(self) -> None:
        self.assertEqual(mc.check(DATA), 5000)

    def test_queries_match_the_script(self) -> None:
        queries = json.loads((DATA / "queries.json").read_text(encoding="utf-8"))
        self.assertEqual(queries, list(mc.QUERIES))
        self.assertEqual(len(queries), 40)

    def test_bad_arrays_are_refused(self) -> None:
        good = np.zeros((2, mc.DIM), np.float16)
        good[:, 0] = 1.0
        nan, long = good.copy(), good.copy()
        nan[1, 3] = np.nan
        long[0, 1] = 1.0
        bad = {"nan": nan, "long": long, "shape": good[:1], "f32": good.astype(np.float32)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.npy"
            mc.write_npy(path, good)
            mc.read_npy(path, np.float16, 2)
            for name, array in bad.items():
                with self.subTest(name), self.assertRaises(mc.CorpusError):
                    mc.write_npy(path, array)
                    mc.read_npy(path, np.float16, 2)


if __name__ == "__main__":
    unittest.main()

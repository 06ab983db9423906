#!/usr/bin/env python3
"""Makes a corpus of real English text from Debian packages, and queries for it.

Downloads the packages of SOURCES with apt-get, unpacks them in the cache folder (nothing is
installed), and reads the long descriptions of all packages from apt's lists. Writes into the output
folder, and prints the passages of each source:

  passages.jsonl.gz  one {"source", "text"} a line     passages.py states the rules
  queries.jsonl.gz   one {"kind", "source", "text"} a line
  sources.json       versions, hashes and counts

The same packages and lists give the same files.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import hashlib
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import readers
from passages import Passage, Query, collect, hold_out

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "data"))
import make_corpus  # noqa: E402

Reader = Callable[[Path], Iterable[str]]

# Package, pattern of its files, reader. A passage that several have belongs to the first.
SOURCES: tuple[tuple[str, str, Reader], ...] = (
    ("wordnet-base", "usr/share/wordnet/data.*", readers.wordnet),
    *((name, "usr/share/dictd/*.dict.dz", readers.dictd) for name in (
        "dict-gcide", "dict-foldoc", "dict-jargon", "dict-vera", "dict-devil", "dict-elements",
    )),
    ("fortunes", "usr/share/games/fortunes/[a-z]*", readers.fortunes),
    ("fortunes-min", "usr/share/games/fortunes/[a-z]*", readers.fortunes),
    *((name, "usr/share/man/man?/*.gz", readers.man_page) for name in (
        "manpages", "manpages-dev", "tcl8.6-doc", "tk8.6-doc",
    )),
    ("perl-doc", "usr/share/perl/*/pod/*.pod", readers.pod),
    *((name, "usr/**/*.html", readers.web_page) for name in (
        "linux-doc-6.1", "anarchism", "debian-policy", "developers-reference", "aptitude-doc-en",
        "python3.11-doc", "postfix-doc", "libglib2.0-doc", "libgtk-3-doc", "git-doc",
        "postgresql-doc-15", "python-django-doc", "python-sqlalchemy-doc", "python-pandas-doc",
        "apache2-doc", "sqlite3-doc", "cmake-doc", "nodejs-doc", "clang-14-doc", "llvm-14-doc",
        "erlang-doc", "qtbase5-doc-html", "libgtk-4-doc", "libreoffice-help-en-us", "rust-doc",
        "openjdk-17-doc",
    )),
    ("gnome-user-docs", "usr/share/help/C/**/*.page", readers.web_page),
)  # fmt: skip
# Other languages, and pages that list names.
LEFT_OUT = re.compile(
    r"\.(de|es|fr|ja|ko|pt|tr|zh)\b|/(de|es|fr|ja|ru|zh-cn)/|/(index-files|class-use)/|"
    r"/(genindex|doc_backlink_crossref|requirements|package-(use|tree))"
)
DESCRIPTIONS = "package descriptions"


def fetch(package: str, cache: Path) -> tuple[Path, Path]:
    """Downloads and unpacks a package, unless the cache has it. Returns the .deb and its files."""
    files = cache / package
    if not list(cache.glob(f"{package}_*.deb")):
        subprocess.run(["apt-get", "-q", "download", package], cwd=cache, check=True)
    (deb,) = cache.glob(f"{package}_*.deb")
    if not files.is_dir():
        unpacked = cache / f"{package}.part"
        subprocess.run(["dpkg-deb", "-x", deb, unpacked], check=True)
        unpacked.rename(files)
    return deb, files


def paragraphs(cache: Path, debs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (package, paragraph) of all SOURCES, in the order of the table and of the paths."""
    for package, pattern, reader in SOURCES:
        deb, files = fetch(package, cache)
        debs[deb.name] = hashlib.sha256(deb.read_bytes()).hexdigest()
        for path in sorted(files.glob(pattern)):
            if path.is_file() and path.suffix != ".dat" and not LEFT_OUT.search(str(path)):
                for paragraph in reader(path):
                    yield package, paragraph


def descriptions(lists: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Returns the paragraphs of all long descriptions, and the summaries as titles."""
    hint = "Run: apt-get update -o Acquire::Languages=en"
    path = make_corpus.find_list(lists, "*_bookworm_main_i18n_Translation-en*", hint)
    found, titles = [], []
    for each in make_corpus.stanzas(make_corpus.read_list(path)):
        summary, _, body = each["Description-en"].partition("\n")
        titles.append((DESCRIPTIONS, summary))
        for paragraph in re.split(r"\n\.\n|\n(?=\s+[-*o] )", body):
            found.append((DESCRIPTIONS, paragraph))
    return found, titles


def write_lines(path: Path, lines: Iterable[Passage | Query]) -> None:
    """Writes one JSON object a line; the same lines give the same bytes."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        for line in lines:
            packed.write(json.dumps(dataclasses.asdict(line), ensure_ascii=False).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="folder of the packages")
    folder = "folder of apt's lists with Translation-en (see scripts/data/README.md)"
    parser.add_argument("--lists", type=Path, required=True, help=folder)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    asked = "half are held-out passages, half summaries of packages (default: %(default)s)"
    parser.add_argument("--queries", type=int, default=12000, help=asked)
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    arguments.out.mkdir(parents=True, exist_ok=True)

    debs: dict[str, str] = {}
    described, titles = descriptions(arguments.lists)
    kept = collect(itertools.chain(described, paragraphs(arguments.cache, debs)))
    corpus, queries = hold_out(kept, titles, arguments.queries // 2)
    write_lines(arguments.out / "passages.jsonl.gz", corpus)
    write_lines(arguments.out / "queries.jsonl.gz", queries)
    counts = Counter(passage.source for passage in corpus)
    summary = {"passages": len(corpus), "queries": len(queries), "debs": debs, "counts": counts}
    (arguments.out / "sources.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    for source, count in counts.most_common():
        print(f"{count:8} {source}")
    mean = sum(len(passage.text) for passage in corpus) / len(corpus)
    print(f"{len(corpus):8} passages of {mean:.0f} characters, {len(queries)} queries")


if __name__ == "__main__":
    main()

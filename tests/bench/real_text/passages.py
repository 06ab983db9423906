"""The rules of the passage corpus: cleaning, splitting, de-duplication, order, held-out queries.

A passage is one paragraph of English on one line: 40 to 1,000 characters, at least 6 words, two of
them function words, at least 70% letters and at least 95% ASCII. A longer paragraph is split at
sentence ends. Two passages with the same letters, in any case, are one, and the first source that
has it keeps it. The order is that of the SHA-256 of these letters, so any first N passages are a
random sample of the corpus.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CHARACTERS_MIN = 40
CHARACTERS_MAX = 1000  # all-MiniLM-L6-v2 reads 256 tokens, about as much
WORDS_MIN = 6
FUNCTION_WORDS_MIN = 2  # code, signatures and lists of names have none
FUNCTION_WORDS = frozenset(
    """a an and are as at be been but by can do does for from has have if in into is it its may not
    of on or that the their there these they this to was were when which will with you your
    """.split()  # noqa: SIM905
)
LETTERS_MIN = 0.70
ASCII_MIN = 0.95

QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2010\u2011", "''\"\"----")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\ufeff\ue000-\uf8ff]+")
NOT_A_LETTER = re.compile(r"[^a-z]+")
SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+")


@dataclass(frozen=True)
class Passage:
    source: str  # the Debian package
    text: str


@dataclass(frozen=True)
class Query:
    kind: str  # "passage" or "title"
    source: str
    text: str


def clean(text: str) -> str:
    """Returns the text on one line: NFKC, plain quotes and dashes, no control characters."""
    plain = unicodedata.normalize("NFKC", text).translate(QUOTES)
    return " ".join(CONTROL.sub(" ", plain).split())


def split(text: str) -> Iterator[str]:
    """Splits a cleaned text at sentence ends into pieces of at most CHARACTERS_MAX.

    Drops a sentence that is longer than that.
    """
    piece = ""
    for sentence in SENTENCE_END.split(text):
        longer = f"{piece} {sentence}" if piece else sentence
        if len(longer) <= CHARACTERS_MAX:
            piece = longer
            continue
        if piece:
            yield piece
        piece = sentence if len(sentence) <= CHARACTERS_MAX else ""
    if piece:
        yield piece


def is_passage(text: str) -> bool:
    """Returns whether a cleaned text is a passage."""
    words = text.lower().split(" ")
    return (
        CHARACTERS_MIN <= len(text) <= CHARACTERS_MAX
        and len(words) >= WORDS_MIN
        and sum(word in FUNCTION_WORDS for word in words) >= FUNCTION_WORDS_MIN
        and sum(map(str.isalpha, text)) >= LETTERS_MIN * len(text)
        and len(text.encode("ascii", "ignore")) >= ASCII_MIN * len(text)
    )


def digest(text: str) -> bytes:
    """Returns the SHA-256 of the letters of a text: what de-duplication and order compare."""
    return hashlib.sha256(NOT_A_LETTER.sub("", text.lower()).encode()).digest()


def collect(found: Iterable[tuple[str, str]]) -> dict[bytes, Passage]:
    """Cleans, splits and de-duplicates (source, paragraph) pairs. Returns passages by digest."""
    kept: dict[bytes, Passage] = {}
    for source, paragraph in found:
        for text in split(clean(paragraph)):
            if is_passage(text):
                kept.setdefault(digest(text), Passage(source, text))
    return kept


def hold_out(
    passages: dict[bytes, Passage], titles: Iterable[tuple[str, str]], each: int
) -> tuple[list[Passage], list[Query]]:
    """Returns the corpus and the queries, both in the order of their digests.

    The queries are the first `each` passages, which leave the corpus, and the first `each` titles:
    (source, text) pairs of at least 3 words that occur neither twice nor as a passage.
    Raises ValueError if there are fewer of either.
    """
    order = sorted(passages)
    named: dict[bytes, Query] = {}
    for source, title in titles:
        text = clean(title)
        key = digest(text)
        if text.count(" ") >= 2 and key not in passages:
            named.setdefault(key, Query("title", source, text))
    if len(order) <= each or len(named) < each:
        raise ValueError(
            f"{len(order)} passages and {len(named)} titles are too few for {each} queries of each"
        )
    asked = {key: named[key] for key in sorted(named)[:each]}
    for key in order[:each]:
        asked[key] = Query("passage", passages[key].source, passages[key].text)
    return [passages[key] for key in order[each:]], [asked[key] for key in sorted(asked)]

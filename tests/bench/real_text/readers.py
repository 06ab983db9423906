"""Readers of the formats that Debian's text packages use. Each yields paragraphs."""

from __future__ import annotations

import gzip
import html
import re
from collections.abc import Iterator
from pathlib import Path

# WordNet: offset, file, type, words in hex, (word, lexical id) pairs, pointers, "|", gloss.
ADJECTIVE_POSITION = re.compile(r"\((a|p|ip)\)$")
# Dictionaries
PRONUNCIATION = re.compile(r"\\[^\\]*\\")
BRACKETS = re.compile(r"\[[^\[\]]*\]")
BRACES = re.compile(r"[{}]")
SENSE_NUMBER = re.compile(r"^(\d+|[a-z])\.\s+")
# HTML
NOT_TEXT = re.compile(r"<!--.*?-->|<(script|style|pre|head|nav|svg)\b.*?</\1>", re.S | re.I)
BLOCK = re.compile(
    r"</?(?:p|li|dd|dt|td|th|tr|div|h[1-6]|ul|ol|dl|table|section|article|blockquote|body|header|"
    r"footer|main|caption|figcaption|hr|br\s*/?\s*><br|center|address)\b[^>]*>",
    re.I,
)
TAG = re.compile(r"<[^>]*>")
# roff
FONT = re.compile(r"\\f(\[[^\]]*\]|\(..|.)|\\s[-+]?\d|\\[&|^/,:%)]|\\m\[[^\]]*\]")
SPECIAL = {"aq": "'", "oq": "'", "cq": "'", "dq": '"', "lq": '"', "rq": '"'}
SPECIAL |= {
    "em": "-",
    "en": "-",
    "mi": "-",
    "hy": "-",
    "ha": "^",
    "ti": "~",
    "co": "(c)",
    "rs": "\\",
}
GLYPH = re.compile(r"\\(?:\((..)|\[([^\]]*)\])")
ARGUMENT = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
# POD
POD_CODE = re.compile(r"[A-Z](?:<([^<>]*)>|<<+ (.*?) >>+)")


def read_text(path: Path) -> str:
    """Returns the text of a file, plain or compressed by gzip."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data.decode("utf-8", errors="replace")


def wordnet(path: Path) -> Iterator[str]:
    """Yields "word, word: gloss" of a data file."""
    for line in read_text(path).splitlines():
        head, bar, gloss = line.partition(" | ")
        fields = head.split()
        if not bar or line.startswith(" "):
            continue
        count = int(fields[3], 16)
        words = [ADJECTIVE_POSITION.sub("", w) for w in fields[4 : 4 + 2 * count : 2]]
        yield f"{', '.join(words).replace('_', ' ')}: {gloss}"


def dictd(path: Path) -> Iterator[str]:
    """Yields "headword: paragraph" of a dictionary. An entry starts at a line without indent."""
    word = ""
    for paragraph in re.split(r"\n\s*\n", read_text(path)):
        lines = paragraph.strip("\n").split("\n")
        if not lines[0].startswith((" ", "\t")):
            word = re.split(r"\s*[\\,]", lines[0], maxsplit=1)[0].strip()
            lines[0] = lines[0][len(word) :]
        if word.startswith("00-database"):
            continue
        text = PRONUNCIATION.sub("", " ".join(lines))
        while (shorter := BRACKETS.sub("", text)) != text:
            text = shorter
        text = " ".join(BRACES.sub("", text).split()).lstrip(" ,")
        yield f"{word}: {SENSE_NUMBER.sub('', text)}"


def fortunes(path: Path) -> Iterator[str]:
    """Yields the entries of a fortune file."""
    yield from re.split(r"\n%\n", read_text(path))


def web_page(path: Path) -> Iterator[str]:
    """Yields the text blocks of an HTML page, without code, navigation and tables of code."""
    for block in BLOCK.split(NOT_TEXT.sub(" ", read_text(path))):
        text = html.unescape(TAG.sub("", block)).replace("¶", "")
        if text and not text.isspace():
            yield text


def _roff_text(line: str) -> str:
    """Returns a line of roff without its escapes."""
    line = GLYPH.sub(lambda m: SPECIAL.get(m[1] or m[2], ""), FONT.sub("", line))
    return re.sub(r"\\(.)", lambda m: {"e": "\\", "~": " ", "0": " "}.get(m[1], m[1]), line)


def man_page(path: Path) -> Iterator[str]:
    """Yields the paragraphs of a manual page (man macros), without examples and tables."""
    words: list[str] = []
    skip = ""  # the macro that ends what is left out
    for line in read_text(path).splitlines():
        macro, _, rest = line.partition(" ")
        if skip:
            skip = "" if macro == skip else skip
        elif not line.startswith((".", "'")):
            words.append(_roff_text(line))
        elif macro in (".B", ".I", ".SM", ".SB"):
            words.append(_roff_text(rest.replace('"', "")))
        elif macro in (".BR", ".RB", ".IR", ".RI", ".BI", ".IB"):
            words.append(_roff_text("".join(a or b for a, b in ARGUMENT.findall(rest))))
        elif macro in (".PP", ".P", ".LP", ".TP", ".IP", ".SH", ".SS", ".nf", ".EX", ".TS", ".sp"):
            yield " ".join(words)
            words = []
            skip = {".nf": ".fi", ".EX": ".EE", ".TS": ".TE"}.get(macro, "")
    yield " ".join(words)


def pod(path: Path) -> Iterator[str]:
    """Yields the plain paragraphs of a Perl document."""
    for paragraph in re.split(r"\n\s*\n", read_text(path)):
        if not paragraph.startswith(("=", " ", "\t")):
            while (shorter := POD_CODE.sub(r"\1\2", paragraph)) != paragraph:
                paragraph = shorter
            yield paragraph

"""Checks for plain technical English: words and sentence openings that comments, documents and
messages must not contain, and lines that repeat the one above."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator

from tidy_rules.tree import CXX_SUFFIXES, Finding, Tree, allowed

COLUMNS_MAX = 100


@dataclasses.dataclass(frozen=True)
class Phrase:
    """A pattern, and the words to write in its place."""

    pattern: re.Pattern[str]
    advice: str


def phrase(pattern: str, advice: str) -> Phrase:
    return Phrase(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), advice)


PHRASES = (
    phrase(r"behind(?! (?:a|the) (?:proxy|load balancer))", "after, below or under"),
    phrase("beside", "next to"),
    phrase("but for", "except"),
    phrase("tells?|told", "report, return or show; distinguish"),
    phrase("mend|mends|mended|mending", "fix"),
    phrase("so many", "N, at most N, or that many"),
    phrase(r"(?<!at )least(?! significant| recently| squares)", "minimum, smallest or lowest"),
    phrase("greatest", "maximum, largest or highest"),
    phrase("great", "large"),
    phrase("lately", "recently"),
    phrase("once more", "again"),
    phrase("anew", "again"),
    phrase("gives? up|giving up|given up|gave up", "stop, abandon, release or fail"),
    phrase("leaves? over|left over", "remaining"),
    phrase("nobody|somebody|anybody|whoever", "no caller, a caller, any caller; the one that"),
    phrase("the house", "the project, or nothing"),
    phrase(
        r"from (?:(?:now|then|here|there|(?:this|some) \w+|\d[\w.]*(?: [KMGT]iB)?|`[^`]*`) on|(?:[^\s,;:.()]+ ){1,5}on(?=[.,;:)]))",
        "at and after, at least, beginning at, or later",
    ),
    phrase("by (?:itself|themselves)", "alone, separately or automatically, or name what does it"),
    phrase("as far as", "if, while, what or those that"),
    phrase(r"that there (?:is|are)(?=[.,;:)]| \()", "the noun alone"),
    phrase("of before", "earlier, previous or existing"),
    phrase("no longer made", "removed"),
    phrase(", also (?:after|if|when|where)", "even after, even if"),
)
OPENING = re.compile(r"(?:^|[.!?:;] )((?:Of|What|Whether|That of|Those of) (?!.*\?))")


@dataclasses.dataclass(frozen=True)
class Prose:
    """Neighboring lines of text that a person reads, with the number of the first one."""

    line: int
    lines: tuple[str, ...]


CXX_TOKEN = re.compile(
    r'(?P<raw>R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)")|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<comment>//[^\n]*)|(?P<block>/\*.*?\*/)",
    re.DOTALL,
)
HASH_COMMENT = re.compile(r"(?:^|\s)#(?!!)(.*)$")


def joined(numbered: list[tuple[int, str]]) -> Iterator[Prose]:
    """Joins adjacent lines; an empty line ends a paragraph."""
    first, lines = 0, []
    for number, line in [*numbered, (-1, "")]:
        if lines and (number != first + len(lines) or not line.strip()):
            yield Prose(first, tuple(lines))
            lines = []
        if line.strip():
            first = first if lines else number
            lines.append(line.strip())


def cxx_prose(text: str, with_strings: bool) -> Iterator[Prose]:
    """Yields the comments of a C++, CUDA or proto file, and its string literals if requested."""
    comments: list[tuple[int, str]] = []
    number, end = 1, 0
    for token in CXX_TOKEN.finditer(text):
        number += text.count("\n", end, token.start())
        end = token.start()
        if token["comment"]:
            comments.append((number, token[0].lstrip("/")))
        elif token["block"]:
            comments += [(number + i, line.strip(" */")) for i, line in enumerate(token[0].split("\n"))]
        elif token["string"] and with_strings and not is_include(text, token.start()):
            yield Prose(number, (token["string"].strip('"'),))
    yield from joined(comments)


def is_include(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("#include")


def python_prose(text: str, with_strings: bool) -> Iterator[Prose]:
    comments: list[tuple[int, str]] = []
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        number = token.start[0]
        is_docstring = previous in (tokenize.NEWLINE, tokenize.INDENT, tokenize.NL, tokenize.DEDENT)
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            comments.append((number, token.string.lstrip("#")))
        elif token.type == tokenize.STRING and (is_docstring or with_strings):
            yield from joined([(number + i, part.strip("\"'")) for i, part in enumerate(token.string.split("\n"))])
        previous = token.type
    yield from joined(comments)


def hash_prose(text: str) -> Iterator[Prose]:
    lines = enumerate(text.splitlines(), 1)
    yield from joined([(number, found[1]) for number, line in lines if (found := HASH_COMMENT.search(line))])


def markdown_prose(text: str) -> Iterator[Prose]:
    """Yields a document without its code blocks, code spans and headings."""
    prose, in_code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        hidden = in_code or line.lstrip().startswith(("```", "#"))
        prose.append((number, "" if hidden else re.sub(r"`[^`]*`", "`x`", line.lstrip("-*0123456789. |"))))
    yield from joined(prose)


def prose_of(tree: Tree, path: str) -> Iterator[Prose]:
    suffix = pathlib.PurePath(path).suffix
    in_tests = path.startswith("tests/")
    if suffix in CXX_SUFFIXES or suffix == ".proto":
        yield from cxx_prose(tree.text(path), with_strings=not in_tests)
    elif suffix == ".py" or "python" in tree.shebang(path):
        yield from python_prose(tree.text(path), with_strings=not in_tests)
    elif suffix == ".md":
        yield from markdown_prose(tree.text(path))
    elif path in tree.code or suffix in (".yaml", ".yml"):
        yield from hash_prose(tree.text(path))


def wide_lines(tree: Tree, path: str) -> Iterator[Finding]:
    """Finds lines of documents that are too wide. Table rows, long words and code blocks cannot
    be wrapped."""
    in_code = False
    for number, line in enumerate(tree.lines(path), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        if len(line) > COLUMNS_MAX and not in_code and not line.startswith("|") and " " in line[:COLUMNS_MAX].strip():
            yield Finding(path, number, "language", f"{len(line)} columns; wrap at {COLUMNS_MAX}")


def check_prose(path: str, prose: Prose) -> Iterator[Finding]:
    for number, line in enumerate(prose.lines, prose.line):
        for banned in PHRASES:
            if (found := banned.pattern.search(line)) and not allowed(line, "language"):
                yield Finding(path, number, "language", f"'{found[0]}': write {banned.advice}")
    for number, (above, line) in enumerate(zip(prose.lines, prose.lines[1:]), prose.line + 1):
        repeats = line.endswith(".") and " " in line and line[:-1] in above[-len(line) - 6 :]
        if repeats and "`" not in line and not allowed(line, "language"):
            yield Finding(path, number, "language", f"'{line}': repeats the line above")
    text, begin = " ".join(prose.lines), 0
    for number, line in enumerate(prose.lines, prose.line):
        for found in OPENING.finditer(text):
            if begin <= found.start(1) < begin + len(line) + 1 and not allowed(line, "language"):
                yield Finding(path, number, "language", f"'{found[1].strip()} ...': begin with the subject")
        begin += len(line) + 1


def check(tree: Tree) -> list[Finding]:
    findings: list[Finding] = []
    for path in tree.files:
        if path.startswith("scripts/lib/tidy_rules/") or path == "tests/scripts/tidy_language_test.py":
            continue  # the rules and their tests name what they ban
        for prose in prose_of(tree, path):
            findings += check_prose(path, prose)
        if path.endswith((".md", ".proto")):
            findings += wide_lines(tree, path)
    return findings

"""nearfield-text: indexes a folder of texts, and answers questions about it in the terminal. The
command `nearfield text` starts it. Needs a model, by default: pip install fastembed.

    nearfield text notes                         # index the folder notes, then ask
    nearfield text notes --ask "who sells tea?"  # ask once
    nearfield text --collection packages         # ask a collection that exists, such as the demo's

The folder's files .txt, .md, .markdown and .jsonl are cut into passages, embedded, and uploaded to
a collection with the folder's name. A second run reads only files that have changed. Without --ask,
each line of the input is a question. The default model is all-MiniLM-L6-v2, which fastembed
downloads on first use; --embed or NEARFIELD_EMBED names another one. A collection keeps the name of
its model, and refuses others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nearfield._client import Client, connect
from nearfield._command import (
    EXIT_INTERRUPTED,
    add_embed_option,
    add_server_options,
    command_parser,
    fail,
    fail_call,
)
from nearfield._embed import DEFAULT, embedder_of
from nearfield._errors import Error
from nearfield._text import TextError
from nearfield._text.ask import Asker, as_json, as_lines
from nearfield._text.index import Indexed, collection_name, index_folder, open_collection
from nearfield._text.passages import SUFFIXES, Cut

PROGRAM = "nearfield text"
CHARS_MIN = 20
CHARS_MAX = 100_000
K_MAX = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parse(arguments)
    try:
        with connect(options.address, timeout=options.timeout, caller=options.caller) as client:
            return _run(client, options)
    except (Error, TextError, ValueError, OSError) as error:
        return fail_call(PROGRAM, error)
    except KeyboardInterrupt:
        return fail(PROGRAM, "interrupted: the next run continues", EXIT_INTERRUPTED)


def _run(client: Client, options: argparse.Namespace) -> int:
    folder: Path | None = options.folder
    embedder = embedder_of(options.embed or DEFAULT)
    name = options.collection or collection_name(folder or Path())
    if folder is None:
        embedder.check(client.get_collection(name))
        docs = client.collection(name)
    else:
        docs = open_collection(client, name, embedder)
        cut = Cut(options.passage_chars, tuple(options.field or ["text"]))
        show = sys.stderr.isatty()
        outcome = index_folder(
            docs, folder, embedder, cut, prune=options.prune, progress=_show if show else _ignore
        )
        print(_summary(name, outcome), file=sys.stderr, flush=True)
    asker = Asker(docs, embedder, options.k, options.filter)
    for question in options.ask or _questions(sys.stdin):
        answer = asker.search(question)
        lines: Iterable[str] = (
            [as_json(question, answer)] if options.json else [*as_lines(answer), ""]
        )
        print("\n".join(lines), flush=True)
    return 0


def _questions(source: Iterable[str]) -> Iterator[str]:
    """Yields the lines of the input; on a terminal after a prompt."""
    prompting = sys.stdin.isatty()
    lines = iter(source)
    while True:
        if prompting:
            print("? ", end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            return
        if line.strip():
            yield line.strip()


def _show(done: int, total: int, passages: int) -> None:
    end = "\n" if done == total else ""
    text = f"\r{done:,} of {total:,} files, {passages:,} passages"
    print(text, end=end, file=sys.stderr, flush=True)


def _ignore(done: int, total: int, passages: int) -> None:
    pass


def _summary(name: str, outcome: Indexed) -> str:
    text = (
        f"{name}: {outcome.files:,} files, {outcome.unchanged:,} unchanged,"
        f" {outcome.passages:,} passages uploaded, {outcome.deleted:,} deleted"
    )
    if outcome.gone:
        text += (
            f"; {len(outcome.gone):,} sources are not in the folder, such as {outcome.gone[0]}:"
            " --prune deletes their passages"
        )
    return text


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_parser(PROGRAM, __doc__)
    add = parser.add_argument
    add("folder", nargs="?", type=Path, metavar="FOLDER", help=f"texts: {', '.join(SUFFIXES)}")
    add("-c", "--collection", help="its name or alias [the folder's name]")
    add_embed_option(parser)
    add("--ask", action="append", metavar="QUESTION", help="answer and end; may be repeated")
    add("-k", type=int, default=5, help="passages of an answer [5]")
    add("--filter", metavar="TEXT", help="only passages that pass, such as: source == 'a.md'")
    add("--field", action="append", metavar="NAME", help="member of JSONL records [text]")
    add("--passage-chars", type=int, metavar="N", help="at most N [1000]")
    add("--prune", action="store_true", help="delete passages of files that are gone")
    add("--json", action="store_true", help="print each answer as one line of JSON")
    add("--timeout", type=float, default=30.0, help="seconds of a call [30]")
    add_server_options(parser, caller="")
    options = parser.parse_args(arguments)
    if options.folder is None and options.collection is None:
        parser.error("give a FOLDER, or --collection to ask one that exists")
    for name in ("prune", "field", "passage_chars"):
        if getattr(options, name) and options.folder is None:
            parser.error(f"--{name.replace('_', '-')}: needs a FOLDER to read")
    if options.passage_chars is None:
        options.passage_chars = Cut.chars_max
    for name, value, low, high in (
        ("-k", options.k, 1, K_MAX),
        ("--passage-chars", options.passage_chars, CHARS_MIN, CHARS_MAX),
    ):
        if not low <= value <= high:
            parser.error(f"{name}: {value}, must be from {low} to {high}")
    return options


if __name__ == "__main__":
    sys.exit(main())

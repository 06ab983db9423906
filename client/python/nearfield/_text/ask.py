"""Questions: a search with the vector of a text, and its answer as lines or as JSON."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from nearfield._collection import Collection
from nearfield._embed import Embedder
from nearfield._results import Hit, SearchResult

SHOWN_LINES = 4  # of a passage
COLUMNS_MAX = 100


@dataclass(frozen=True)
class Asker:
    """Answers questions from one collection. k: passages of an answer; filter: as in search()."""

    docs: Collection
    embedder: Embedder
    k: int = 5
    filter: str | None = None

    def search(self, question: str) -> SearchResult:
        vector = self.embedder.query(question)
        return self.docs.search(vector, k=self.k, filter=self.filter, payload=True, attributes="*")


def place_of(hit: Hit) -> str:
    """Returns where a passage is: source:position, or the id of a row without them."""
    source, position = hit.attributes.get("source"), hit.attributes.get("position")
    return str(hit.id) if source is None or position is None else f"{source}:{position}"


def as_json(question: str, answer: SearchResult) -> str:
    """Returns an answer as one line of JSON. Scores are exact: Python prints the shortest text
    that is read back to the same bits."""
    hits = [
        {
            "id": hit.id,
            "score": hit.score,
            "source": hit.attributes.get("source"),
            "position": hit.attributes.get("position"),
            "text": hit.text,
        }
        for hit in answer
    ]
    found = {"question": question, "epoch": answer.epoch, "hits": hits}
    return json.dumps(found, ensure_ascii=False)


def as_lines(answer: SearchResult) -> Iterator[str]:
    """Yields an answer for a terminal: a line with score and place for each hit, and the begin of
    its passage."""
    width = min(COLUMNS_MAX, shutil.get_terminal_size((COLUMNS_MAX, 24)).columns)
    for hit in answer:
        yield f"{hit.score:.4f}  {printable(place_of(hit))}"
        yield from textwrap.wrap(
            printable(hit.text),
            width,
            initial_indent="        ",
            subsequent_indent="        ",
            max_lines=SHOWN_LINES,
            placeholder=" ...",
        )
    if not len(answer):
        yield "nothing found"


def printable(text: str) -> str:
    """Returns a text that cannot control a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)

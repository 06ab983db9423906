"""How an upload reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nearfield._arguments import flag


@dataclass(frozen=True)
class Progress:
    """How far an upload is.

    rows_sent      by this call
    rows_skipped   rows that the server had already
    rows_received  rows that the server has confirmed, not yet visible
    rows_max       rows of the whole upload
    bytes_sent     by this call
    """

    rows_sent: int
    rows_skipped: int
    rows_received: int
    rows_max: int
    bytes_sent: int


def progress_of(
    progress: bool | Callable[[Progress], None],
) -> tuple[Callable[[Progress], None] | None, Callable[[], None]]:
    """Returns what an upload calls after each block, and what it calls at its end. True draws a
    bar with tqdm."""
    if callable(progress):
        return progress, lambda: None
    if not flag("progress", progress):
        return None, lambda: None
    from tqdm.auto import tqdm

    bar: Any = tqdm(unit="row", unit_scale=True)

    def show(now: Progress) -> None:
        bar.total = now.rows_max
        bar.update(now.rows_skipped + now.rows_sent - bar.n)

    return show, bar.close

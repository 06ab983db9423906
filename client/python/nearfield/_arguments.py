"""Names of arguments: an unknown one is refused, because a call without it does something else."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


def refuse_unknown(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError for a name that is not known. The message has a similar name and all known
    ones. owner: what has the arguments, such as "a search"."""
    unknown = sorted(set(given).difference(known))
    if unknown:
        similar = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        names = ", ".join(sorted(known)) or "none"
        raise TypeError(f"{unknown[0]}: no argument of {owner}{hint} (known: {names})")

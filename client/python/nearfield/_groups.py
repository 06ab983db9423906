"""Groups of an answer: the rows with one value of an attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nearfield._attributes import read_values

if TYPE_CHECKING:
    from nearfield._results import Hit


@dataclass(frozen=True)
class Group:
    """A group of an answer: its value of the attribute, and its hits, best first. Times are
    datetimes in UTC."""

    value: Any
    hits: tuple[Hit, ...]


def read_group_sizes(message: Any) -> tuple[tuple[Any, int], ...] | None:
    """Returns the value and the number of rows of each group; None if no groups were requested."""
    if not message.HasField("groups"):
        return None
    groups = message.groups
    return tuple(zip(read_values(groups.values), groups.rows_counts, strict=True))

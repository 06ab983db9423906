"""The outcomes of calls that change rows."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield._values import Ids


@dataclass(frozen=True)
class Deleted:
    """rows_deleted: ids that name no row are not counted. epoch: the first without the rows;
    incarnation: of the epoch."""

    rows_deleted: int
    epoch: int
    incarnation: int


@dataclass(frozen=True)
class Updated:
    """The result of an update.

    rows         the number of rows that changed
    epoch        the first epoch that shows them, and its incarnation; if none changed, the current
    missing      the ids that name no row
    refused      the ids of the rows that do not pass if_
    """

    rows: int
    epoch: int
    incarnation: int
    missing: Ids
    refused: Ids


@dataclass(frozen=True)
class Uploaded:
    """A committed upload.

    epoch          the first epoch that shows the rows, and its incarnation
    rows_count     rows that the upload added
    rows_replaced  rows of earlier epochs that were replaced
    rows_resumed   rows that the server already had when this call began
    request_id     the id of the call in the server's log
    """

    epoch: int
    incarnation: int
    rows_count: int
    rows_replaced: int
    rows_resumed: int
    request_id: str | None

"""Facets: how many rows have each value of an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nearfield._attributes import read_values
from nearfield._proto import facets_pb2 as pb


@dataclass(frozen=True)
class Facet:
    """The values of one attribute among the counted rows.

    counts        the number of rows of each value, the largest number first; of equal ones, the
                  smaller value. At most values_max values. Times are datetimes in UTC
    values_count  distinct values, those that are not in counts included
    rows_missing  rows without a value
    """

    counts: Mapping[Any, int]
    values_count: int
    rows_missing: int


@dataclass(frozen=True)
class Facets:
    """The facets of some attributes, by name: facets["language"].counts.

    rows_count   rows that were counted
    epoch        the state of the collection that they show
    incarnation  of the epoch
    """

    facets: Mapping[str, Facet]
    rows_count: int
    epoch: int
    incarnation: int

    def __getitem__(self, name: str) -> Facet:
        return self.facets[name]


def read_facets(message: pb.FacetsResponse) -> Facets:
    facets = {
        each.attribute: Facet(
            dict(zip(read_values(each.values), each.rows_counts, strict=True)),
            each.values_count,
            each.rows_missing,
        )
        for each in message.facets
    }
    return Facets(facets, message.rows_count, message.epoch, message.incarnation)

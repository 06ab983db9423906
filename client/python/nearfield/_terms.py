"""Row terms: what a search adds to the score of a row: recency, importance, boosts.

    from nearfield import F, HalfLife, Is, Linear
    memory.search(query, terms=[
        HalfLife("written", half_life=timedelta(days=30), origin=now, weight=0.3),
        Linear("importance", weight=0.1),
        Is(F.kind == "note", weight=0.05),
    ])

The final score of a row is score_weight * score + the terms, in the order of the list: terms.proto,
"Row terms". Times, datetimes with a zone, count in microseconds since 1970, and timedeltas in
microseconds. The server never reads its clock: the same request has the same answer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearfield._arguments import real, text
from nearfield._attributes import MICROSECOND, microseconds, timedelta64_us
from nearfield._filter import FilterLike
from nearfield._filter_forms import set_filter
from nearfield._proto import terms_pb2 as pb

# A number, or a time for an attribute that is a timestamp.
Moment: TypeAlias = float | dt.datetime | dt.date | np.datetime64
Span: TypeAlias = float | dt.timedelta | np.timedelta64


@dataclass(frozen=True)
class Linear:
    """weight * (a - origin) * scale for a row whose attribute is `a`: a number, a time or a bool.

    missing  in place of (a - origin) * scale for a row without a value
    """

    attribute: str
    _: KW_ONLY
    weight: float = 1.0
    origin: Moment = 0.0
    scale: float = 1.0
    missing: float = 0.0

    def _set(self, term: pb.RowTerm, field: str) -> None:
        _set_of_numbers(self, term, field)
        _set_line(term.linear, self, field)


@dataclass(frozen=True)
class Clamped:
    """As Linear, but (a - origin) * scale is at lowest `low` and at most `high`; weight and missing
    as in Linear, for a row whose attribute is `a`."""

    attribute: str
    _: KW_ONLY
    low: float
    high: float
    weight: float = 1.0
    origin: Moment = 0.0
    scale: float = 1.0
    missing: float = 0.0

    def _set(self, term: pb.RowTerm, field: str) -> None:
        _set_of_numbers(self, term, field)
        _set_line(term.clamped, self, field)
        term.clamped.low = real(f"{field}.low", self.low)
        term.clamped.high = real(f"{field}.high", self.high)


@dataclass(frozen=True)
class HalfLife:
    """weight at the origin, and half as much for each half_life that a row's attribute is away from
    it, in either direction. Recency: origin=now, with an attribute that is a timestamp.

    offset   up to this distance from the origin the term is still the weight
    missing  of a row without a value: the term is weight * missing
    """

    attribute: str
    _: KW_ONLY
    half_life: Span
    origin: Moment
    weight: float = 1.0
    offset: Span = 0.0
    missing: float = 0.0

    def _set(self, term: pb.RowTerm, field: str) -> None:
        _set_of_numbers(self, term, field)
        term.half_life.origin = _moment(f"{field}.origin", self.origin)
        term.half_life.half_life = _span(f"{field}.half_life", self.half_life)
        term.half_life.offset = _span(f"{field}.offset", self.offset)


@dataclass(frozen=True)
class Is:
    """weight for a row that passes the filter, 0 for another: a boost.

    filter  an expression of F, a dict, or a text
    """

    filter: FilterLike
    _: KW_ONLY
    weight: float = 1.0

    def _set(self, term: pb.RowTerm, field: str) -> None:
        term.weight = real(f"{field}.weight", self.weight)
        term.filter.SetInParent()
        try:
            set_filter(term.filter, self.filter)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{field}.{error}") from None


Term: TypeAlias = Linear | Clamped | HalfLife | Is
TermsLike: TypeAlias = Term | Iterable[Term]


@dataclass(frozen=True)
class Parts:
    """The parts of the final score of a row: score_weight * score + terms.

    score  of the vectors: the score of a search without terms
    terms  the sum of the row terms, as float64; 0 without any
    """

    score: float
    terms: float


@dataclass(frozen=True)
class PartArrays:
    """The parts of the scores of several rows.

    scores  float32 [n]
    terms   float64 [n]
    """

    scores: NDArray[np.float32]
    terms: NDArray[np.float64]

    def __getitem__(self, i: int) -> Parts:
        return Parts(float(self.scores[i]), float(self.terms[i]))


def read_parts(message: Any) -> PartArrays | None:
    """Reads the parts of a result; None if it has none."""
    if not message.HasField("parts"):
        return None
    parts = message.parts
    return PartArrays(
        np.array(parts.scores[:], np.float32), np.array(parts.term_sums[:], np.float64)
    )


def set_terms(request: Any, terms: TermsLike | None, score_weight: float | None = None) -> None:
    """Sets the terms of a request. Raises TypeError or ValueError, naming the argument."""
    if score_weight is not None:
        request.terms.score_weight = real("score_weight", score_weight)
    if terms is None:
        return
    request.terms.SetInParent()
    if isinstance(terms, Term):
        terms = [terms]
    if isinstance(terms, (str, bytes)) or not isinstance(terms, Iterable):
        raise TypeError(f"terms: {terms!r}; {_NEEDED}")
    for i, term in enumerate(terms):
        if not isinstance(term, Term):
            raise TypeError(f"terms[{i}]: {term!r}; {_NEEDED}")
        term._set(request.terms.terms.add(), f"terms[{i}]")


_NEEDED = "give Linear, Clamped, HalfLife and Is, in a list"


def _set_of_numbers(term: Linear | Clamped | HalfLife, message: pb.RowTerm, field: str) -> None:
    message.attribute = text(f"{field}.attribute", term.attribute, "the name of one")
    message.weight = real(f"{field}.weight", term.weight)
    message.missing = real(f"{field}.missing", term.missing)


def _set_line(message: Any, term: Linear | Clamped, field: str) -> None:
    message.origin = _moment(f"{field}.origin", term.origin)
    message.scale = real(f"{field}.scale", term.scale)


def _moment(field: str, value: Moment) -> float:
    if isinstance(value, (dt.date, np.datetime64)):
        return float(microseconds(value, field))
    return real(field, value)


def _span(field: str, value: Span) -> float:
    if isinstance(value, np.timedelta64):
        value = timedelta64_us(value, field)
    return value / MICROSECOND if isinstance(value, dt.timedelta) else real(field, value)

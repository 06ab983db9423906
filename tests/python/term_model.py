"""A second implementation of row terms, written from proto/nearfield/v1/terms.proto with exact
fractions. It shares no code with the server."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np

DEGREE = 13
FINITE_MAX = sys.float_info.max
FORM_MAX = 2.0**100
# ln 2, with an error far below the rounding of a float.
LN2 = sum(Fraction(2, (2 * i + 1) * 3 ** (2 * i + 1)) for i in range(110))


def _coefficients() -> list[float]:
    found, exact = [], Fraction(1)
    for i in range(DEGREE + 1):
        exact = exact * LN2 / i if i else exact
        found.append(float(exact))
    return found


COEFFICIENTS = _coefficients()


def exp2(x: float) -> float:
    if x < -1022:
        return 0.0
    n = round(x)  # ties to even
    r = x - n
    p = COEFFICIENTS[DEGREE]
    for i in range(DEGREE - 1, -1, -1):
        p = float(Fraction(p) * Fraction(r) + Fraction(COEFFICIENTS[i]))  # one rounding
    return float(Fraction(p) * Fraction(2) ** n)


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _distance(a: float, origin: float) -> float:
    return _clamp(a - origin, -FINITE_MAX, FINITE_MAX)


def _term(f, weight: float, missing: float):
    """Returns the term of a row whose attribute is `a`; None: it has no value."""
    return lambda a: weight * (missing if a is None or math.isinf(a) else _clamp(f(float(a)), -FORM_MAX, FORM_MAX))


def linear(weight=1.0, origin=0.0, scale=1.0, missing=0.0):
    return _term(lambda a: _distance(a, origin) * scale, weight, missing)


def clamped(low, high, weight=1.0, origin=0.0, scale=1.0, missing=0.0):
    return _term(lambda a: _clamp(_distance(a, origin) * scale, low, high), weight, missing)


def half_life(half_life, origin, weight=1.0, offset=0.0, missing=0.0):
    scale = 1.0 / half_life
    return _term(lambda a: exp2(-(max(0.0, abs(_distance(a, origin)) - offset) * scale)), weight, missing)


def term_sum(terms: list[float]) -> float:
    """Returns the sum in the order of the request."""
    total = terms[0] if terms else 0.0
    for term in terms[1:]:
        total += term
    return total


def final(scores: np.ndarray, sums: list[float], score_weight: float = 1.0) -> np.ndarray:
    """Returns the final scores of rows: fp32 scores and fp64 sums."""
    return (score_weight * scores.astype(np.float64) + np.array(sums)).astype(np.float32) + np.float32(0)


def best(finals: np.ndarray, k: int) -> list[tuple[int, int]]:
    """Returns the k best rows as (id, score bits); the id of a row is its place."""
    order = sorted(range(len(finals)), key=lambda row: (-float(finals[row]), row))[:k]
    return [(row, int(finals[row].view(np.uint32))) for row in order]

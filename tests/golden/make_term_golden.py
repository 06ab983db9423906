#!/usr/bin/env python3
"""Makes tests/golden/terms.txt: row terms and final scores, computed independently of the C++ code.

Written from the contract of the row terms with only the standard library and the arithmetic of
make_golden.py. Usage: make_term_golden.py [FILE] writes the file; make_term_golden.py --check [FILE]
compares it and exits with 1 if it differs.

Each line is one case, with fields separated by spaces. Numbers are the hexadecimal digits of their
bits, fp64 except s and final:
  name w0 s t final TERM...
  TERM: form,weight,origin,scale,low,high,offset,missing,a,value
"""

import math
import random
import struct
import sys
from fractions import Fraction

import golden_file

from make_golden import bits_from_fp32, bits_from_fp64, fp32_from_bits, fused_multiply_add, plus_zero, to_fp32

DEGREE = 13
FORM_MAX = 2.0**100
FINITE_MAX = sys.float_info.max
LIMIT = 2.0**60
FORMS = ("linear", "clamped", "half_life", "is")
PARAMETERS = ("weight", "origin", "scale", "low", "high", "offset", "missing")


def logarithm_of_2():
    """Returns ln 2 with an error below 2^-300: the sum of 2 / ((2 i + 1) 3^(2 i + 1))."""
    return sum(Fraction(2, (2 * i + 1) * 3 ** (2 * i + 1)) for i in range(110))


def taylor_coefficients():
    """Returns ln(2)^i / i! for i = 0 .. DEGREE, rounded to fp64."""
    coefficients, exact = [], Fraction(1)
    for i in range(DEGREE + 1):
        if i > 0:
            exact = exact * logarithm_of_2() / i
        coefficients.append(float(exact))
    return coefficients


COEFFICIENTS = taylor_coefficients()


def exp2(x):
    if x < -1022.0:
        return 0.0
    n = round(x)  # ties to even
    r = x - n
    assert Fraction(r) == Fraction(x) - n, "the remainder is exact"
    power = COEFFICIENTS[DEGREE]
    for i in range(DEGREE - 1, -1, -1):
        power = fused_multiply_add(power, r, COEFFICIENTS[i])
    return float(Fraction(power) * Fraction(2) ** n)


def clamp(value, low, high):
    return min(max(value, low), high)


def form(term, a):
    if term["form"] == "is":
        return a
    distance = clamp(a - term["origin"], -FINITE_MAX, FINITE_MAX)
    if term["form"] == "half_life":
        value = exp2(-(max(0.0, abs(distance) - term["offset"]) * term["scale"]))
    else:
        value = distance * term["scale"]
        if term["form"] == "clamped":
            value = clamp(value, term["low"], term["high"])
    return clamp(value, -FORM_MAX, FORM_MAX)


def term_value(term, a):
    return term["weight"] * (form(term, a) if math.isfinite(a) else term["missing"])


def summed(values):
    total = values[0]
    for value in values[1:]:
        total += value
    return total


def final_score(w0, s, t):
    assert w0 > 0 and math.isfinite(t)
    return plus_zero(to_fp32(w0 * s + t))


def case_line(name, w0, s, terms):
    """terms: pairs of a term and the number of the row."""
    values = [term_value(term, a) for term, a in terms]
    t = summed(values)
    texts = [",".join([term["form"], *(f"{bits_from_fp64(term[key]):016x}" for key in PARAMETERS),
                       f"{bits_from_fp64(a):016x}", f"{bits_from_fp64(value):016x}"])
             for (term, a), value in zip(terms, values)]
    return " ".join((name, f"{bits_from_fp64(w0):016x}", f"{bits_from_fp32(s):08x}", f"{bits_from_fp64(t):016x}",
                     f"{bits_from_fp32(final_score(w0, s, t)):08x}", *texts))


def make_term(kind, **parameters):
    term = {"form": kind, "weight": 1.0, "origin": 0.0, "scale": 1.0, "low": 0.0, "high": 0.0, "offset": 0.0,
            "missing": 0.0}
    assert set(parameters) <= set(PARAMETERS)
    term.update(parameters)
    assert all(math.isfinite(term[key]) for key in PARAMETERS) and term["low"] <= term["high"]
    assert all(abs(term[key]) <= LIMIT for key in ("weight", "scale", "missing"))
    return term


class Generator:
    """Draws numbers. It uses only the bits of `random`, so that every Python version makes the same
    file."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def unit(self):
        return self.random.getrandbits(53) / 2.0**53

    def signed(self, exponent):
        return (2.0 * self.unit() - 1.0) * 2.0**exponent

    def score(self):
        return to_fp32(self.signed(self.random.getrandbits(3) - 3))

    def bits32(self):
        while True:
            value = fp32_from_bits(self.random.getrandbits(32))
            if not math.isnan(value):
                return value

    def bits64(self):
        return struct.unpack("<d", struct.pack("<Q", self.random.getrandbits(64)))[0]

    def finite(self, most=FINITE_MAX):
        while True:
            value = self.bits64()
            if abs(value) <= most:
                return value

    def any_term(self):
        low, high = sorted((self.finite(), self.finite()))
        kind = FORMS[self.random.getrandbits(2)]
        scale, offset = self.finite(LIMIT), self.finite()
        if kind == "half_life":
            scale, offset = abs(scale), abs(offset)
        return make_term(kind, weight=self.finite(LIMIT), origin=self.finite(), scale=scale, low=low, high=high,
                         offset=offset, missing=self.finite(LIMIT))

    def number_of(self, term):
        if term["form"] == "is":
            return float(self.random.getrandbits(1))
        return self.bits64()


def usual_cases(generator):
    """Recency by timestamps in microseconds, importance between 0 and 1, boosts of categories."""
    hour = 3.6e9
    for place in range(60):
        now = float(1_700_000_000_000_000 + generator.random.getrandbits(45))
        then = float(int(now) - generator.random.getrandbits(42))
        recency = make_term("half_life", weight=generator.unit(), origin=now, offset=hour * (place % 3),
                            scale=1.0 / (hour * (1 + place)))
        importance = make_term("clamped", weight=0.3, origin=1.0, scale=0.1, low=0.0, high=1.0, missing=0.5)
        boost = make_term("is", weight=0.25 * (place % 4))
        likes = make_term("linear", weight=-0.001, origin=100.0, scale=0.01)
        terms = [(recency, then), (importance, 12.0 * generator.unit()), (boost, float(place % 2)),
                 (likes, float(generator.random.getrandbits(16)))]
        yield f"usual_{place}", generator.unit() + 0.1, generator.score(), terms[:1 + place % 4]


def arbitrary_cases(generator):
    for place in range(200):
        terms = [generator.any_term() for _ in range(1 + place % 5)]
        yield (f"arbitrary_{place}", abs(generator.finite(LIMIT)) or 1.0, generator.bits32(),
               [(term, generator.number_of(term)) for term in terms])


def half_life_cases(generator):
    """Powers at integers, halves and thirds, and next to the smallest ones."""
    for place in range(-1024, 3, 13):
        yield f"integer_{-place}", 1.0, 0.0, [(make_term("half_life"), float(place))]
    for x in (0.5, 1.5, 2.5, 1021.5, 1022.0, math.nextafter(1022.0, 1e9), 1023.0, 1e300, 5e-324, 1e-17, 1 / 3):
        yield f"power_{x:.4g}", 1.0, 1.0, [(make_term("half_life", weight=2.0**60), x)]
    for place in range(120):
        distance = generator.unit() * 2.0 ** (place % 12 - 2)
        yield f"power_drawn_{place}", 1.0, 0.25, [(make_term("half_life", weight=1.5), distance)]
    yield "offset_reached", 1.0, 0.0, [(make_term("half_life", origin=10.0, offset=4.0), 14.0)]
    yield "offset_passed", 1.0, 0.0, [(make_term("half_life", origin=10.0, offset=4.0), 4.0)]
    yield "scale_of_zero", 1.0, 0.0, [(make_term("half_life", origin=-FINITE_MAX, scale=0.0), FINITE_MAX)]


def border_cases():
    """Numbers and parameters at the ends of their ranges."""
    greatest, least = FINITE_MAX, 5e-324
    for name, a in (("nan", math.nan), ("inf", math.inf), ("minus_inf", -math.inf)):
        for kind in ("linear", "clamped", "half_life"):
            yield f"missing_{kind}_{name}", 0.5, 2.0, [(make_term(kind, weight=-3.0, missing=0.75), a)]
    for name, a in (("int64_max", float(2**63 - 1)), ("int64_min", float(-2**63)), ("beyond_53_bits", float(2**53 + 1)),
                    ("greatest", greatest), ("minus_greatest", -greatest), ("least", least), ("minus_zero", -0.0)):
        for kind in ("linear", "clamped", "half_life"):
            for origin in (0.0, greatest, -greatest, 1.0):
                for scale in (0.0, 1.0, LIMIT):
                    term = make_term(kind, weight=LIMIT, origin=origin, scale=scale, low=-greatest, high=greatest)
                    yield f"border_{kind}_{name}", 1.0, -1.0, [(term, a)]
    for s in (math.inf, -math.inf, fp32_from_bits(0x7F7FFFFF), fp32_from_bits(0xFF7FFFFF), fp32_from_bits(1), -0.0):
        for w0 in (LIMIT, 1.0, least):
            term = make_term("linear", weight=-LIMIT, scale=LIMIT)
            yield "border_score", w0, s, [(term, 2.0**40), (make_term("is", weight=-0.0), 1.0)]


def decided_cases(generator):
    """Cases whose final bits change with the order of the terms, with a fused multiply-add, or with
    a weight that is applied before the clamp."""
    for place in range(12):
        w0, s = generator.unit() + 0.5, generator.score()
        large, small = generator.signed(50), generator.signed(-3)
        terms = [(make_term("linear", weight=weight), large) for weight in (0.75, -0.75)]
        terms.append((make_term("linear"), small))
        values = [term_value(term, a) for term, a in terms]
        assert final_score(w0, s, summed(values)) != final_score(w0, s, summed(values[::-1]))
        yield f"decided_by_order_{place}", w0, s, terms

        w0, s = generator.unit() + 0.5, generator.score()
        terms = [(make_term("linear", weight=-1.0), w0 * s)]
        assert final_score(w0, s, -(w0 * s)) != plus_zero(to_fp32(fused_multiply_add(w0, s, -(w0 * s))))
        yield f"decided_by_fused_{place}", w0, s, terms

        weight, number = 3.0 + generator.unit(), 0.5 + generator.unit() / 2.0
        terms = [(make_term("clamped", weight=weight, low=-1.0, high=1.0), number)]
        assert term_value(*terms[0]) != clamp(weight * number, -1.0, 1.0)
        yield f"decided_by_clamp_{place}", 1.0, generator.score(), terms


def golden():
    generator = Generator(20260131)
    lines = ["# nearfield golden terms 1; made by tests/golden/make_term_golden.py, which says what the fields are"]
    for cases in (usual_cases(generator), arbitrary_cases(generator), half_life_cases(generator), border_cases(),
                  decided_cases(generator)):
        lines.extend(case_line(*case) for case in cases)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(golden_file.main(sys.argv[1:], "terms.txt", golden))

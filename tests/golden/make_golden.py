#!/usr/bin/env python3
"""Makes tests/golden/scores.txt: results of the score formula, computed independently of the C++
code.

Written from the contract in proto/nearfield/v1/retrieval.proto, "Score", with only the standard
library. Python floats are IEEE fp64; `struct` packs fp32 and fp16; fractions compute the fused
multiply-add, which is then rounded once. Usage: make_golden.py [FILE] writes the file;
make_golden.py --check [FILE] compares it and exits with 1 if it differs.

Each line is one case, with fields separated by spaces. Numbers are the hexadecimal digits of their
bits; vectors are one element after another:
  name row_type S(q,x) T(q,x) dot cosine l2 query row
  S, T: fp64 bits. dot, cosine, l2: fp32 bits of the score, cosine "-" if the query is all zeros.
"""

import math
import random
import struct
import sys
from fractions import Fraction

import golden_file

ROW_TYPES = ("fp32", "fp16", "bf16")
MAX_BITS = {"fp32": 0x7F7FFFFF, "fp16": 0x7BFF, "bf16": 0x7F7F}
MANTISSA_BITS = {"fp32": 23, "fp16": 10, "bf16": 7}
ELEMENT_BITS = {"fp32": 32, "fp16": 16, "bf16": 16}


def fp32_from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits_from_fp32(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def bits_from_fp64(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def element(row_type, bits):
    """Returns the exact value of one stored element."""
    if row_type == "fp32":
        return fp32_from_bits(bits)
    if row_type == "fp16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return fp32_from_bits(bits << 16)


def exact_round_to_fp32(value):
    """Rounds fp64 to the nearest fp32, ties to even, with integer arithmetic only."""
    if value == 0.0 or math.isinf(value):
        return value
    magnitude = Fraction(abs(value))
    exponent = math.frexp(abs(value))[1] - 1
    ulp = Fraction(2) ** max(exponent - 23, -149)
    units = magnitude / ulp
    whole = units.numerator // units.denominator
    rest = units - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1):
        whole += 1
    rounded = whole * ulp
    result = math.inf if rounded >= Fraction(2) ** 128 else float(rounded)
    return math.copysign(result, value)


def to_fp32(value):
    """Returns (float)value, as the hardware rounds it; checked against integer arithmetic."""
    try:
        result = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        result = math.copysign(math.inf, value)
    assert bits_from_fp32(result) == bits_from_fp32(exact_round_to_fp32(value))
    return result


def fused_multiply_add(a, b, c):
    """Returns a * b + c rounded once to fp64. A zero result here is always +0, because c is never
    -0."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def tree(a):
    for h in (16, 8, 4, 2, 1):
        for l in range(h):
            a[l] += a[l + h]
    return a[0]


def dot_sum(q, x):
    a = [0.0] * 32
    for d, (qd, xd) in enumerate(zip(q, x)):
        product = qd * xd
        assert Fraction(product) == Fraction(qd) * Fraction(xd), "a product of two fp32 values is exact in fp64"
        a[d % 32] += product
    return tree(a)


def l2_sum(q, x):
    a = [0.0] * 32
    for d, (qd, xd) in enumerate(zip(q, x)):
        t = qd - xd
        a[d % 32] = fused_multiply_add(t, t, a[d % 32])
    return tree(a)


def plus_zero(score):
    """Returns score + 0.0f, which turns -0 into +0."""
    return score + 0.0


def cosine(q, x, s):
    row_squared = dot_sum(x, x)
    if row_squared == 0.0:
        return -math.inf
    score = plus_zero(to_fp32(s / (math.sqrt(dot_sum(q, q)) * math.sqrt(row_squared))))
    return min(1.0, max(-1.0, score))


def case_line(name, row_type, query_bits, row_bits):
    q = [fp32_from_bits(bits) for bits in query_bits]
    x = [element(row_type, bits) for bits in row_bits]
    assert len(q) == len(x) and all(math.isfinite(value) for value in q + x)
    s = dot_sum(q, x)
    t = l2_sum(q, x)
    dot = plus_zero(to_fp32(s))
    l2 = 0.0 - to_fp32(t)
    cosine_field = f"{bits_from_fp32(cosine(q, x, s)):08x}" if any(q) else "-"
    digits = ELEMENT_BITS[row_type] // 4
    return " ".join((
        name, row_type, f"{bits_from_fp64(s):016x}", f"{bits_from_fp64(t):016x}", f"{bits_from_fp32(dot):08x}",
        cosine_field, f"{bits_from_fp32(l2):08x}", "".join(f"{bits:08x}" for bits in query_bits),
        "".join(f"{bits:0{digits}x}" for bits in row_bits)))


class Generator:
    """Draws element bits. It uses only the bits of `random`, so that every Python version makes the
    same file."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def unit(self):
        return self.random.getrandbits(24) / 2.0**24

    def gaussian(self):
        return sum(self.unit() for _ in range(12)) - 6.0

    def encode(self, row_type, value):
        """Returns the bits of a value near `value` (truncated, not rounded; it does not matter
        which)."""
        if row_type == "fp16":
            return struct.unpack("<H", struct.pack("<e", value))[0]
        bits = bits_from_fp32(to_fp32(value))
        return bits if row_type == "fp32" else bits >> 16

    def normal(self, row_type):
        return self.encode(row_type, self.gaussian())

    def arbitrary(self, row_type):
        sign = self.random.getrandbits(1) << (ELEMENT_BITS[row_type] - 1)
        return sign | (self.random.getrandbits(32) % (MAX_BITS[row_type] + 1))

    def denormal(self, row_type):
        sign = self.random.getrandbits(1) << (ELEMENT_BITS[row_type] - 1)
        return sign | self.random.getrandbits(MANTISSA_BITS[row_type])

    def huge(self, row_type):
        sign = self.random.getrandbits(1) << (ELEMENT_BITS[row_type] - 1)
        return sign | (MAX_BITS[row_type] - self.random.getrandbits(3))

    def cancelling(self, row_type):
        """Returns values of very different magnitude, so that the order of additions changes the
        result."""
        scale = 2.0 ** (self.random.getrandbits(5) % (14 if row_type == "fp16" else 32))
        return self.encode(row_type, self.gaussian() * scale)

    def sparse(self, row_type):
        return self.normal(row_type) if self.random.getrandbits(3) == 0 else self.zero(row_type)

    def zero(self, row_type):
        return self.random.getrandbits(1) << (ELEMENT_BITS[row_type] - 1)

    def draw(self, family, row_type, dim):
        return [getattr(self, family)(row_type) for _ in range(dim)]


def drawn_cases(generator):
    lengths = list(range(1, 68)) + [95, 96, 97, 100, 127, 128, 129, 159, 161, 191, 192, 193, 199, 200]
    for place, dim in enumerate(lengths):
        row_type = ROW_TYPES[place % 3]
        yield f"normal_{dim}", row_type, generator.draw("normal", "fp32", dim), generator.draw("normal", row_type, dim)
    families = ("arbitrary", "denormal", "huge", "cancelling", "sparse", "zero")
    for row_type in ROW_TYPES:
        for family in families:
            for dim in (1, 3, 31, 33, 50):
                yield (f"{family}_{dim}", row_type, generator.draw(family, "fp32", dim),
                       generator.draw(family, row_type, dim))
            for dim in (2, 40):
                yield (f"normal_query_{family}_{dim}", row_type, generator.draw("normal", "fp32", dim),
                       generator.draw(family, row_type, dim))
                yield (f"{family}_query_normal_{dim}", row_type, generator.draw(family, "fp32", dim),
                       generator.draw("normal", row_type, dim))


def cancelling_pairs(generator):
    """Large products that cancel across accumulators and leave the small ones: the order also
    decides the fp32 bits."""
    for row_type in ROW_TYPES:
        for dim in (34, 65, 97, 130):
            query = generator.draw("cancelling", "fp32", dim)
            row = generator.draw("cancelling", row_type, dim)
            flip = 1 << (ELEMENT_BITS[row_type] - 1)
            for d in range(dim // 2):
                query[dim - 1 - d] = query[d]
                row[dim - 1 - d] = row[d] ^ flip
            query[dim // 2] = bits_from_fp32(to_fp32(1.0 / 3.0))
            yield f"cancel_{dim}", row_type, query, row


def parallel_pairs(generator):
    """Cosine of +-1, equal rows (L2 of 0), and rows that differ by one unit in the last place."""
    for row_type in ROW_TYPES:
        for dim in (1, 7, 32, 45, 96):
            row = generator.draw("normal", row_type, dim)
            same = [bits_from_fp32(element(row_type, bits)) for bits in row]
            sign = 1 << 31
            yield f"equal_{dim}", row_type, same, row
            yield f"opposite_{dim}", row_type, [bits ^ sign for bits in same], row
            yield f"scaled_{dim}", row_type, [bits_from_fp32(fp32_from_bits(bits) * 2.0**-40) for bits in same], row
            near = list(row)
            near[dim // 2] ^= 1
            yield f"one_ulp_{dim}", row_type, same, near


def f32(*values):
    return [bits_from_fp32(value) for value in values]


def border_cases():
    """Cases where the conversion to fp32 rounds, overflows or loses its sign."""
    greatest = fp32_from_bits(0x7F7FFFFF)
    half_ulp = 2.0**103
    below = fp32_from_bits(bits_from_fp32(half_ulp) - 1)
    least = 2.0**-149
    yield "overflow_tie", "fp32", f32(greatest, 1.0), f32(1.0, half_ulp)
    yield "overflow_below_tie", "fp32", f32(greatest, 1.0), f32(1.0, below)
    yield "negative_overflow_tie", "fp32", f32(-greatest, 1.0), f32(1.0, -half_ulp)
    yield "negative_overflow_below_tie", "fp32", f32(-greatest, 1.0), f32(1.0, -below)
    yield "greatest", "fp32", f32(greatest), f32(greatest)
    yield "greatest_opposite", "fp32", f32(-greatest), f32(greatest)
    yield "greatest_cancels", "fp32", f32(greatest, greatest), f32(greatest, -greatest)
    yield "greatest_cancels_later", "fp32", f32(*[greatest] * 66), f32(*[greatest] * 33, *[-greatest] * 33)
    yield "least", "fp32", f32(least), f32(least)
    yield "minus_least", "fp32", f32(-least), f32(least)
    yield "least_times_one", "fp32", f32(-least), f32(1.0)
    yield "underflow_tie", "fp32", f32(least), f32(0.5)
    yield "underflow_above_tie", "fp32", f32(least), f32(0.5000001)
    yield "minus_underflow_tie", "fp32", f32(-least), f32(0.5)
    yield "denormal_tie_to_even", "fp32", f32(least * 3.0), f32(0.5)
    yield "minus_zero", "fp32", f32(-0.0), f32(1.0)
    yield "minus_zeros", "fp32", f32(*[-0.0] * 40), f32(*[3.0] * 40)
    yield "one_and_minus_zero_row", "fp32", f32(1.0, 2.0), f32(-0.0, 0.0)
    yield "round_tie_to_even_down", "fp32", f32(1.0, 1.0), f32(1.0, 2.0**-24)
    yield "round_tie_to_even_up", "fp32", f32(1.0, 1.0), f32(1.0 + 2.0**-23, 2.0**-24)
    yield "round_above_tie", "fp32", f32(1.0, 1.0, 1.0), f32(1.0, 2.0**-24, 2.0**-50)
    yield "l2_cancels_in_fp32_only", "fp32", f32(1.0 + 2.0**-23), f32(1.0)
    yield "l2_of_unlike_sizes", "fp32", f32(2.0**60, 3.0), f32(1.0, 2.0**-60)
    for place, bits in enumerate((0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x8000, 0x3C01)):
        yield f"half_{place}", "fp16", f32(fp32_from_bits(0x3F7FFFFF), 1.0), [bits, 0x0001]
    for place, bits in enumerate((0x0001, 0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F, 0x8000, 0x3F81)):
        yield f"bfloat_{place}", "bf16", f32(fp32_from_bits(0x3F7FFFFF), 1.0), [bits, 0x0001]


def fused_cases(generator):
    """Distances whose squares need more than 53 bits: T differs between fused and unfused
    arithmetic."""
    for row_type in ROW_TYPES:
        for dim in (33, 64, 70):
            query = [bits_from_fp32(fp32_from_bits(bits) * 1.0e-6) for bits in generator.draw("normal", "fp32", dim)]
            yield f"fused_{dim}", row_type, query, generator.draw("normal", row_type, dim)


def rounding_cases(generator):
    """Cosines so close to a tie of fp32 that other ways to compute the norms, or to divide by them,
    give another score."""
    wanted = {"product_of_squares": 4, "two_divisions": 4}
    tie = 1.0 - 3 * 2.0**-25
    while any(wanted.values()):
        c = fp32_from_bits(bits_from_fp32(1.0) + generator.random.getrandbits(23))
        a = fp32_from_bits(bits_from_fp32(1.0) + generator.random.getrandbits(23))
        b = to_fp32(a * math.sqrt((1.0 - tie) * (1.0 + tie)) / tie)
        s, q_squared, x_squared = dot_sum([c, 0.0], [a, b]), dot_sum([c], [c]), dot_sum([a, b], [a, b])
        score = to_fp32(s / (math.sqrt(q_squared) * math.sqrt(x_squared)))
        others = {"product_of_squares": to_fp32(s / math.sqrt(q_squared * x_squared)),
                  "two_divisions": to_fp32(s / math.sqrt(q_squared) / math.sqrt(x_squared))}
        for name, other in others.items():
            if other != score and wanted[name] > 0:
                wanted[name] -= 1
                yield f"cosine_not_{name}", "fp32", f32(c, 0.0), f32(a, b)


def golden():
    generator = Generator(20240229)
    lines = ["# nearfield golden scores 1; made by tests/golden/make_golden.py, which says what the fields are"]
    for cases in (drawn_cases(generator), cancelling_pairs(generator), parallel_pairs(generator), border_cases(),
                  fused_cases(generator), rounding_cases(generator)):
        lines.extend(case_line(*case) for case in cases)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(golden_file.main(sys.argv[1:], "scores.txt", golden))

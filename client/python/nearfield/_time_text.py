"""Times as text, with the rules of filters: client/value_text/timestamp_text.h."""

from __future__ import annotations

import re

import numpy as np

_SHAPE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(\d+))?"
    r"(?:(Z)|([+-])([01]\d|2[0-3]):([0-5]\d))?)?",
    re.ASCII | re.IGNORECASE,
)
_MINUTE_US = 60_000_000
# The first microseconds of the years 0000 and 10000.
_BEGIN_US, _END_US = (
    int(np.datetime64(text, "us").astype(np.int64)) for text in ("0000-01-01", "+10000-01-01")
)


def parse_time(text: str) -> int:
    """Returns the microseconds since 1970-01-01T00:00:00Z of a time such as 2024-05-17 (UTC),
    2024-05-17T09:30Z or 2024-05-17T11:30:00.25+02:00. Raises ValueError; the message continues a
    sentence that begins with the text: "is not a time; ..."."""
    found = _SHAPE.fullmatch(text)
    wrong = (
        "is not a time; write it as 2024-05-17 (UTC), 2024-05-17T09:30:00Z or"
        " 2024-05-17T11:30:00.123456+02:00"
    )
    if found is None:
        raise ValueError(wrong)
    date, clock, fraction, utc, sign, hours, minutes = found.groups()
    try:
        begin = np.datetime64(f"{date}T{clock or '00:00'}", "us")
    except ValueError:
        raise ValueError(wrong) from None
    if clock and not (utc or sign):
        raise ValueError("has no offset from UTC: append Z for UTC, or an offset such as +02:00")
    digits = (fraction or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise ValueError("is finer than a microsecond: write at most six digits of a second")
    offset = (int(hours) * 60 + int(minutes)) * _MINUTE_US if sign else 0
    us = int(begin.astype(np.int64)) + int(digits[:6]) - (-offset if sign == "-" else offset)
    if not _BEGIN_US <= us < _END_US:
        raise ValueError("is not in the years 0000 to 9999 of UTC")
    return us

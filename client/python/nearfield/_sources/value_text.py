"""Values of attributes in texts, with the grammar of client/value_text and client/formats."""

from __future__ import annotations

import re

import numpy as np

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(?:[Zz]|([+-])(\d\d):(\d\d))?)?",
    re.ASCII,
)
_HAS_OFFSET = re.compile(r"([Zz]|[+-]\d\d:\d\d)$", re.ASCII)


def time_us(text: str, name: str) -> int:
    """Returns a time as microseconds since 1970: a day, which is its midnight in UTC, or a time of
    RFC 3339 with its offset."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{name}: {text!r} is not a time; write it as 2024-05-17 (UTC) or 2024-05-17T09:30:00Z"
        )
    day, minutes, seconds, sign, hours, offset = found.groups()
    if minutes and not _HAS_OFFSET.search(text):
        raise ValueError(f"{name}: {text!r} has no offset from UTC: append Z, or +02:00")
    whole, _, fraction = (seconds or ":00").partition(".")
    if fraction[6:].strip("0"):
        raise ValueError(f"{name}: {text!r} is finer than a microsecond")
    try:
        time = np.datetime64(f"{day}T{minutes or '00:00'}{whole}.{fraction[:6] or '0'}", "us")
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not a time") from None
    shift = (int(hours) * 60 + int(offset)) * 60_000_000 if sign else 0
    return int(time.astype(np.int64)) + (shift if sign == "-" else -shift)

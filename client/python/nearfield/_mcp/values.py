"""Ids, attributes and payloads as agents read and write them.

JSON has no NaN, no infinities and no times, and readers in JavaScript round integers beyond 2^53.
These values are texts, in replies and in arguments.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from typing import Annotated, Any

import numpy as np
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Strict

from nearfield._attributes import Attribute
from nearfield._records import CollectionInfo
from nearfield._results import Rows
from nearfield._time_text import parse_time
from nearfield._values import UINT64_MAX, Id, listed

#: One id in a call. Without Strict, true would be the id 1.
GivenId = Annotated[int, Strict()] | str
# The largest integer that no reader of JSON rounds, and to which it rounds no other.
EXACT_MAX = 2**53 - 1
# Encoders of JSON have limits too.
LEVELS_MAX = 100
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}", re.ASCII)


def read_id(info: CollectionInfo, given: Id, field: str) -> Id:
    """Returns an id with the type of the collection's ids. Raises ToolError for one that it cannot
    have."""
    if info.id_type == "string":
        if isinstance(given, str):
            return given
        raise ToolError(f'{field}: {given}; ids of this collection are texts: "{given}"')
    if isinstance(given, int):
        _check_exact(given, field)
    number = int(given) if isinstance(given, int) or _INTEGER.fullmatch(given) else -1
    if not 0 <= number <= UINT64_MAX:
        raise ToolError(
            f"{field}: {json.dumps(given)}; ids of this collection are whole numbers from 0 to"
            f" {UINT64_MAX}"
        )
    return number


def read_ids(info: CollectionInfo, given: list[Id]) -> list[Any]:
    return [read_id(info, each, f"ids[{i}]") for i, each in enumerate(given)]


def read_value(attribute: Attribute | None, value: Any, field: str) -> Any:
    """Returns the value of an attribute for an upload. attribute: None if it is not declared, which
    the upload refuses."""
    if attribute is None:
        return value
    if attribute.is_list and isinstance(value, list):
        return [_read_one(attribute.type, each, field) for each in value]
    return _read_one(attribute.type, value, field)


def _read_one(kind: str, value: Any, field: str) -> Any:
    is_integer = kind in ("int64", "timestamp")
    if isinstance(value, int) and is_integer:
        _check_exact(value, field)
    elif isinstance(value, str) and is_integer and _INTEGER.fullmatch(value):
        return int(value)
    elif isinstance(value, str) and kind == "timestamp":
        try:
            return parse_time(value)
        except ValueError as error:
            raise ToolError(f"{field}: {json.dumps(value)} {error}") from None
    elif kind == "double" and value in ("inf", "-inf"):
        return float(value)
    return value


def _check_exact(number: int, field: str) -> None:
    if abs(number) > EXACT_MAX:
        raise ToolError(
            f"{field}: {number}; a number beyond 2^53 may have been rounded on its way: give it as"
            f' text, such as "{number}"'
        )


def rows_of(rows: Rows) -> list[dict[str, Any]]:
    """Returns the rows of a reply."""
    return [
        {
            "id": plain(identity),
            "payload": payload_of(payload),
            "attributes": {
                name: plain(values[i])
                for name, values in rows.attributes.items()
                if values[i] is not None
            },
        }
        for i, (identity, payload) in enumerate(zip(listed(rows.ids), rows.payloads, strict=True))
    ]


def payload_of(payload: bytes) -> Any:
    """Returns a payload as `store` takes it: an object of JSON, or else a text; None if empty."""
    text = payload.decode("utf-8", "replace")
    try:
        found = json.loads(text)
        return plain(found) if isinstance(found, dict) else text
    except (ValueError, RecursionError):
        return text or None


def plain(value: Any, levels: int = LEVELS_MAX) -> Any:
    """Returns a value as each reader of JSON has it exactly. Raises ValueError for one with too
    many levels."""
    if isinstance(value, (dict, list)) and levels == 0:
        raise ValueError(f"more than {LEVELS_MAX} levels")
    if isinstance(value, dict):
        return {plain(name): plain(each, levels - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each, levels - 1) for each in value]
    if isinstance(value, str):  # half of a surrogate pair has no UTF-8
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value)
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, np.datetime64):  # outside the years of datetime: microseconds
        value = int(value.astype(np.int64))
    return str(value) if isinstance(value, int) and abs(value) > EXACT_MAX else value

"""Files of JSON lines: rows in the form that the command writes, read with the same results."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nearfield._attributes import Attribute
from nearfield._sources.places import placed
from nearfield._sources.text_files import lines_of
from nearfield._time_text import parse_time

BASE64 = "$base64"
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\n\r]+')


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is beyond the range of a double")
    return number


# An object becomes a tuple of its members, so that one which occurs twice is not lost.
_VALUES = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse, parse_float=_finite)
# All numbers are floats: -0 keeps its sign. One beyond the range of a double becomes infinite.
_FLOATS = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse, parse_int=float)


def read_jsonl(
    path: Path, declared: Mapping[str, Attribute]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each line and its row. Empty lines are skipped. declared: the
    attributes whose values are converted to those of Python."""
    for number, line in lines_of(path):
        if not line.strip(" \t\r\n"):
            continue
        try:
            yield number, row_of(line, declared)
        except (ValueError, TypeError) as error:
            raise placed(error, f"{path}:{number}") from None


def row_of(line: str, declared: Mapping[str, Attribute]) -> dict[str, Any]:
    """Parses a row. Its payload is returned as it is stored. A member embedding that is no
    attribute is the vector: so OpenAI names it."""
    row: dict[str, Any] = {}
    floats = {name for name, each in declared.items() if each.type == "double"}
    vectors = {"vector", "embedding"} - declared.keys()
    for member, value, text in members(line, floats | vectors):
        name = "vector" if member in vectors else member
        if name in row:
            raise ValueError(
                f"member {member!r} {'twice' if member == name else 'is a second vector'}"
            )
        if name == "payload":
            value = _payload(value, text)
        elif name == "vector":
            value = vector_of(value, text)
        elif name in declared:
            value = attribute_value(declared[name], value)
        row[name] = value
    return row


def members(line: str, floats: Collection[str] = ()) -> Iterator[tuple[str, Any, str]]:
    """Yields the name and the value of each member of an object, and the text of the value.
    floats: members whose numbers are floats."""
    try:
        at = _expect(line, 0, "{")
        more = line[at : at + 1] != "}"
        while more:
            if line[at : at + 1] != '"':
                raise json.JSONDecodeError('expected "', line, at)
            name, at = scanstring(line, at + 1, True)
            begin = _expect(line, at, ":")
            value, end = (_FLOATS if name in floats else _VALUES).raw_decode(line, begin)
            yield name, value, line[begin:end]
            at = _after_space(line, end)
            more = line[at : at + 1] == ","
            at = _after_space(line, at + 1) if more else at
        if (end := _expect(line, at, "}")) != len(line):
            raise json.JSONDecodeError("text after the object", line, end)
    except json.JSONDecodeError as error:
        raise ValueError(f"column {error.pos + 1}: {error.msg}") from None
    except RecursionError:
        raise ValueError("values are nested too deeply") from None


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, wanted: str) -> int:
    """Returns the place of the next token after this one."""
    at = _after_space(text, at)
    if text[at : at + 1] != wanted:
        raise json.JSONDecodeError(f"expected {wanted}", text, at)
    return _after_space(text, at + 1)


def json_value(text: str, floats: bool) -> Any:
    """Parses one value. floats: its numbers are floats."""
    try:
        value, end = (_FLOATS if floats else _VALUES).raw_decode(text, _after_space(text, 0))
    except json.JSONDecodeError as error:
        raise ValueError(f"{text[:40]!r} is not JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    if _after_space(text, end) != len(text):
        raise ValueError(f"{text[:40]!r} is not JSON: text after the value")
    return value


def vector_of(value: Any, text: str) -> NDArray[np.float64]:
    """Returns the numbers of a vector, which take less memory in an array. text: the JSON of the
    value. Raises TypeError for other values."""
    if not isinstance(value, list):
        raise TypeError(f"vector: {value!r:.60}; a list of numbers is needed")
    if not set(map(type, value)) <= {float}:
        at = next(i for i, each in enumerate(value) if type(each) is not float)
        raise TypeError(f"vector: element {at} is {value[at]!r:.60}; a number is needed")
    return _rounded_once(np.array(value, np.float64), text)


def _rounded_once(numbers: NDArray[np.float64], text: str) -> NDArray[np.float64]:
    """A double in the middle of two fp32 numbers becomes the next one in the direction of its
    decimal: so its fp32 number is the decimal, rounded once."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = numbers.astype(np.float32)
        beside = np.nextafter(
            near, np.where(numbers > near, np.float32(np.inf), np.float32(-np.inf))
        )
        middle = (numbers != near) & (numbers - near == beside - numbers)
    if middle.any():
        decimals = json.loads(text, parse_float=Decimal, parse_int=Decimal)
        for at in np.flatnonzero(middle):
            side = decimals[at].compare(Decimal(float(numbers[at])))
            if side:
                numbers[at] = np.nextafter(numbers[at], math.copysign(math.inf, side))
    return numbers


def _payload(value: Any, text: str) -> str | bytes | None:
    """Returns a text, null as None, and anything else as its own text without white space: numbers
    and the order of members stay as written. {"$base64": "..."} stands for bytes."""
    if value is None or isinstance(value, str):
        return value
    if any(c in text for c in " \t\r"):
        text = _STRING_OR_SPACE.sub(lambda match: match[1] or "", text)
    if "\\u" in text and not _is_unicode(value):
        raise ValueError("payload: half of a surrogate pair, which UTF-8 does not have")
    is_bytes = isinstance(value, tuple) and len(value) == 1 and value[0][0] == BASE64
    if is_bytes and isinstance(value[0][1], str) and text.startswith('{"$base64":'):
        return base64.b64decode(value[0][1], validate=True)
    return text.encode()


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def payload_text(payload: bytes) -> str:
    """Returns the JSON of which _payload makes these bytes: the payload itself, if it is compact
    JSON, else a string, or {"$base64": "..."} if it is not UTF-8."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return json.dumps({BASE64: base64.b64encode(payload).decode()}, separators=(",", ":"))
    try:
        value, end = _VALUES.raw_decode(text)
        if end == len(text) and "\n" not in text and _payload(value, text) == payload:
            return text
    except (ValueError, RecursionError):
        pass
    return json.dumps(text, ensure_ascii=False)


def attribute_value(attribute: Attribute, value: Any) -> Any:
    name = f"attributes[{attribute.name!r}]"
    if attribute.is_list and isinstance(value, list):
        return [_one_value(attribute.type, each, name) for each in value]
    if isinstance(value, tuple):
        raise TypeError(f"{name}: an object; the attribute is declared {attribute.text}")
    return _one_value(attribute.type, value, name)


def _one_value(kind: str, value: Any, name: str) -> Any:
    """Returns a value as Python has it: JSON has no times and no infinities."""
    if kind == "timestamp" and isinstance(value, str):
        return time_of(value, name)
    if kind != "double":
        return value
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"{name}: a number beyond the range of a double")
    return float(value) if value in ("inf", "-inf") else value


def time_of(text: str, name: str) -> int:
    """Returns a time as microseconds since 1970."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise ValueError(f"{name}: {text!r} {error}") from None

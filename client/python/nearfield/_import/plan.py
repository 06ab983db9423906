"""The rows that an import stores: type of ids, attributes and payloads; and the token."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nearfield._attributes import INT64_MAX, INT64_MIN, Attribute
from nearfield._documents import to_json
from nearfield._import.found import Found, ImportRefused, Part
from nearfield._infer import both, declared_by
from nearfield._records import Limits
from nearfield._sources.rows import MEMBERS
from nearfield._sources.source import compact_json

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass
class Seen:
    """The properties of all rows of a source.

    rows        their number
    id_type     string if an id is a text
    attributes  fields that attributes can hold
    left        the other fields, each with the reason: they are in payloads only
    """

    rows: int = 0
    id_type: str = "uint64"
    attributes: dict[str, Attribute] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def look(
    source: Path, found: Found, limits: Limits, wanted: Sequence[str] | None
) -> tuple[Seen, str]:
    """Reads all rows once. Returns what they have, and a token of their content: a repeated import
    of the same rows continues. wanted: the fields to make attributes of; None: all that can be.
    Raises ImportRefused for one that cannot be."""
    if found.array is not None or found.parts is None:
        if wanted:
            raise ImportRefused(f"{source}: no field {wanted[0]!r}; the file has vectors only")
        state = source.stat()
        facts = (str(source.resolve()), state.st_size, state.st_mtime_ns)
        return Seen(len(found.array)), _token(hashlib.blake2b(repr(facts).encode()))
    seen, digest = Seen(), hashlib.blake2b()
    for part in found.parts():
        for name, value in stored(part, "string", (), seen.rows, source).items():
            digest.update(value.tobytes() if name == "vector" else repr(value).encode())
        if part.ids is not None and any(isinstance(each, str) for each in part.ids):
            seen.id_type = "string"
        for row in part.fields or ():
            for name, value in row.items():
                if name not in seen.left and (wanted is None or name in wanted):
                    _see(seen, limits, name, value)
        seen.rows += len(part.vectors)
    for name in wanted or ():
        if name not in seen.attributes:
            raise ImportRefused(f"{source}: field {name!r}: {seen.left.get(name, 'no row has it')}")
    if len(seen.attributes) > limits.attributes_max:
        raise ImportRefused(
            f"{source}: {len(seen.attributes)} fields can be attributes, the server accepts"
            f" {limits.attributes_max}: name some with --attributes"
        )
    return seen, _token(digest)


def _token(digest: Any) -> str:
    return f"import-{digest.hexdigest()[:32]}"


def _see(seen: Seen, limits: Limits, name: str, value: Any) -> None:
    known = seen.attributes.get(name)
    try:
        _check(limits, name, value)
        found = declared_by(name, value)
        if found is not None:
            seen.attributes[name] = found if known is None else both(known, found)
    except (TypeError, ValueError) as error:
        seen.attributes.pop(name, None)
        seen.left[name] = str(error).removeprefix(f"{name!r}: ")


def _check(limits: Limits, name: str, value: Any) -> None:
    """Raises ValueError for a value that no attribute can hold, though its type may be right."""
    if not _NAME.fullmatch(name) or name in MEMBERS:
        raise ValueError(
            "the name of an attribute has a to z, 0 to 9 and _, and is not id, vector or payload"
        )
    if isinstance(value, list):
        if len(value) > limits.attribute_list_values_max:
            raise ValueError(
                f"a list of {len(value)} values, must be at most {limits.attribute_list_values_max}"
            )
        if None in value:
            raise ValueError("a list holds a null")
        for each in value:
            _check(limits, name, each)
    elif isinstance(value, str) and len(value.encode()) > limits.attribute_keyword_bytes_max:
        raise ValueError(
            f"a text of {len(value.encode())} bytes, a keyword has at most"
            f" {limits.attribute_keyword_bytes_max}"
        )
    elif isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{value} does not fit into int64")
    elif isinstance(value, dt.datetime) and value.utcoffset() is None:
        raise ValueError(f"{value} has no zone")


def stored(
    part: Part, id_type: str, attributes: Sequence[str], first: int, source: Path
) -> dict[str, Any]:
    """Returns rows as upload() takes them. first: the number of the first row. Raises ImportRefused
    for a value that JSON cannot hold."""
    rows = len(part.vectors)
    ids: Any = part.ids
    if ids is None:
        ids = np.arange(first, first + rows, dtype=np.uint64)
    elif id_type == "string":
        ids = list(map(str, ids))
    found: dict[str, Any] = {"id": ids, "vector": part.vectors}
    if part.payloads is not None:
        found["payload"] = [
            None if each is None else _json(each, f"{source}: row {first + i} (id {ids[i]!r})")
            for i, each in enumerate(part.payloads)
        ]
    for name in attributes:
        found[name] = [row.get(name) for row in part.fields or [{}] * rows]
    return found


def _json(payload: Mapping[str, Any], where: str) -> bytes:
    try:
        return compact_json(
            {name: to_json(each, f"{where}: {name}") for name, each in payload.items()}
        )
    except (TypeError, ValueError) as error:
        raise ImportRefused(f"{error}; --without leaves a field out") from None


def without(found: Found, names: Sequence[str]) -> Found:
    """Returns the source without some fields."""
    read = found.parts
    if not names or read is None:
        return found

    def kept(row: Any) -> Any:
        if isinstance(row, dict):
            row = {name: each for name, each in row.items() if name not in names}
            if isinstance(row.get("metadata"), dict):
                row["metadata"] = kept(row["metadata"])
        return row

    def parts() -> Iterator[Part]:
        for part in read():
            fields, payloads = (
                None if rows is None else [kept(row) or None for row in rows]
                for rows in (part.fields, part.payloads)
            )
            yield Part(part.ids, part.vectors, [each or {} for each in fields or ()], payloads)

    return Found(found.name, found.dim, found.metric, found.dtype, parts)

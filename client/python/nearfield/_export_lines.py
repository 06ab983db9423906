"""Files of JSON lines with all parts of the rows, in the form that the command writes."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearfield._attributes import read_time
from nearfield._columns import ReadColumn
from nearfield._results import ScanPage
from nearfield._sources.json_lines import payload_text
from nearfield._values import listed


class LinesFile:
    """path: the file; name: the name that it will have, which may end in .gz."""

    def __init__(self, path: Path, name: Path) -> None:
        compressed = name.suffix == ".gz"
        self._file = gzip.open(path, "wb") if compressed else path.open("wb")  # noqa: SIM115

    def write(self, page: ScanPage) -> None:
        parts = [_named("id", [_text(each) for each in listed(page.ids)])]
        if page.vectors is not None and len(page):
            parts.append(_named("vector", [f"[{each}]" for each in _numbers(page.vectors)]))
        if page.payloads:
            texts = [payload_text(each) if each else "" for each in page.payloads]
            parts.append(_named("payload", texts))
        parts += [_named(each.attribute.name, _values(each)) for each in page.columns]
        lines = ("{" + ",".join(filter(None, row)) + "}\n" for row in zip(*parts, strict=True))
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        self._file.close()


def _named(name: str, values: list[str]) -> list[str]:
    """Returns a member of each row; "" where a row has no value."""
    return [f'"{name}":{value}' if value else "" for value in values]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _numbers(vectors: Any) -> list[str]:
    """Returns the numbers of each vector, as the shortest decimals that are read back to them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = pa.array(vectors.astype("<f4", copy=False).reshape(-1)).cast(pa.string())
    offsets = pa.array(range(0, vectors.size + 1, vectors.shape[1]), pa.int64())
    found: list[str] = pc.binary_join(pa.LargeListArray.from_arrays(offsets, flat), ",").to_pylist()
    return found


def _values(column: ReadColumn) -> list[str]:
    kind = column.attribute.type
    text: Callable[[Any], str] = {"double": _double, "timestamp": _time}.get(kind, _text)
    if not column.attribute.is_list:
        return ["" if value is None else text(value) for value in column.raw()]
    return ["" if values is None else f"[{','.join(map(text, values))}]" for values in column.raw()]


def _double(value: float) -> str:
    return f'"{value}"' if math.isinf(value) else repr(value)


def _time(value: int) -> str:
    """Returns a time as RFC 3339 has it; microseconds outside of the years that it has."""
    time = read_time(value)
    if not isinstance(time, dt.datetime):
        return str(value)
    return f'"{time.isoformat().removesuffix("+00:00")}Z"'

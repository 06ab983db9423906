"""Files of comma-separated values: a header with names, then one row per record. The cells have
the forms that `nearfield upload` reads, which are also those of pandas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nearfield._attributes import Attribute
from nearfield._sources.json_lines import attribute_value, json_value, time_of, vector_of
from nearfield._sources.places import placed
from nearfield._sources.plan import Plan, plan_of
from nearfield._sources.rows import MEMBERS
from nearfield._sources.source import Spec
from nearfield._sources.text_files import lines_of

# Characters of a record: a quote that is not closed must not collect the rest of the file.
RECORD_MAX = 16 << 20
_CELL = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^",]*))(,|\Z)')
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"-?inf|-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BOOLS = {"true": True, "false": False, "True": True, "False": False}  # pandas writes the latter


class Cell(str):
    """The text of a cell. quoted: it was in quotes, so an empty one is a text."""

    quoted = False


def records(path: Path) -> Iterator[tuple[int, list[Cell]]]:
    """Yields the number of the first line of each record, and its cells. Empty lines are
    skipped."""
    begun, size, quoted, lines = 0, 0, False, list[str]()
    for number, line in lines_of(path):
        begun = begun if lines else number
        lines.append(line)
        size += len(line)
        quoted ^= line.count('"') % 2 == 1
        if quoted and size > RECORD_MAX:
            break
        if quoted:
            continue
        text = "".join(lines).removesuffix("\n").removesuffix("\r")
        size, lines = 0, []
        if text:
            try:
                yield begun, cells_of(text)
            except ValueError as error:
                raise placed(error, f"{path}:{begun}") from None
    if lines:
        raise ValueError(f"{path}:{begun}: a quote that is not closed")


def cells_of(text: str) -> list[Cell]:
    cells: list[Cell] = []
    at, more = 0, True
    while more:
        found = _CELL.match(text, at)
        if found is None:
            raise ValueError(f"cell {len(cells) + 1}: a quote in the middle of a cell")
        quoted = found[1] is not None
        cell = Cell(found[1].replace('""', '"') if quoted else found[2])
        cell.quoted = quoted
        cells.append(cell)
        at, more = found.end(), found[3] == ","
    return cells


def read_csv(spec: Spec, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of the line of each row, and the row. The arguments of the upload name
    columns, as those of a table."""
    following = records(path)
    begun, header = next(following, (1, []))
    names = list(map(str, header))
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}:{begun}: column {name!r} twice")
    plan = plan_of(spec, names)
    for name in MEMBERS.intersection(plan.attributes):
        raise ValueError(f"{path}: an attribute {name!r} cannot be read from a file .csv")
    for number, cells in following:
        try:
            if len(cells) != len(names):
                raise ValueError(f"{len(cells)} cells; the first line has {len(names)}")
            yield number, _row(spec, plan, dict(zip(names, cells, strict=True)))
        except (TypeError, ValueError) as error:
            raise placed(error, f"{path}:{number}") from None


def _row(spec: Spec, plan: Plan, cells: dict[str, Cell]) -> dict[str, Any]:
    number = spec.info.id_type == "uint64" and _NUMBER.fullmatch(cells[plan.id])
    vector = str(cells[plan.vector])
    row: dict[str, Any] = {
        "id": int(cells[plan.id]) if number else str(cells[plan.id]),
        "vector": vector_of(json_value(vector, floats=True), vector),
    }
    texts = {name: str(cells[name]) if cells[name] else None for name in plan.paid()}
    if plan.payloads is not None:
        row["payload"] = texts[plan.payloads] if isinstance(plan.payloads, str) else texts
    for name, column in plan.attributes.items():
        if cells[column] or cells[column].quoted:
            row[name] = _attribute(spec.attribute(name), cells[column])
    return row


def _attribute(attribute: Attribute, cell: Cell) -> Any:
    name, kind, text = f"attributes[{attribute.name!r}]", attribute.type, str(cell)
    if attribute.is_list:
        return attribute_value(attribute, json_value(text, floats=kind == "double"))
    if kind == "keyword":
        return text
    if kind in ("int64", "timestamp") and _WHOLE.fullmatch(text):
        return int(text)
    if kind == "timestamp":
        # pandas writes a space before the time of day.
        return time_of(text[:10] + text[10:].replace(" ", "T", 1), name)
    if kind == "double" and _DECIMAL.fullmatch(text):
        return attribute_value(attribute, text if "inf" in text else float(text))
    if kind == "bool" and text in _BOOLS:
        return _BOOLS[text]
    raise TypeError(f"{name}: {text!r}; the attribute is declared {attribute.text}")

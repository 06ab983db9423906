"""A second implementation of attributes and filters, written from the comments of
proto/nearfield/v1/common.proto. It shares no code with the server."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

TYPES = {"year": "INT64", "price": "DOUBLE", "good": "BOOL", "language": "KEYWORD", "made": "TIMESTAMP", "tags": "KEYWORD"}
LISTS = {"tags"}
MEMBER = {"INT64": "int64", "DOUBLE": "double", "BOOL": "bool", "KEYWORD": "keyword", "TIMESTAMP": "timestamp_us"}
ORDERS = {
    "EQUAL": lambda a, b: a == b, "NOT_EQUAL": lambda a, b: a != b, "LESS": lambda a, b: a < b,
    "LESS_EQUAL": lambda a, b: a <= b, "GREATER": lambda a, b: a > b, "GREATER_EQUAL": lambda a, b: a >= b,
}

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
OPERATORS = {"EQUAL": "==", "NOT_EQUAL": "!=", "LESS": "<", "LESS_EQUAL": "<=", "GREATER": ">", "GREATER_EQUAL": ">="}


def specs(pb: SimpleNamespace) -> list:
    return [pb.AttributeSpec(name=name, type=pb.AttributeType.Value(f"ATTRIBUTE_TYPE_{kind}"), is_list=name in LISTS)
            for name, kind in TYPES.items()]


def draw_value(draw: random.Random, name: str):
    return {"INT64": lambda: draw.randint(2018, 2026), "DOUBLE": lambda: draw.choice([-0.0, 0.0, 1.5, float("inf"), -3.25]),
            "BOOL": lambda: draw.random() < 0.5, "KEYWORD": lambda: draw.choice(["", "de", "en", "fr", "ältere"]),
            "TIMESTAMP": lambda: draw.randint(-5, 5) * 10**12}[TYPES[name]]()


def draw_row(draw: random.Random) -> dict:
    row = {}
    for name in TYPES:
        if draw.random() < 0.3:
            continue
        row[name] = [draw_value(draw, name) for _ in range(draw.randint(0, 3))] if name in LISTS else draw_value(draw, name)
    return row


def columns(pb: SimpleNamespace, rows: list[dict]) -> list:
    """Returns one AttributeColumn for each attribute that some row has."""
    result = []
    for name, kind in TYPES.items():
        present = [name in row for row in rows]
        if not any(present):
            continue
        bits = bytearray(-(-len(rows) // 8))
        for place, there in enumerate(present):
            bits[place // 8] |= there << place % 8
        values = [row[name] for row in rows if name in row]
        flat = [value for each in values for value in each] if name in LISTS else values
        result.append(pb.AttributeColumn(
            attribute=name, presence=bytes(bits), values=pb.AttributeValues(**{f"{MEMBER[kind]}_values": flat}),
            list_sizes=[len(each) for each in values] if name in LISTS else []))
    return result


def rows_of(columns, count: int) -> list[dict]:
    """Returns the rows of returned columns: the inverse of columns()."""
    rows: list[dict] = [{} for _ in range(count)]
    for column in columns:
        name, bits = column.attribute, column.presence
        if column.HasField("presence"):
            assert len(bits) == -(-count // 8) and int.from_bytes(bits, "little") >> count == 0
        values = iter(getattr(column.values, f"{MEMBER[TYPES[name]]}_values"))
        sizes = iter(column.list_sizes)
        for place, row in enumerate(rows):
            if column.HasField("presence") and not bits[place // 8] >> place % 8 & 1:
                continue
            row[name] = [next(values) for _ in range(next(sizes))] if name in LISTS else next(values)
        assert next(values, None) is None and next(sizes, None) is None
    return rows


def draw_filter(draw: random.Random, ids: list[int], depth: int = 3) -> tuple:
    """Draws a filter as nested tuples, which to_text and passes read."""
    if depth > 1 and draw.random() < 0.6:
        kind = draw.choice(["and", "or", "not"])
        return (kind, [draw_filter(draw, ids, depth - 1) for _ in range(1 if kind == "not" else draw.randint(1, 3))])
    kind = draw.choice(["comparison", "in", "exists", "has_id", "list_any", "list_all"])
    if kind == "has_id":
        return (kind, [draw.choice(ids) for _ in range(draw.randint(1, 20))])
    name = draw.choice([name for name in TYPES if (name in LISTS) == kind.startswith("list")]) if kind != "exists" else draw.choice(list(TYPES))
    if kind == "exists":
        return (kind, name)
    if kind != "comparison":
        return (kind, name, [draw_value(draw, name) for _ in range(draw.randint(1, 3))])
    orders = ["EQUAL", "NOT_EQUAL"] if TYPES[name] == "BOOL" else list(ORDERS)
    return (kind, name, draw.choice(orders), draw_value(draw, name))


def time_text(microseconds: int) -> str:
    return (EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def value_text(name: str, value) -> str:
    kind = TYPES[name]
    if kind == "TIMESTAMP":
        return f'"{time_text(value)}"' if value % 2 else str(value)
    return json.dumps(value) if kind in ("KEYWORD", "BOOL") else repr(value)


def to_fields(pb: SimpleNamespace, tree: tuple, draw: random.Random) -> dict:
    """Returns filter_text and filter_args of a request: some values are arguments, at random."""
    arguments = []

    def argument(name: str, values: list) -> str:
        if draw.random() < 0.5:
            return ""
        kind = {"ids": pb.IdList(numbers=values)} if name == "id" else {
            "values": pb.AttributeValues(**{f"{MEMBER[TYPES[name]]}_values": values})}
        arguments.append(pb.FilterArgument(**kind))
        return f"${len(arguments)}"

    return {"filter_text": to_text(tree, argument), "filter_args": arguments}


def to_text(tree: tuple, argument=lambda name, values: "") -> str:
    """Returns the filter as text. An `and` or `or` of one operand, which no text has, is printed with
    that operand twice: repeated operands do not change a filter, nor its cursors. argument: returns
    the name of the argument that has these values; empty: they are a part of the text."""
    kind = tree[0]
    if kind in ("and", "or"):
        operands = tree[1] * 2 if len(tree[1]) == 1 else tree[1]
        return "(" + f" {kind} ".join(to_text(each, argument) for each in operands) + ")"
    if kind == "not":
        return f"not {to_text(tree[1][0], argument)}"
    if kind == "exists":
        return f"exists({tree[1]})"
    if kind == "has_id":
        return f"id in {argument('id', tree[1]) or '(' + ', '.join(map(str, tree[1])) + ')'}"
    if kind == "comparison":
        return f"{tree[1]} {OPERATORS[tree[2]]} {argument(tree[1], [tree[3]]) or value_text(tree[1], tree[3])}"
    word = {"in": "in", "list_any": "any", "list_all": "all"}[kind]
    values = argument(tree[1], tree[2]) or "(" + ", ".join(value_text(tree[1], each) for each in tree[2]) + ")"
    return f"{tree[1]} {word} {values}"


def passes(tree: tuple, row: dict, identity: int) -> bool:
    kind = tree[0]
    if kind == "and":
        return all(passes(each, row, identity) for each in tree[1])
    if kind == "or":
        return any(passes(each, row, identity) for each in tree[1])
    if kind == "not":
        return not passes(tree[1][0], row, identity)
    if kind == "has_id":
        return identity in tree[1]
    if kind == "exists":
        return tree[1] in row
    if tree[1] not in row:
        return False
    value = row[tree[1]]
    if kind == "comparison":
        return ORDERS[tree[2]](value.encode() if isinstance(value, str) else value,
                               tree[3].encode() if isinstance(tree[3], str) else tree[3])
    if kind == "in":
        return value in tree[2]
    return any(each in value for each in tree[2]) if kind == "list_any" else all(each in value for each in tree[2])

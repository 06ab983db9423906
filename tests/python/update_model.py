"""Updates in plain Python: what the arguments of a call mean, what a request means by
proto/nearfield/v1/ingest.proto, and random ones. The attributes are those of tests/e2e/attributes.py."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import attributes as model
import numpy as np

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MICROSECOND = dt.timedelta(microseconds=1)
DECLARED = {"year": int, "price": float, "good": bool, "language": str, "made": dt.datetime, "tags": [str]}


def payload_of(value: Any) -> bytes:
    """Returns a payload as it is stored; of None the empty one."""
    if value is None or isinstance(value, bytes):
        return value or b""
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass
class Rows:
    """attributes: those that each row has, by id; payloads: by id."""

    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)
    payloads: dict[int, bytes] = field(default_factory=dict)

    def put(self, identity: int, row: dict[str, Any], payload: Any) -> None:
        self.attributes[identity], self.payloads[identity] = dict(row), payload_of(payload)

    def delete(self, identity: int) -> None:
        del self.attributes[identity], self.payloads[identity]

    def passing(self, tree: tuple) -> list[int]:
        return sorted(each for each, row in self.attributes.items() if model.passes(tree, row, each))

    def change(self, identity: int, name: str, value: Any) -> None:
        if name == "payload":
            self.payloads[identity] = payload_of(value)
        elif value is None:
            self.attributes[identity].pop(name, None)
        else:
            self.attributes[identity][name] = value

    def update(
        self, ids: list[int], attributes: Any, payloads: Any, passes: Callable[[int], bool] = lambda _: True
    ) -> tuple[int, list[int], list[int]]:
        """Changes rows as Collection.update with ids; returns rows, missing and refused."""
        missing = [each for each in ids if each not in self.attributes]
        refused = [each for each in ids if each in self.attributes and not passes(each)]
        changed = [(i, each) for i, each in enumerate(ids) if each not in {*missing, *refused}]
        for i, identity in changed:
            if isinstance(attributes, Mapping):
                values = {name: data[i] if is_column(data) else data for name, data in attributes.items()}
            else:
                values = dict(attributes[i]) if attributes is not None else {}
            if payloads is not None:
                values["payload"] = payloads[i]
            for name, value in values.items():
                self.change(identity, name, value)
        return len(changed), missing, refused

    def check(self, found: Any) -> None:
        """Demands that a fetch of all rows with all attributes returned these."""
        ids = list(map(int, found.ids))
        assert sorted(ids) == sorted(self.attributes)
        for i, identity in enumerate(ids):
            assert found.payloads[i] == self.payloads[identity], identity
            row = {name: plain(column[i]) for name, column in found.attributes.items() if column[i] is not None}
            assert row == self.attributes[identity], identity


def is_column(data: Any) -> bool:
    return isinstance(data, (list, np.ndarray))


def plain(value: Any) -> Any:
    """Returns a time as microseconds."""
    return (value - EPOCH) // MICROSECOND if isinstance(value, dt.datetime) else value


def bits(bitmap: bytes, rows: int) -> list[bool]:
    assert len(bitmap) == -(-rows // 8) and int.from_bytes(bitmap, "little") >> rows == 0
    return [bool(bitmap[i // 8] >> i % 8 & 1) for i in range(rows)]


def interpret(request: Any, rows: Rows, chosen: list[int]) -> None:
    """Changes rows as the request says. chosen: its ids, or those of the rows that pass its filter."""
    with_ids = request.HasField("ids")
    entries = len(chosen) if with_ids else 1
    for each in request.attributes:
        changed = bits(each.changed, entries) if each.HasField("changed") else [True] * entries
        values = model.rows_of([each.column], entries)
        assert not any(value for value, change in zip(values, changed, strict=True) if not change)
        for i, identity in enumerate(chosen):
            entry = i if with_ids else 0
            if changed[entry]:
                rows.change(identity, each.column.attribute, values[entry].get(each.column.attribute))
    if request.HasField("payloads"):
        payloads = request.payloads
        changed = bits(payloads.changed, entries) if payloads.HasField("changed") else [True] * entries
        assert len(payloads.payloads) == entries
        for i, identity in enumerate(chosen):
            if changed[i if with_ids else 0]:
                rows.change(identity, "payload", payloads.payloads[i if with_ids else 0])


def draw_payload(draw: random.Random) -> Any:
    return draw.choice([None, b"\xff\0", "text", {"a": [1, None, "ü"]}, 7])


def draw_one(draw: random.Random, name: str) -> Any:
    """Draws a value of an attribute, or None."""
    if draw.random() < 0.2:
        return None
    if name in model.LISTS:
        return [model.draw_value(draw, name) for _ in range(draw.randint(0, 3))]
    return model.draw_value(draw, name)


def draw_changes(draw: random.Random, rows: int) -> dict[str, Any]:
    """Draws attributes= and payloads= of an update by ids: columns, values of all rows, or rows that keep values."""
    names = draw.sample(list(model.TYPES), draw.randint(1, len(model.TYPES)))
    if draw.random() < 0.5:
        members = [name for name in [*names, "payload"] if draw.random() < 0.8] or names
        row = [{name: draw_payload(draw) if name == "payload" else draw_one(draw, name) for name in members if draw.random() < 0.6}
               for _ in range(rows)]
        for each in row:
            if not each:  # each row changes
                each[names[0]] = draw_one(draw, names[0])
        return {"attributes": row}
    given: dict[str, Any] = {}
    for name in names:
        is_one = draw.random() < 0.3 and name not in model.LISTS
        given[name] = draw_one(draw, name) if is_one else [draw_one(draw, name) for _ in range(rows)]
    payloads = [draw_payload(draw) for _ in range(rows)] if draw.random() < 0.5 else None
    return {"attributes": given, "payloads": payloads}


def draw_assignment(draw: random.Random) -> dict[str, Any]:
    """Draws attributes= and payloads= of an update by a filter."""
    names = draw.sample(list(model.TYPES), draw.randint(1, 3))
    payload = draw.choice([None, b"", b"\xff", "all", {"all": True}])
    return {"attributes": {name: draw_one(draw, name) for name in names}, "payloads": payload}

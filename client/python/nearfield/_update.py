"""Updates: the request that changes attributes and payloads of rows, which keep their vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from nearfield import _methods as methods
from nearfield._changes import Updated
from nearfield._columns import column_message
from nearfield._core import Core
from nearfield._proto import common_pb2 as common
from nearfield._proto import ingest_pb2 as ingest
from nearfield._sources.columns import column_data, column_packer, values_of
from nearfield._sources.places import located, rows_from, with_id
from nearfield._sources.source import Spec
from nearfield._values import Ids, id_list, read_ids

T = TypeVar("T")
#: New values by attribute, or the members of one row after the other.
Changes: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
# For each row a value, and a bitmap of the rows that change; None: all.
_Column: TypeAlias = tuple[Any, bytes | None]


async def run_update(
    core: Core,
    request: ingest.UpdateRequest,
    ids: Ids | None,
    attributes: Changes | None,
    payloads: Any,
    deadline: float | None,
) -> Updated:
    """Adds the changes to a request, and sends it. The attributes that this client remembers may
    have changed: after an error it looks for those of now, and if they differ, tries again."""
    name = request.collection
    info = await core.info(name, deadline)
    limits = await core.limits(deadline)
    while True:
        try:
            add_changes(request, Spec(info, limits=limits), ids, attributes, payloads)
            if ids is not None and not len(ids):
                now = await core.info(name, deadline, fresh=True)
                none = read_ids(common.IdList())
                return Updated(0, now.epoch, now.incarnation, none, none)
            reply, _ = await core.call(methods.UPDATE, request, deadline)
            break
        except (TypeError, ValueError):  # InvalidArgument is one, too
            known, info = info, await core.info(name, deadline, fresh=True)
            if info.attributes == known.attributes:
                raise
    core.wrote(name, reply.incarnation, reply.epoch)
    missing, refused = read_ids(reply.missing), read_ids(reply.refused)
    return Updated(reply.rows_updated, reply.epoch, reply.incarnation, missing, refused)


def add_changes(
    request: ingest.UpdateRequest,
    spec: Spec,
    ids: Ids | None,
    attributes: Changes | None,
    payloads: Any,
) -> None:
    """Sets the ids and the changes of a request. ids: None with a filter: then the values are those
    of all rows that pass. Raises TypeError or ValueError, with the attribute and the row."""
    for field in ("ids", "attributes", "payloads"):
        request.ClearField(field)
    rows = 1 if ids is None else len(ids)
    in_rows = attributes is not None and not isinstance(attributes, Mapping)
    columns = _members(attributes, ids) if in_rows else _columns(attributes, ids)
    payload = columns.pop("payload", None) if in_rows else None
    if payloads is not None:
        if payload is not None:
            raise TypeError("payloads: the rows of attributes have a member payload, too")
        payload = (_payloads(payloads, ids), None)

    def packed(pack: Callable[[int], T]) -> T:
        if ids is None:
            return pack(1)
        return located(pack, rows, with_id(rows_from(0), ids.__getitem__))

    for name, (data, changed) in columns.items():
        column = packed(column_packer(spec, name, data, in_rows))
        message = column_message(spec.attribute(name), column, rows)
        request.attributes.add(column=message, changed=changed)
    if payload is not None:
        values, changed = payload
        packed_values = packed(lambda n: spec.payloads_of(values[:n]))
        request.payloads.CopyFrom(ingest.PayloadUpdate(payloads=packed_values, changed=changed))
    if ids is not None:
        request.ids.CopyFrom(id_list(ids))
    if rows and not request.attributes and not request.HasField("payloads"):
        raise TypeError("nothing changes: give attributes= or payloads=")


def _columns(attributes: Any, ids: Ids | None) -> dict[str, _Column]:
    """Returns columns as they were given; one value becomes a column."""
    found: dict[str, _Column] = {}
    for name, data in (attributes or {}).items():
        if ids is None:
            data = [data]
        elif isinstance(data, (str, bytes)) or not hasattr(data, "__len__"):
            data = [data] * len(ids)
        else:
            data = column_data(name, data, len(ids), "ids")
        found[name] = (data, None)
    return found


def _members(rows: Any, ids: Ids | None) -> dict[str, _Column]:
    """Returns the members of rows as columns. A row without a member keeps its value."""
    if ids is None:
        raise TypeError('attributes: with filter= one value each, such as {"status": "done"}')
    if isinstance(rows, str) or not isinstance(rows, Sequence):
        raise TypeError(f"attributes: {rows!r:.60}; a dict of columns, or a list of a dict per id")
    if len(rows) != len(ids):
        raise ValueError(f"attributes: {len(rows)} rows for {len(ids)} ids")
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"attributes[{i}]: {row!r:.60}; a dict of the values that change")
    found: dict[str, _Column] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        there = [name in row for row in rows]
        changed = None if all(there) else np.packbits(there, bitorder="little").tobytes()
        found[name] = ([row.get(name) for row in rows], changed)
    return found


def _payloads(payloads: Any, ids: Ids | None) -> list[Any]:
    if ids is None:
        return [payloads]
    if isinstance(payloads, (str, bytes, Mapping)) or not hasattr(payloads, "__len__"):
        raise TypeError(f"payloads: {payloads!r:.60}; with ids a list of one value for each")
    values = values_of(payloads)
    if len(values) != len(ids):
        raise ValueError(f"payloads: {len(values)} for {len(ids)} ids")
    return values

"""Updates of a cluster: rows that pass a filter get the same values. As a delete by a filter, the
manifest has the filter, and every replica applies it to its rows."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import nearfield
from nearfield._attributes import Attribute
from nearfield._blocking import run
from nearfield._columns import read_columns
from nearfield._proto import ingest_pb2 as ingest
from nearfield._records import CollectionInfo, Limits
from nearfield._sources.source import Spec
from nearfield._update import add_changes
from nearfield.ray._manifest import Operation

FIXED_ATTRIBUTES = (
    "the attributes of a collection of a cluster are fixed: create another collection with those"
    " that you need, and upload the rows to it"
)
_EXAMPLE = "filter='id in (7) and version == 3'"


def check_arguments(filter: Any, given: Mapping[str, Any]) -> None:
    """Refuses what an update of a cluster cannot do. given: arguments that must be None."""
    for name, value in given.items():
        if value is not None:
            raise TypeError(f"{name}: not in a cluster: put it into the filter, such as {_EXAMPLE}")
    if not isinstance(filter, str):
        raise TypeError(f"filter: give it as text, such as {_EXAMPLE}")


def check_declared(attributes: Iterable[Attribute]) -> None:
    """Refuses attributes that expire: the servers would delete rows that the manifest has."""
    for each in attributes:
        if each.expires:
            raise TypeError(
                f"attributes[{each.name!r}]: no rows of a cluster expire: delete them, such as"
                f" with delete(filter='{each.name} < \"2030-01-01\"')"
            )


def update_operation(
    info: CollectionInfo, filter: str, attributes: Any, payloads: Any, limits: Limits | None = None
) -> Operation:
    """Returns an update as the manifest has it, in values of JSON: times as microseconds, the
    payload in base64. Raises TypeError or ValueError for values that rows cannot have."""
    request = ingest.UpdateRequest()
    add_changes(request, Spec(info, limits=limits), None, attributes, payloads)
    columns = read_columns([each.column for each in request.attributes], 1, info.declared)
    payload = None
    if request.HasField("payloads"):
        payload = base64.b64encode(request.payloads.payloads[0]).decode()
    values = {each.attribute.name: each.raw()[0] for each in columns}
    return {"kind": "update", "filter": filter, "attributes": values, "payload": payload}


def check_update(docs: nearfield.Collection, operation: Operation) -> None:
    """Raises InvalidArgument for values that rows cannot have, or that exceed a limit."""
    try:
        update_operation(docs.info(), **_arguments(operation), limits=limits_of(docs))
    except (TypeError, ValueError) as error:
        raise nearfield.InvalidArgument(getattr(error, "message", str(error))) from None


def limits_of(docs: nearfield.Collection) -> Limits:
    """Returns the limits of the server of a collection."""
    core = docs._inner._core
    return run(core.limits(core.deadline(None)))


def apply_update(docs: nearfield.Collection, operation: Operation) -> None:
    """Changes the rows that pass."""
    docs.update(**_arguments(operation))


def _arguments(operation: Operation) -> dict[str, Any]:
    payload = operation["payload"]
    payloads = None if payload is None else base64.b64decode(payload, validate=True)
    return {
        "filter": operation["filter"],
        "attributes": operation["attributes"],
        "payloads": payloads,
    }

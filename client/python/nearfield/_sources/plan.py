"""Which columns of a table are what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nearfield._attributes import column_name
from nearfield._sources.source import Spec, name_of_column


@dataclass(frozen=True)
class Plan:
    """Which columns of a table are what.

    id, vector  names of columns
    attributes  column by attribute
    payloads    one column, stored as it is; or several, stored as a JSON object
    """

    id: str
    vector: str
    attributes: dict[str, str]
    payloads: str | list[str] | None

    def names(self) -> list[str]:
        return list(dict.fromkeys([self.id, self.vector, *self.attributes.values(), *self.paid()]))

    def paid(self) -> list[str]:
        if self.payloads is None:
            return []
        return [self.payloads] if isinstance(self.payloads, str) else list(self.payloads)


def check_columns(id_name: str, vector_name: str, names: list[str]) -> None:
    """Raises ValueError if a table with columns of these names has no ids or no vectors."""
    for argument, name in (("ids", id_name), ("vectors", vector_name)):
        if name not in names:
            text = f"no column {name!r}; the columns are {', '.join(names)}"
            raise ValueError(f'{text}; name it with {argument}="..."')


def plan_of(spec: Spec, names: list[str]) -> Plan:
    """Returns what the columns with these names are. By default the columns id, vector and payload,
    and every declared attribute that has a column of its name; further columns are refused. An
    attribute named like a part of the row, such as id, has the column attribute_id, as in an
    export, or one of its name that is not that part."""
    payloads = spec.payloads
    plan = Plan(
        name_of_column("ids", spec.ids, "id"),
        name_of_column("vectors", spec.vectors, "vector"),
        {},
        payloads if payloads is None or isinstance(payloads, str) else list(payloads),
    )
    attributes = spec.attributes
    if attributes is None:
        parts = set(plan.names())
        attributes = {each.name: column_name(each) for each in spec.info.attributes}
        for name, column in attributes.items():
            if column not in names and name not in parts:
                attributes[name] = name
        attributes = {name: each for name, each in attributes.items() if each in names}
    if not isinstance(attributes, Mapping):
        attributes = {name: name for name in attributes}
    plan.attributes.update(attributes)
    if payloads is None and "payload" in set(names).difference(plan.names()):
        plan = replace(plan, payloads="payload")
    for name in plan.attributes:
        spec.attribute(name)
    check_columns(plan.id, plan.vector, names)
    for name in plan.names():
        if name not in names:
            raise ValueError(f"no column {name!r}; the columns are {', '.join(names)}")
    unused = [name for name in names if name not in plan.names()]
    if unused and spec.attributes is None:
        raise ValueError(
            f"column {unused[0]!r}: no id, vector, payload or attribute ({spec.known()}); add it to"
            " payloads=, or name the attributes to take: attributes=[...]"
        )
    return plan

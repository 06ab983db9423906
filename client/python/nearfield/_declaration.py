"""Declarations of collections: given, inferred from data, and compared with one that exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nearfield._attributes import Attribute, AttributesLike, attribute_message, declare
from nearfield._errors import AlreadyExists
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._records import CollectionInfo
from nearfield._sources.open import as_table
from nearfield._sources.source import name_of_column
from nearfield._values import dtype_value, enum_value

ScanChoice = Literal["auto", "int8", "int16", "rows"]
RowPlacement = Literal["device", "host"]


@dataclass(frozen=True)
class Declaration:
    """The properties that are fixed when a collection is created."""

    name: str
    dim: int
    metric: str
    dtype: str
    id_type: str
    attributes: tuple[Attribute, ...]
    scan: str
    rows: str
    devices: int

    def request(self) -> admin.CreateCollectionRequest:
        return admin.CreateCollectionRequest(
            name=self.name,
            dim=self.dim,
            metric=enum_value("METRIC_", common.Metric, self.metric, "metric"),
            dtype=dtype_value(self.dtype),
            id_type=enum_value("ID_TYPE_", common.IdType, self.id_type, "id_type"),
            attributes=[attribute_message(each) for each in self.attributes],
            scan=enum_value("SCAN_CHOICE_", common.ScanChoice, self.scan, "scan"),
            rows=enum_value("ROW_HOME_", common.RowHome, self.rows, "rows"),
            devices=self.devices,
        )

    def check_same(self, info: CollectionInfo) -> None:
        """Raises AlreadyExists if a collection is declared otherwise; names the difference."""
        for field in ("dim", "metric", "dtype", "id_type", "scan", "rows", "devices"):
            wanted, found = getattr(self, field), getattr(info, field)
            if wanted != found:
                raise AlreadyExists(
                    f"the collection {self.name!r} exists with {field} {found}, not {wanted}"
                )
        wanted, found = (
            {f"{each.name}:{each.text}" for each in attributes}
            for attributes in (self.attributes, info.attributes)
        )
        if wanted != found:
            raise AlreadyExists(
                f"the collection {self.name!r} exists with other attributes:"
                f" {', '.join(sorted(wanted ^ found))}"
            )


@dataclass(frozen=True)
class Inferred:
    """The properties of a collection that can hold some data."""

    dim: int
    dtype: str
    id_type: str
    attributes: tuple[Attribute, ...]


def infer(data: Any, ids: Any, vectors: str | None) -> Inferred:
    """Returns the declaration for vectors [rows, dim], or for a table with the columns id, vector
    and one for each attribute. Narrow floats stay narrow; all other numbers become float32."""
    if isinstance(data, np.ndarray):
        if vectors is not None:
            raise TypeError("vectors: names a column; an array has none")
        texts = ids is not None and len(ids) > 0 and isinstance(ids[0], str)
        return Inferred(
            data.shape[1],
            "float16" if data.dtype == np.float16 else "float32",
            "string" if texts else "uint64",
            (),
        )
    import pyarrow as pa

    from nearfield._sources.arrow_columns import declare_from

    table = as_table(data)
    id_name = name_of_column("ids", ids, "id")
    vector_name = name_of_column("vectors", vectors, "vector")
    for name in (id_name, vector_name):
        if name not in table.schema.names:
            raise ValueError(f"no column {name!r}; they are {', '.join(table.schema.names)}")
    kind = table.schema.field(vector_name).type
    dim = kind.list_size if pa.types.is_fixed_size_list(kind) else 0
    if not dim and len(table):
        dim = len(table.column(vector_name)[0])
    if not dim:
        raise ValueError(
            f"column {vector_name!r}: {kind} without rows shows no dimension: give dim"
        )
    return Inferred(
        dim,
        "float16" if kind.value_type == pa.float16() else "float32",
        "uint64" if pa.types.is_integer(table.schema.field(id_name).type) else "string",
        tuple(declare_from(table.schema, skip={id_name, vector_name})),
    )


def complete(
    name: str,
    dim: int | None,
    metric: str,
    dtype: str | None,
    id_type: str | None,
    attributes: AttributesLike | None,
    scan: str,
    rows: str,
    devices: int,
    seen: Inferred | None,
) -> Declaration:
    """Returns the declaration; what is not given is taken from `seen`, or is the default. Errors:
    TypeError if nothing says the dim."""
    if dim is None and seen is None:
        raise TypeError("give dim, or like= the data")
    return Declaration(
        name,
        dim if dim is not None else seen.dim if seen else 0,
        metric,
        dtype or (seen.dtype if seen else "float32"),
        id_type or (seen.id_type if seen else "uint64"),
        tuple(declare(attributes)) if attributes is not None else seen.attributes if seen else (),
        scan,
        rows,
        devices,
    )

"""Declarations of collections: given or inferred, and compared with one that exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nearfield._arguments import whole
from nearfield._attributes import Attribute, AttributesLike, attribute_message, declare
from nearfield._errors import AlreadyExists
from nearfield._infer import Inferred
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._records import CollectionInfo
from nearfield._values import dtype_value, enum_value

ScanChoice = Literal["auto", "int8", "int16", "rows"]
RowPlacement = Literal["device", "host"]


# The fields of CollectionInfo that a declaration has, too, without the attributes.
FIXED = ("dim", "metric", "dtype", "id_type", "scan", "rows", "devices", "embedding_model")


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
    embedding_model: str

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
            embedding_model=self.embedding_model,
        )

    def check_same(self, info: CollectionInfo) -> None:
        """Raises AlreadyExists if a collection is declared otherwise; names the difference."""
        for field in FIXED:
            wanted, found = getattr(self, field), getattr(info, field)
            if wanted != found:
                raise AlreadyExists(
                    f"the collection {self.name!r} exists with {field} {found or 'none'}, not"
                    f" {wanted or 'none'}"
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
    embedding_model: str,
    seen: Inferred | None,
) -> Declaration:
    """Returns the declaration; what is not given is taken from `seen`, or is the default. Errors:
    TypeError if nothing says the dim."""
    if dim is None and seen is None:
        raise TypeError("give dim, like= the data, or embed= the model")
    if dim is not None and seen is not None and seen.dim not in (0, dim):
        raise ValueError(f"dim: {dim}; like= has vectors of {seen.dim}")
    return Declaration(
        name,
        whole("dim", dim if seen is None or dim is not None else seen.dim, "1 .. Limits.dim_max"),
        metric,
        dtype or (seen.dtype if seen else "float32"),
        id_type or (seen.id_type if seen else "uint64"),
        tuple(declare(attributes)) if attributes is not None else seen.attributes if seen else (),
        scan,
        rows,
        whole("devices", devices, "0 or more"),
        embedding_model,
    )

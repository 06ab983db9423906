"""Records of a server: collections, limits, memory, and what it has done."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from nearfield._attributes import Attribute, read_attribute
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._proto import ingest_pb2 as ingest
from nearfield._values import enum_name

R = TypeVar("R")


def read_plain(kind: type[R], message: Any) -> R:
    """Returns a record whose fields are the message's fields of the same names."""
    return kind(**{each.name: getattr(message, each.name) for each in fields(kind)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Limits:
    """Limits of a server: common.proto, GetLimitsResponse."""

    dim_max: int
    k_max: int
    queries_max: int
    fetch_ids_max: int
    request_bytes_max: int
    response_bytes_max: int
    id_bytes_max: int
    payload_bytes_max: int
    collection_name_bytes_max: int
    upload_block_bytes_max: int
    rows_per_collection_max: int
    collections_max: int
    queue_requests_max: int
    cursor_ms: int
    page_rows_max: int
    epochs_kept_max: int
    epochs_kept_percent: int
    uploads_max: int
    verify_max: int
    aliases_max: int
    upload_token_bytes_max: int
    attributes_max: int
    attribute_keyword_bytes_max: int
    attribute_list_values_max: int
    attribute_row_bytes_max: int
    filter_levels_max: int
    filter_conditions_max: int
    filter_values_max: int
    filter_bytes_max: int
    facet_values_max: int
    upload_tokens_max: int
    upload_token_s: int
    upload_tokens_committed_max: int
    upload_idle_ms: int
    caller_share_percent: int
    search_ms_max: int
    reply_unread_ms: int
    requests_bytes_max: int
    replies_bytes_max: int
    streams_max: int
    snapshots_max: int


@dataclass(frozen=True)
class CollectionInfo:
    """A collection: admin.proto, CollectionInfo. Sizes are in bytes."""

    name: str
    dim: int
    metric: str  # dot, cosine or l2
    dtype: str  # float32, float16 or bfloat16
    id_type: str  # uint64 or string
    epoch: int
    incarnation: int
    rows_count: int
    rows_deleted: int
    generations_count: int
    device_bytes: int
    host_bytes: int
    attributes: tuple[Attribute, ...]
    scan: str  # auto, int8, int16 or rows
    rows: str  # device or host
    scan_precision: str  # rows or int8
    durable: bool
    error: str  # why its rows could not be loaded, else empty
    aliases: tuple[str, ...]
    read_failures_count: int
    owner: str  # the principal that created it, else empty
    devices: int  # that share its rows, as requested; 0: the server chooses
    embedding_model: str  # the name of the model that made its vectors; empty: unknown

    @property
    def declared(self) -> dict[str, Attribute]:
        """The attributes by name."""
        return {attribute.name: attribute for attribute in self.attributes}


_ENUMS: dict[str, tuple[str, Any]] = {
    "metric": ("METRIC_", common.Metric),
    "dtype": ("DATA_TYPE_", common.DataType),
    "id_type": ("ID_TYPE_", common.IdType),
    "scan": ("SCAN_CHOICE_", common.ScanChoice),
    "rows": ("ROW_HOME_", common.RowHome),
    "scan_precision": ("SCAN_PRECISION_", common.ScanPrecision),
}


def read_collection(message: admin.CollectionInfo) -> CollectionInfo:
    found: dict[str, Any] = {
        each.name: getattr(message, each.name) for each in fields(CollectionInfo)
    }
    for name, (prefix, enum) in _ENUMS.items():
        found[name] = enum_name(prefix, enum, found[name])
    found["attributes"] = tuple(map(read_attribute, message.attributes))
    found["aliases"] = tuple(message.aliases)
    return CollectionInfo(**found)


@dataclass(frozen=True)
class QuotaUse:
    """The amount of one resource that a principal holds: common.proto, QuotaUse."""

    name: str  # device_bytes, host_bytes, attribute_bytes, disk_bytes, collections or aliases
    used: int
    max: int  # 0: no limit


@dataclass(frozen=True)
class PrincipalUse:
    principal: str
    quotas: tuple[QuotaUse, ...]


@dataclass(frozen=True)
class DeviceUse:
    """The memory for rows of one of several devices: common.proto, DeviceUse."""

    name: str
    bytes_total: int
    bytes_used: int


@dataclass(frozen=True)
class Capacity:
    """Memory of a server in bytes: admin.proto, GetCapacityResponse."""

    backend: str  # cpu or gpu
    device_name: str
    server_version: str
    device_bytes_total: int
    device_bytes_used: int
    host_bytes_total: int
    host_bytes_used: int
    host_rows_bytes_total: int
    host_rows_bytes_used: int
    attribute_bytes_total: int
    attribute_bytes_used: int
    principals: tuple[PrincipalUse, ...]
    devices: tuple[DeviceUse, ...]  # the parts of device_bytes, if there are several


def read_capacity(message: admin.GetCapacityResponse) -> Capacity:
    found = {each.name: getattr(message, each.name) for each in fields(Capacity)}
    found["backend"] = enum_name("BACKEND_", common.Backend, message.backend)
    found["principals"] = tuple(
        PrincipalUse(
            use.principal, tuple(QuotaUse(each.name, each.used, each.max) for each in use.quotas)
        )
        for use in message.principals
    )
    found["devices"] = tuple(
        DeviceUse(use.name, use.bytes_total, use.bytes_used) for use in message.devices
    )
    return Capacity(**found)


@dataclass(frozen=True)
class CallCounter:
    """Calls of one method that ended with one status."""

    method: str
    status: str
    calls_count: int
    rows_count: int
    total_us: int


@dataclass(frozen=True)
class Counters:
    """The work of a server since its start: admin.proto, GetCountersResponse. `passes`, `audit`
    and `connections` are the numbers of those messages by name."""

    started: dt.datetime
    calls: tuple[CallCounter, ...]
    passes: dict[str, int]
    audit: dict[str, int]
    connections: dict[str, int]
    log_lines_dropped_count: int


def read_counters(message: admin.GetCountersResponse) -> Counters:
    started = dt.datetime.fromtimestamp(message.started_unix_ms / 1000, dt.timezone.utc)
    return Counters(
        started,
        tuple(read_plain(CallCounter, each) for each in message.calls),
        _numbers(message.passes),
        _numbers(message.audit),
        _numbers(message.connections),
        message.log_lines_dropped_count,
    )


def _numbers(message: Any, prefix: str = "") -> dict[str, int]:
    """Returns the numbers of a message by name, those of messages inside as "outer.inner"."""
    found: dict[str, int] = {}
    for each in message.DESCRIPTOR.fields:
        value = getattr(message, each.name)
        found.update(
            {prefix + each.name: value}
            if each.message_type is None
            else _numbers(value, f"{prefix}{each.name}.")
        )
    return found


@dataclass(frozen=True)
class ServerState:
    """The phase of a server, and how far its start is."""

    phase: str  # starting, serving, draining or lost
    reason: str  # why it does not serve, else empty
    loading: dict[str, int]  # collections and bytes; empty if nothing is being loaded


def read_state(message: admin.GetServerStateResponse) -> ServerState:
    loading = _numbers(message.loading) if message.HasField("loading") else {}
    return ServerState(
        enum_name("SERVER_PHASE_", admin.ServerPhase, message.phase), message.reason, loading
    )


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot of all collections: admin.proto, SnapshotInfo."""

    name: str
    files_count: int
    bytes: int
    created: dt.datetime
    error: str  # why it cannot be used, else empty
    owner: str  # the principal that made it; empty: made without a key


def read_snapshot(message: admin.SnapshotInfo) -> Snapshot:
    created = dt.datetime.fromtimestamp(message.created_unix_s, dt.timezone.utc)
    return Snapshot(
        message.name, message.files_count, message.bytes, created, message.error, message.owner
    )


@dataclass(frozen=True)
class Compacted:
    """The memory and disk space that a compaction has released: admin.proto, CompactResponse."""

    rows_given_back: int
    device_bytes_given_back: int
    host_bytes_given_back: int
    stored_rows_given_back: int
    stored_bytes_given_back: int


@dataclass(frozen=True)
class OpenUpload:
    """An upload with a token that is neither committed nor dropped: ingest.proto, OpenUpload."""

    token: str
    collection: str
    mode: str
    rows_count: int
    bytes_on_disk: int
    untouched_s: int
    is_live: bool


def read_open_upload(message: ingest.OpenUpload) -> OpenUpload:
    return OpenUpload(
        message.upload_token.decode("utf-8", "replace"),
        message.collection,
        enum_name("UPLOAD_MODE_", ingest.UploadMode, message.mode),
        message.rows_count,
        message.bytes_on_disk,
        message.untouched_s,
        message.is_live,
    )


@dataclass(frozen=True)
class UploadState:
    """How far an upload with a token got: ingest.proto, GetUploadResponse."""

    committed: bool
    next_block: int
    rows_count: int
    epoch: int

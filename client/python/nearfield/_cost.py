"""The cost of a search, and its explanation in words."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from nearfield._proto import common_pb2 as common
from nearfield._proto import retrieval_pb2 as retrieval
from nearfield._values import enum_name


@dataclass(frozen=True)
class Cost:
    """Where the time went: retrieval.proto, SearchCost. Times in microseconds, unless named
    otherwise; device time, candidates, bytes and escalations are those of the whole device pass,
    which batch_size queries shared."""

    queue_us: int
    device_us: int
    total_us: int
    batch_size: int
    backend: str  # cpu or gpu
    scan_precision: str  # rows or int8
    candidates: int
    rows_scanned: int
    bytes_read: int
    escalations_tighter: int
    escalations_canonical: int
    read_ns_min: int

    @property
    def read_limit_share(self) -> float | None:
        """Share of the device's read limit that the search reached; None if it is unknown."""
        if self.read_ns_min == 0 or self.device_us == 0:
            return None
        return self.read_ns_min / (self.device_us * 1000)

    def explain(self, epoch: int) -> str:
        """Returns the cost in the words of `nearfield search --explain`."""
        tighter, canonical = self.escalations_tighter, self.escalations_canonical
        escalations = f"{tighter:,} tighter, {canonical:,} canonical" if tighter + canonical else ""
        share = self.read_limit_share
        limit = "" if share is None else f" ({100 * share:.3g}% of the read limit)"
        return (
            f"epoch {epoch}; path {self.backend}/{self.scan_precision};"
            f" {self.candidates:,} candidates of {self.rows_scanned:,} rows scanned,"
            f" {_bytes(self.bytes_read)} read; escalations {escalations or 'none'}\n"
            f"queue {_seconds(self.queue_us)}, device {_seconds(self.device_us)}{limit},"
            f" total {_seconds(self.total_us)}, batch of {self.batch_size}"
        )


# The fields that Cost has from the message as they are.
_PLAIN = tuple(
    each.name
    for each in fields(Cost)
    if not each.name.startswith("escalations") and each.name not in ("backend", "scan_precision")
)


def read_cost(message: retrieval.SearchCost) -> Cost:
    found: dict[str, Any] = {name: getattr(message, name) for name in _PLAIN}
    return Cost(
        backend=enum_name("BACKEND_", common.Backend, message.backend),
        scan_precision=enum_name("SCAN_PRECISION_", common.ScanPrecision, message.scan_precision),
        escalations_tighter=message.escalations.tighter,
        escalations_canonical=message.escalations.canonical,
        **found,
    )


def _seconds(microseconds: int) -> str:
    if microseconds < 1000:
        return f"{microseconds} us"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds / 1e6:.1f} s"


def _bytes(count: float) -> str:
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    while count >= 999.5 and len(units) > 1:
        count /= 1000
        units.pop(0)
    if units[0] == "B":
        return f"{count:.0f} B"
    return f"{count:.{2 if count < 10 else 1 if count < 100 else 0}f} {units[0]}"

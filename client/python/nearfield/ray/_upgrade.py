"""Storages of the formats 1 to 3, which had one coordinator at a time, with the highest term:

terms/TTTTTTTT-<owner>.json               claims of coordinators
manifests/TTTTTTTT-NNNNNNNNNNNN.json      the newest has the highest term, then number"""

from __future__ import annotations

from nearfield._errors import DataLoss
from nearfield.ray._manifest import Manifest
from nearfield.ray._store import Store

# No coordinator of an earlier version starts or acknowledges a commit next to this claim.
_CLAIM = "terms/taken-over-by-format-4.json"


def earlier_manifest(store: Store) -> Manifest | None:
    """Returns the newest manifest of an earlier format; None if there is none. Errors: OSError;
    those of Manifest.decode; DataLoss if the file has the name of another manifest."""
    names = store.list("manifests")
    if not names:
        return None
    found = Manifest.decode(store.get(names[-1]), names[-1])
    if not names[-1].endswith(f"-{found.number:012}.json"):
        raise DataLoss(f"{names[-1]}: it is damaged: it has the number {found.number}")
    return found


def take_over(store: Store) -> Manifest | None:
    """As earlier_manifest; no coordinator of an earlier version commits any more."""
    if earlier_manifest(store) is None:
        return None
    store.put(_CLAIM, b"{}")
    return earlier_manifest(store)

"""Model of a collection that clients change while its server is killed: the acknowledged changes,
the changes that may have been committed, and the right answers at each epoch. Used by
scripts/devices_campaign."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import sys
import threading
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import canonical  # noqa: E402

ID_STEP = 1 << 20  # row i of batch b has the id b + i * ID_STEP: the ids of all batches interleave
SHARED_ROWS = 64  # rows of which every batch holds copies, so that scores tie across batches
SHARED_ONE_IN = 20

Array = np.ndarray
Answer = list[tuple[int, int]]  # (id, bits of the fp32 score), best first


@dataclasses.dataclass(frozen=True)
class Problem:
    """A violation. kind: lost, half or wrong."""

    kind: str
    batch: int | None
    text: str


class Batch:
    """The rows of one upload, and the best of them for each query of the campaign."""

    def __init__(self, number: int, rows: Array, queries: Array, k: int) -> None:
        self.number = number
        self.rows: Array | None = rows
        self.ids = np.uint64(number) + np.arange(len(rows), dtype=np.uint64) * np.uint64(ID_STEP)
        self.best = best_of(rows, self.ids, queries, k)
        self.added: int | None = None  # epoch; None: not committed, or not known
        self.removed: int | None = None


@dataclasses.dataclass(eq=False)
class Change:
    """A call that adds or removes a batch."""

    batch: Batch
    removes: bool = False
    token: str = ""


def make_queries(seed: int, count: int, dim: int) -> Array:
    """Returns queries; every other one is near a shared row, so that its best rows are copies."""
    queries = np.random.default_rng([seed, 1]).standard_normal((count, dim), dtype=np.float32)
    near = shared_rows(seed, dim)[: len(queries[::2])]
    queries[: 2 * len(near) : 2] = near + np.float32(0.125) * queries[: 2 * len(near) : 2]
    return queries


def shared_rows(seed: int, dim: int) -> Array:
    return np.random.default_rng([seed, 2]).standard_normal((SHARED_ROWS, dim), dtype=np.float32)


def make_rows(seed: int, number: int, count: int, dim: int) -> Array:
    """Returns the rows of a batch."""
    rng = np.random.default_rng([seed, 3, number])
    rows = rng.standard_normal((count, dim), dtype=np.float32)
    copies = rng.integers(count, size=count // SHARED_ONE_IN)
    rows[copies] = shared_rows(seed, dim)[rng.integers(SHARED_ROWS, size=len(copies))]
    return rows


def best_of(rows: Array, ids: Array, queries: Array, k: int) -> list[Answer]:
    """Returns the k best rows for each query by dot product, to the bit. The canonical scores are
    computed only for rows whose fp32 products, within their error bound, reach the k-th."""
    products = queries @ rows.T
    epsilon = float(np.finfo(np.float32).eps)
    row_norm = float(np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1).max()))
    answers = []
    for query, found in zip(queries, products):
        error = (rows.shape[1] + 2) * epsilon * row_norm * float(np.linalg.norm(query.astype(np.float64)))
        kept = np.arange(len(rows))
        if len(rows) > k:
            kept = np.flatnonzero(found >= np.partition(found, len(rows) - k)[len(rows) - k] - 2 * error)
        answers.append(canonical.best("dot", query, rows[kept], [int(identity) for identity in ids[kept]], k))
    return answers


def order_of(neighbor: tuple[int, int]) -> tuple[float, int]:
    """Returns the key of the reply order: higher scores first, then lower ids."""
    return -float(np.uint32(neighbor[1]).view(np.float32)), neighbor[0]


def contents(ids: Array, rows: Array, batches: dict[int, Batch]) -> tuple[dict[int, str], int]:
    """Compares stored rows with batches: returns whole, half or changed for each batch that has
    rows, and the number of rows of no batch."""
    numbers = (ids % np.uint64(ID_STEP)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    names, begins = np.unique(numbers[order], return_index=True)
    states, strangers = {}, 0
    for name, begin, end in zip(names.tolist(), begins, [*begins[1:], len(ids)]):
        batch, at = batches.get(name), order[begin:end]
        if batch is None or not np.isin(ids[at], batch.ids).all():
            strangers += len(at)
        elif not np.array_equal(ids[at], batch.ids):
            states[name] = "half"
        else:
            same = batch.rows is None or np.array_equal(rows[at].view(np.uint32), batch.rows.view(np.uint32))
            states[name] = "whole" if same else "changed"
    return states, strangers


class Model:
    """All batches, by number. Changes come from several threads; checks from one, while no other
    runs."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.batches: dict[int, Batch] = {}
        self.lock = threading.Lock()
        self.pending: list[Change] = []  # sent, not acknowledged
        self.applied: list[Change] = []  # found after a death, without a known epoch
        self.gaps: list[int] = []  # the epochs of these
        self.epochs: set[int] = set()  # of acknowledged and found changes
        self.cache: dict[tuple[int, int], list[Answer]] = {}

    def begin(self, change: Change) -> None:
        with self.lock:
            self.batches[change.batch.number] = change.batch
            self.pending.append(change)

    def acknowledge(self, change: Change, epoch: int) -> None:
        with self.lock:
            self.pending.remove(change)
            self._settle(change, epoch)

    def begin_removal(self, rng: np.random.Generator) -> Change | None:
        """Starts to remove a random batch, except the first; None if there is none."""
        with self.lock:
            busy = {change.batch.number for change in self.pending}
            live = [batch for number, batch in sorted(self.batches.items())
                    if number and number not in busy and batch.added is not None and batch.removed is None]
            if not live:
                return None
            change = Change(live[int(rng.integers(len(live)))], removes=True)
            self.pending.append(change)
            return change

    def rows_count(self) -> int:
        """Returns the number of rows of all batches with a known state."""
        return sum(len(batch.ids) for batch in self.batches.values() if batch.added is not None and batch.removed is None)

    def resolve(self, states: dict[int, str], strangers: int, epoch: int) -> list[Problem]:
        """Compares what a server holds after a death with what it must hold, and finds out which
        pending changes it committed."""
        problems = [Problem("wrong", None, f"{strangers} rows of no upload")] if strangers else []
        pending = {change.batch.number: change for change in self.pending}
        self.cache.clear()
        self.applied = []
        for number, batch in list(self.batches.items()):
            state = states.get(number, "absent")
            change = pending.get(number)
            must = "absent" if batch.removed is not None or batch.added is None else "whole"
            if state in ("half", "changed"):
                problems.append(Problem("half" if state == "half" else "wrong", number, f"batch {number} is {state}"))
            elif change is None and state != must:
                problems.append(Problem("lost", number, f"batch {number} is {state}, acknowledged was {must}"))
            elif change is not None and (state == "absent") == change.removes:
                self.applied.append(change)
            elif change is not None and not change.removes and not change.token:
                del self.batches[number]
        self.gaps = sorted(set(range(1, epoch + 1)) - self.epochs)
        if max(self.epochs, default=0) > epoch:
            problems.append(Problem("lost", None, f"epoch {epoch} after an acknowledged {max(self.epochs)}"))
        elif len(self.gaps) != len(self.applied):
            problems.append(Problem("wrong", None, f"epoch {epoch}: {len(self.gaps)} epochs for {len(self.applied)} changes"))
        return problems

    def settle(self) -> list[Change]:
        """Takes over the changes that were found. Their order is not known and no longer matters.
        Returns the uploads with a token that were pending."""
        for change, epoch in zip(self.applied, self.gaps):
            self._settle(change, epoch)
        again = [change for change in self.pending if change.token]
        self.pending, self.applied = [], []
        self.cache.clear()
        return again

    def right(self, epoch: int, query: int, answer: Answer) -> bool:
        """Returns True if this is the answer to a query at an epoch."""
        if (epoch, query) not in self.cache:
            self.cache[epoch, query] = [self._answer(live, query) for live in self._live(epoch)]
        return answer in self.cache[epoch, query]

    def _settle(self, change: Change, epoch: int) -> None:
        self.epochs.add(epoch)
        if change.removes:
            change.batch.removed, change.batch.rows = epoch, None
        else:
            change.batch.added = epoch

    def _live(self, epoch: int) -> list[list[Batch]]:
        """Returns the batches at an epoch: one list for each order that the changes without a known
        epoch may have."""
        def reached(at: int | None) -> bool:
            return at is not None and at <= epoch

        known = {batch.number for batch in self.batches.values() if reached(batch.added) and not reached(batch.removed)}
        lists = []
        for chosen in itertools.combinations(self.applied, sum(gap <= epoch for gap in self.gaps) if self.applied else 0):
            added = {change.batch.number for change in chosen if not change.removes}
            removed = {change.batch.number for change in chosen if change.removes}
            lists.append([self.batches[number] for number in (known | added) - removed])
        return lists

    def _answer(self, live: list[Batch], query: int) -> Answer:
        return heapq.nsmallest(self.k, (neighbor for batch in live for neighbor in batch.best[query]), key=order_of)

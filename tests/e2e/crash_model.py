"""A model of a collection's expected content, in dictionaries, and a comparison with a server's
answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from canonical import best

DIM = 8


@dataclass(frozen=True)
class State:
    """A collection at one epoch: id -> (vector, payload)."""

    epoch: int = 0
    rows: dict = field(default_factory=dict)

    def answer(self, metric: str, query: np.ndarray) -> list[tuple[object, int]]:
        ids = list(self.rows)
        vectors = np.array([self.rows[name][0] for name in ids], dtype=np.float32).reshape(len(ids), DIM)
        return best(metric, query, vectors, ids, len(ids)) if ids else []


@dataclass
class Operation:
    """One call that changes a collection, and the state after it."""

    mode: str  # INSERT, UPSERT, REPLACE, DELETE
    blocks: list[tuple[list, np.ndarray, list[bytes]]]  # ids, vectors, payloads; DELETE: only ids
    after: State
    token: bytes | None = None

    def rows_in(self, blocks: int) -> int:
        return sum(len(block[0]) for block in self.blocks[:blocks])


def draw(rng: np.random.Generator, state: State, texts: bool, number: int) -> Operation:
    """Draws a random operation on `state`; `number` is unique for each operation."""
    name = (lambda n: f"r{n}") if texts else int
    mode = str(rng.choice(["INSERT", "UPSERT", "UPSERT", "REPLACE", "DELETE", "DELETE"]))
    if len(state.rows) > 300:
        mode = "REPLACE"
    if len(state.rows) < 20:
        mode = "INSERT"
    known = [list(state.rows)[int(at)] for at in rng.choice(max(1, len(state.rows)), size=min(len(state.rows), 12),
                                                          replace=False)] if state.rows else []
    if mode == "DELETE":
        rows = {key: value for key, value in state.rows.items() if key not in known}
        return Operation(mode, [(known + [name(10**9 + number)], np.zeros((0, DIM)), [])], State(state.epoch + 1, rows))
    count = int(rng.integers(1, 60))
    ids = [name(number * 1000 + i) for i in range(count)]
    if mode != "INSERT":
        ids = known[:count] + ids[len(known[:count]):]
    vectors = rng.standard_normal((count, DIM), dtype=np.float32)
    payloads = [rng.bytes(int(rng.integers(0, 9))) for _ in ids]
    added = dict(zip(ids, zip(vectors, payloads)))
    rows = added if mode == "REPLACE" else {**state.rows, **added}
    cuts = sorted({0, count, *rng.integers(0, count + 1, size=2).tolist()})
    blocks = [(ids[a:b], vectors[a:b], payloads[a:b]) for a, b in zip(cuts, cuts[1:])]
    token = b"%s token %d" % (b"text" if texts else b"number", number) if rng.random() < 0.5 else None
    return Operation(mode, blocks, State(state.epoch + 1, rows), token)


def difference(found: tuple, before: tuple, after: tuple | None) -> str:
    """Returns lost, half or wrong: the difference of an answer (epoch, [(id, bits)], payloads) from
    both states, if it equals neither."""
    ids = {identity for identity, _ in found[1]}
    needed = {identity for identity, _ in before[1]} & {identity for identity, _ in (after or before)[1]}
    if found[0] < before[0] or needed - ids:
        return "lost"
    if after and set(found[1]) <= set(before[1]) | set(after[1]):
        return "half"
    return "wrong"

"""A model of a collection's expected content, in dictionaries, and a comparison with a server's
answers. The model of the C++ tests is tests/testing/row_model.h; this one shares no code with the
server that it checks."""

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

    def added(self, rows: dict) -> State:
        return State(self.epoch + 1, {**self.rows, **rows})

    def replaced(self, rows: dict) -> State:
        return State(self.epoch + 1, rows)

    def without(self, ids: list) -> State:
        return State(self.epoch + 1, {key: row for key, row in self.rows.items() if key not in ids})


@dataclass
class Operation:
    """One call that changes a collection, and the state after it."""

    mode: str  # INSERT, UPSERT, REPLACE, DELETE
    blocks: list[tuple[list, np.ndarray, list[bytes]]]  # ids, vectors, payloads; DELETE: only ids
    after: State
    token: bytes | None = None

    def rows_in(self, blocks: int) -> int:
        return sum(len(block[0]) for block in self.blocks[:blocks])


def draw_mode(rng: np.random.Generator, state: State) -> str:
    """Draws a mode that keeps the number of rows between about 20 and 300."""
    mode = str(rng.choice(["INSERT", "UPSERT", "UPSERT", "REPLACE", "DELETE", "DELETE"]))
    if len(state.rows) > 300:
        return "REPLACE"
    return "INSERT" if len(state.rows) < 20 else mode


def draw_known_ids(rng: np.random.Generator, state: State) -> list:
    """Draws at most 12 ids of existing rows."""
    ids = list(state.rows)
    if not ids:
        return []
    return [ids[int(at)] for at in rng.choice(len(ids), size=min(len(ids), 12), replace=False)]


def draw_blocks(rng: np.random.Generator, rows: dict) -> list[tuple[list, np.ndarray, list[bytes]]]:
    """Cuts the rows into one to three blocks."""
    ids, vectors, payloads = list(rows), np.array([row[0] for row in rows.values()]), [row[1] for row in rows.values()]
    cuts = sorted({0, len(ids), *rng.integers(0, len(ids) + 1, size=2).tolist()})
    return [(ids[a:b], vectors[a:b], payloads[a:b]) for a, b in zip(cuts, cuts[1:])]


def draw(rng: np.random.Generator, state: State, texts: bool, number: int) -> Operation:
    """Draws a random operation on `state`; `number` is unique for each operation."""
    name = (lambda n: f"r{n}") if texts else int
    mode = draw_mode(rng, state)
    known = draw_known_ids(rng, state)
    if mode == "DELETE":
        unknown = name(10**9 + number)
        return Operation(mode, [([*known, unknown], np.zeros((0, DIM)), [])], state.without(known))
    count = int(rng.integers(1, 60))
    reused = [] if mode == "INSERT" else known[:count]
    ids = reused + [name(number * 1000 + i) for i in range(len(reused), count)]
    vectors = rng.standard_normal((count, DIM), dtype=np.float32)
    rows = {key: (vector, rng.bytes(int(rng.integers(0, 9)))) for key, vector in zip(ids, vectors)}
    blocks = draw_blocks(rng, rows)
    token = b"%s token %d" % (b"text" if texts else b"number", number) if rng.random() < 0.5 else None
    return Operation(mode, blocks, state.replaced(rows) if mode == "REPLACE" else state.added(rows), token)


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

#!/usr/bin/env python3
"""Measures agents that search in steps: each hop searches with what the hop before has found.

    python tests/bench/agent_loop.py --server build/bench/bin/nearfield-server
    python tests/bench/agent_loop.py --address 127.0.0.1:50051 --rows 1000000 --dim 768

A step of an agent begins at a stored row and makes --hops searches, one after the other: for the
neighbors of the row, from which it takes the best one that the step has not seen yet. Hops name the
row by its id, or carry its vector, which the hop before has returned. The agents run in --processes
processes, each with one connection. --tiny is for the test suite.

Prints the time of a step, and of its hops where the time went: in the queue and on the device, as
the server reports them, elsewhere in the server, and outside of it (network, gRPC, Python). The
steps of the first --verified agents are first made alone, with each answer checked by the server's
oracle; all later runs must take the same paths. Writes a receipt
(tests/bench/receipts/agent_loop_<device>.json).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nearfield
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import campaign  # noqa: E402
from campaign import Row  # noqa: E402
from server import ServerProcess  # noqa: E402

NAME = "agent-loop-bench"
PARTS = ("step", "hop", "queue", "device", "server_rest", "network")
START_SECONDS_MAX = 300


@dataclass(frozen=True)
class Load:
    """The work of the agents. Picklable: each process gets it."""

    address: str
    rows: int
    hops: int
    steps: int
    by: str  # id or vector
    verify: bool = False

    def start(self, agent: int, step: int) -> int:
        """Returns the row at which a step begins."""
        return int(np.random.default_rng([agent, step]).integers(self.rows))


@dataclass
class Step:
    """One step: the rows of its path, and microseconds: of the step, and of its hops by part."""

    path: list[int]
    step_us: float
    hops_us: list[tuple[float, ...]]  # hop, queue, device, server_rest, network
    batches: list[int]


async def make_step(docs: nearfield.AsyncCollection, load: Load, begin: int) -> Step:
    # One more than the rows that may be visited; a search by a vector also finds its own row.
    options: dict[str, Any] = {"k": load.hops + 2, "verify": load.verify, "vectors": load.by == "vector"}
    vector = (await docs.fetch([begin])).vectors[0] if load.by == "vector" else None
    made = Step([begin], 0, [], [])
    began = time.perf_counter()
    for _ in range(load.hops):
        sent = time.perf_counter()
        found = await (docs.search(id=made.path[-1], **options) if vector is None else docs.search(vector, **options))
        took = (time.perf_counter() - sent) * 1e6
        place, chosen = next((i, int(each)) for i, each in enumerate(found.ids) if int(each) not in made.path)
        made.path.append(chosen)
        vector = None if vector is None else found.vectors[place]
        cost = found.cost
        rest = cost.total_us - cost.queue_us - cost.device_us
        made.hops_us.append((took, cost.queue_us, cost.device_us, rest, took - cost.total_us))
        made.batches.append(cost.batch_size)
    made.step_us = (time.perf_counter() - began) * 1e6
    return made


async def run_agents(load: Load, agents: range, ready: Any) -> list[list[Step]]:
    """Runs the agents of one process at the same time; returns their steps."""
    async with nearfield.AsyncClient(load.address, timeout=600, caller=f"{NAME}-{agents.start}") as client:
        docs = client.collection(NAME)

        async def agent(number: int) -> list[Step]:
            return [await make_step(docs, load, load.start(number, step)) for step in range(load.steps)]

        await docs.search(id=0, k=1)  # connects
        if ready is not None:
            ready.wait(START_SECONDS_MAX)
        return list(await asyncio.gather(*map(agent, agents)))


def process(load: Load, agents: range, ready: Any, results: Any) -> None:
    results.put((agents.start, asyncio.run(run_agents(load, agents, ready))))


def run_load(load: Load, agents_count: int, processes_count: int) -> tuple[list[list[Step]], float]:
    """Runs all agents. Returns their steps in the order of the agents, and the seconds."""
    context = multiprocessing.get_context("spawn")  # gRPC does not survive a fork
    ready, results = context.Barrier(processes_count + 1), context.Queue()
    borders = [agents_count * i // processes_count for i in range(processes_count + 1)]
    parts = [range(*border) for border in zip(borders, borders[1:])]
    workers = [context.Process(target=process, args=(load, part, ready, results), daemon=True) for part in parts]
    for worker in workers:
        worker.start()
    ready.wait(START_SECONDS_MAX)
    began = time.perf_counter()
    found = dict(results.get(timeout=3600) for _ in workers)
    seconds = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return [steps for begin in sorted(found) for steps in found[begin]], seconds


def paths_of(agents: list[list[Step]]) -> list[list[list[int]]]:
    return [[step.path for step in steps] for steps in agents]


def row_of(load: Load, agents: list[list[Step]], seconds: float) -> Row:
    """Returns the row of the receipt: p50 and p99 in microseconds of each part."""
    steps = [step for each in agents for step in each]
    hops = np.array([hop for step in steps for hop in step.hops_us])
    parts = dict(zip(PARTS, [np.array([step.step_us for step in steps]), *hops.T]))
    row: Row = {"bench": "agent_loop", "by": load.by, "agents": len(agents), "hops": load.hops, "steps": len(steps)}
    for name, values in parts.items():
        row[f"{name}_p50_us"], row[f"{name}_p99_us"] = (round(float(each), 1) for each in np.percentile(values, [50, 99]))
        row[f"{name}_mean_us"] = round(float(values.mean()), 1)
    row["batch_mean"] = round(float(np.mean([batch for step in steps for batch in step.batches])), 2)
    row["searches_per_second"] = round(len(hops) / seconds, 1)
    row["paths_sha256"] = hashlib.sha256(repr(paths_of(agents)).encode()).hexdigest()[:16]
    return row


def corpus(rows: int, dim: int) -> np.ndarray:
    return np.random.default_rng(11).standard_normal((rows, dim), dtype=np.float32)


def measure(arguments: argparse.Namespace, address: str) -> list[Row]:
    """Fills the collection, and measures hops by ids and by vectors."""
    rows: list[Row] = []
    with nearfield.connect(address, timeout=600) as client:
        docs = client.create_collection(NAME, arguments.dim, metric="cosine")
        try:
            docs.upload(corpus(arguments.rows, arguments.dim))
            for by in ("id", "vector"):
                load = Load(address, arguments.rows, arguments.hops, arguments.steps, by)
                checked = Load(address, arguments.rows, arguments.hops, 1, by, verify=True)
                wanted = paths_of(asyncio.run(run_agents(checked, range(arguments.verified), None)))
                agents, seconds = run_load(load, arguments.agents, arguments.processes)
                got = [steps[:1] for steps in paths_of(agents)[: arguments.verified]]
                if got != wanted:
                    raise SystemExit(f"hops by {by} took other paths than the verified ones")
                rows.append({**row_of(load, agents, seconds), "rows": arguments.rows, "dim": arguments.dim,
                             "processes": arguments.processes})
            if rows[0]["paths_sha256"] != rows[1]["paths_sha256"]:
                raise SystemExit("hops by id and hops by vector took different paths")
        finally:
            client.drop_collection(NAME)
    return rows


def table(rows: list[Row]) -> str:
    lines = [f"{'':>12}" + "".join(f"{name:>20}" for name in PARTS) + f"{'batch':>8}{'searches/s':>12}"]
    for row in rows:
        for rank in ("p50", "p99", "mean"):
            cells = "".join(f"{row[f'{name}_{rank}_us']:>17,.0f} us" for name in PARTS)
            rest = f"{row['batch_mean']:>8.1f}{row['searches_per_second']:>12,.0f}" if rank == "p50" else ""
            lines.append(f"{row['by']:>7} {rank:>4}" + cells + rest)
    lines.append(f"{rows[0]['agents']} agents, {rows[0]['hops']} hops a step, {rows[0]['rows']:,} x {rows[0]['dim']}"
                 f" rows; paths {rows[0]['paths_sha256']}")
    return "\n".join(lines)


@contextmanager
def serving(arguments: argparse.Namespace) -> Iterator[str]:
    """Yields the address of a server: the given one, or that of one that runs until the end."""
    if not arguments.server:
        yield arguments.address
        return
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess([arguments.server, "--listen", "127.0.0.1:0", "--data-dir", "none", "--log-level", "info"],
                               Path(folder, "log"))  # fmt: skip
        try:
            yield server.wait_ready()
        finally:
            server.terminate()


def main() -> None:
    parser = campaign.parser_of(__doc__, "agent_loop_<device>")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--address", default="127.0.0.1:50051", help="a server that runs")
    where.add_argument("--server", help="program to start instead")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--hops", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20, help="of each agent")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--verified", type=int, default=2, help="agents whose first step is verified")
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.rows, arguments.dim, arguments.agents, arguments.hops = 2000, 16, 6, 4
        arguments.steps, arguments.processes = 3, 2
    with serving(arguments) as address:
        rows = measure(arguments, address)
    campaign.finish_on_gpu(arguments, "agent_loop", rows, [], table(rows))


if __name__ == "__main__":
    main()
